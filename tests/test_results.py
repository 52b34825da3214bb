"""Association results read back: every column, every format, and errors that say where."""

from __future__ import annotations

import contextlib
import gzip
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamma.core.errors import InputError, UsageError
from jamma.io import arrays
from jamma.io.results import associations, column_names, read_blocks

HEAD = "chr\trs\tps\tn_miss\tallele1\tallele0\taf\tbeta\tp_wald\n"
ROWS = (
    "1\trs1\t100\t0\tA\tG\t0.500\t1.000000e-01\t5.000000e-01\n"
    "X\trs\u00e92\t-9\t3\t<DEL>\tG\t0.010\tnan\tnan\n"
    "chr7\tname with space\t3000000000\t12\tAT\t*\t0.999\t-2.500000e+00\t0.000000e+00\n"
)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block_bytes", [1, 50, 8 << 20])
def test_associations(tmp_path, monkeypatch, packed, end, block_bytes):
    monkeypatch.setattr(arrays, "BLOCK_BYTES", block_bytes)
    data = ("\ufeff" + HEAD + ROWS).replace("\n", end).encode()
    path = tmp_path / "a.assoc.txt"
    path.write_bytes(gzip.compress(data) if packed else data)
    got = associations(path, n_threads=2)
    assert got.dtype.names == tuple(HEAD.strip().split("\t"))
    assert got["chr"].tolist() == ["1", "X", "chr7"]
    assert got["rs"].tolist() == ["rs1", "rs\u00e92", "name with space"]
    assert got["ps"].tolist() == [100, -9, 3_000_000_000]
    assert got["ps"].dtype == np.int64
    assert got["allele1"].tolist() == ["A", "<DEL>", "AT"]
    np.testing.assert_array_equal(got["p_wald"], [0.5, np.nan, 0])
    assert got[2]["beta"] == -2.5


def test_no_rows_and_blank_lines_at_the_end(tmp_path):
    for text, n in ((HEAD, 0), (HEAD[:-1], 0), (HEAD + ROWS + "\n\n", 3), (HEAD + ROWS[:-1], 3)):
        (tmp_path / "a").write_text(text)
        assert len(associations(tmp_path / "a")) == n


def test_the_reference(shared_data):
    path = shared_data / "gemma_reference" / "lmm4.assoc.txt.gz"
    got = associations(path, 2)
    with gzip.open(path, "rt") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    assert len(got) == len(rows)
    for k, name in enumerate(got.dtype.names):
        kind = got.dtype[name].type
        assert got[name].tolist() == [kind(row[k]) for row in rows]


def test_some_columns_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK_BYTES", 60)
    (tmp_path / "a").write_text(HEAD + ROWS)
    blocks = list(read_blocks(tmp_path / "a", ["ps", "chr"]))
    assert len(blocks) > 1
    assert np.concatenate([b["ps"] for b in blocks]).tolist() == [100, -9, 3e9]
    assert [t for b in blocks for t in b["chr"].texts()] == ["1", "X", "chr7"]


def refused(path, text):
    path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        associations(path)
    return str(caught.value).replace(str(path), "A").split("\n")


def test_errors_say_where(tmp_path, monkeypatch):
    path = tmp_path / "a"
    for size in (8 << 20, 1):
        monkeypatch.setattr(arrays, "BLOCK_BYTES", size)
        assert refused(path, HEAD + ROWS + ROWS[:30])[0] == "A:5: 8 columns, the header has 9: damaged or cut short"
        assert refused(path, HEAD + ROWS.replace("0.010", "0,010"))[0] == "A:3:7: '0,010', expected a number (af)"
    assert "expected the tab-separated header" in refused(path, "")[0]
    assert "expected the tab-separated header" in refused(path, "chr rs ps\n")[0]
    assert "names a column twice" in refused(path, "chr\tchr\n")[0]
    assert "damaged gzip" in refused(path, gzip.compress((HEAD + ROWS).encode())[:-9])[0]
    path.write_text(HEAD)
    with pytest.raises(InputError, match="no column p_lrt; it has chr, rs"):
        list(read_blocks(path, ["p_lrt"]))


def test_gwas_ssf_names(tmp_path):
    (tmp_path / "a").write_text("chromosome\tbase_pair_location\tp_value\n1\t5\t1e-400\n")
    assert column_names(tmp_path / "a") == ["chr", "ps", "p_value"]
    assert associations(tmp_path / "a")["p_value"].tolist() == [0]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"chr": ["1", "é"], "ps": [3, 4], "rs": ["a", "bcd"], "p_wald": [0.5, None]})
    parquet.write_table(table, tmp_path / "a")
    got = associations(tmp_path / "a")
    assert got["chr"].tolist() == ["1", "é"]
    assert got["rs"].tolist() == ["a", "bcd"]
    assert got["ps"].tolist() == [3, 4]
    np.testing.assert_array_equal(got["p_wald"], [0.5, np.nan])
    assert "damaged Parquet" in refused(tmp_path / "b", (tmp_path / "a").read_bytes()[:-20])[0]


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"jamma\[parquet\]"):
        associations(tmp_path / "a")


@given(st.binary(max_size=120), st.booleans())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(tmp_path, data, with_header):
    (tmp_path / "a").write_bytes(HEAD.encode() + data if with_header else data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(InputError, UsageError):
            associations(tmp_path / "a")
