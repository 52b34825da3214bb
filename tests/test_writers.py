"""Result files: GEMMA's bytes, whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from jamma.core.errors import OutputError, UsageError
from jamma.io import atomic, bgzf
from jamma.io.atomic import AtomicFile, atomic_output
from jamma.io.log import RunRecord
from jamma.io.writers import AssocWriter, DroppedWriter, VariantText, assoc_path, first_statistic, write_log
from jamma.lmm.schema import STATISTICS, AssocChunk, NullModel


@dataclass
class Bim:
    """The columns of a .bim."""

    chrom: list[str]
    rs: list[str]
    ps: np.ndarray
    allele1: list[str]
    allele0: list[str]


def make_bim(p):
    return Bim(
        [str(1 + i // 10) for i in range(p)], [f"rs{i}" for i in range(p)], np.arange(p) * 1000,
        ["A"] * p, ["GT" if i % 3 else "C" for i in range(p)],
    )  # fmt: skip


def make_chunk(index, mode, seed=0):
    rng = np.random.default_rng(seed)
    k = len(index)
    statistics = {name: rng.normal(size=k) * 10.0 ** rng.integers(-9, 9, k) for name in STATISTICS[mode]}
    return AssocChunk(
        index=np.asarray(index, dtype=np.int64), n_miss=rng.integers(0, 50, k).astype(np.int32), af=rng.random(k),
        statistics=statistics, neg_log10_p=rng.random(k) * 400, reason=np.zeros(k, dtype=np.uint8),
    )  # fmt: skip


NULL = NullModel(
    lambda_remle=4.3, logl_remle=-1584.07123, lambda_mle=4.2, logl_mle=-1584.451, pve=0.6096721, pve_se=0.03277881,
    vg=1.479141, ve=0.3405523, beta=np.array([-7.573331e-17]), se_beta=np.array([0.01554112]), trace_g=0.36,
)  # fmt: skip


@pytest.mark.parametrize("mode", STATISTICS)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_gemma_format(tmp_path, mode, n_threads):
    bim, chunk = make_bim(30), make_chunk([3, 5, 29], mode)
    path = assoc_path(tmp_path / "deep" / "er" / "run")
    with AssocWriter(path, bim, mode, n_samples=1410, n_threads=n_threads) as writer:
        writer.write(chunk)
        assert not path.exists()
    expected = ["\t".join(["chr", "rs", "ps", "n_miss", "allele1", "allele0", "af", *STATISTICS[mode]])]
    for k, i in enumerate(chunk.index):
        start = f"{bim.chrom[i]}\trs{i}\t{i * 1000}\t{chunk.n_miss[k]}\tA\t{bim.allele0[i]}\t{chunk.af[k]:.3f}"
        expected.append("\t".join([start, *(f"{chunk.statistics[s][k]:.6e}" for s in STATISTICS[mode])]))
    assert path.read_text() == "\n".join(expected) + "\n"
    assert os.listdir(path.parent) == ["run.assoc.txt"]


def test_bytes_do_not_depend_on_threads_and_chunks(tmp_path):
    bim, p = make_bim(500), 500
    whole = make_chunk(range(p), 4)
    texts = set()
    for n_threads, size in ((1, p), (2, 7), (8, 100), (3, 1)):
        path = tmp_path / "a.txt"
        with AssocWriter(path, bim, 4, n_samples=9, n_threads=n_threads, cols=("n", "stat")) as writer:
            for s in range(0, p, size):
                writer.write(
                    AssocChunk(
                        index=whole.index[s : s + size], n_miss=whole.n_miss[s : s + size], af=whole.af[s : s + size],
                        statistics={k: v[s : s + size] for k, v in whole.statistics.items()},
                        neg_log10_p=whole.neg_log10_p[s : s + size], reason=whole.reason[s : s + size],
                    )
                )  # fmt: skip
        texts.add(path.read_bytes())
    assert len(texts) == 1


def test_the_reference_file_is_rewritten_to_the_byte(shared_data, tmp_path):
    """GEMMA's own rows, read as numbers and written again."""
    with gzip.open(shared_data / "gemma_reference" / "lmm4.assoc.txt.gz", "rt") as file:
        text = file.read()
    rows = [line.split("\t") for line in text.split("\n")[1:-1]]
    columns = list(zip(*rows, strict=True))
    bim = Bim(columns[0], columns[1], np.array(columns[2], dtype=np.int64), columns[4], columns[5])
    numbers = [np.array(c, dtype=np.float64) for c in columns[6:]]
    chunk = AssocChunk(
        index=np.arange(len(rows)), n_miss=np.array(columns[3], dtype=np.int32), af=numbers[0],
        statistics=dict(zip(STATISTICS[4], numbers[1:], strict=True)), neg_log10_p=-np.log10(numbers[6]),
        reason=np.zeros(len(rows), dtype=np.uint8),
    )  # fmt: skip
    with AssocWriter(tmp_path / "again.txt", bim, 4, n_samples=1410, n_threads=2) as writer:
        writer.write(chunk)
    assert (tmp_path / "again.txt").read_text() == text


def test_extra_columns(tmp_path):
    bim = make_bim(10)
    chunk = make_chunk([0, 4], 1)
    with AssocWriter(tmp_path / "a", bim, 1, cols=("neg_log10_p", "n_obs", "n", "stat"), n_samples=100) as writer:
        writer.write(chunk)
    head, *rows = [line.split("\t") for line in (tmp_path / "a").read_text().splitlines()]
    assert head[-4:] == ["n", "n_obs", "stat", "neg_log10_p"]
    wald = (chunk.statistics["beta"] / chunk.statistics["se"]) ** 2
    for k, row in enumerate(rows):
        assert row[-4:] == ["100", str(100 - chunk.n_miss[k]), f"{wald[k]:.6e}", f"{chunk.neg_log10_p[k]:.6e}"]


def test_statistics_against_their_p_values():
    """F and chi-square from the columns give back the p-values, on one dense small model."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    n, c = 60, 2
    w = np.column_stack([np.ones(n), rng.normal(size=n)])
    x, y = rng.normal(size=n), rng.normal(size=n)
    y += 0.4 * x
    px, py = (v - w @ np.linalg.lstsq(w, v, rcond=None)[0] for v in (x, y))
    xpx, xpy, ypy = px @ x, px @ y, py @ y
    beta, df = xpy / xpx, n - c - 1
    se = np.sqrt((ypy - xpy**2 / xpx) / (df * xpx))
    null = NullModel(**{**NULL.__dict__, "beta": np.zeros(c), "logl_mle": -0.5 * n * np.log(ypy)})
    columns = {"beta": np.array([beta]), "se": np.array([se])}
    score = first_statistic(3, columns, n, null)[0]
    assert score == pytest.approx(n * xpy**2 / (ypy * xpx), rel=1e-12)
    wald = first_statistic(1, columns, n, None)[0]
    ols = stats.linregress(px, py)
    assert stats.f.sf(wald, 1, df) == pytest.approx(2 * stats.t.sf(abs(ols.slope / se), df), rel=1e-10)
    lrt = first_statistic(2, {"logl_H1": np.array([-0.5 * n * np.log(ypy - xpy**2 / xpx)])}, n, null)[0]
    assert lrt == pytest.approx(n * np.log(ypy / (ypy - xpy**2 / xpx)), rel=1e-10)


# --- other formats ---------------------------------------------------------------------------------------------------


def in_pieces(chunk, size):
    for s in range(0, len(chunk.index), size):
        part = slice(s, s + size)
        yield AssocChunk(
            index=chunk.index[part], n_miss=chunk.n_miss[part], af=chunk.af[part],
            statistics={k: v[part] for k, v in chunk.statistics.items()}, neg_log10_p=chunk.neg_log10_p[part],
            reason=chunk.reason[part],
        )  # fmt: skip


def test_tsv_gz_is_the_same_text_in_indexable_blocks(tmp_path):
    p = 30_000
    bim, chunk = make_bim(p), make_chunk(range(p), 4)
    with AssocWriter(tmp_path / "a.txt", bim, 4, n_samples=9) as writer:
        writer.write(chunk)
    packed = set()
    for n_threads, size in ((1, p), (2, 7000), (3, 999)):
        with AssocWriter(
            assoc_path(tmp_path / "a", "tsv.gz"), bim, 4, fmt="tsv.gz", n_samples=9, n_threads=n_threads
        ) as writer:
            for piece in in_pieces(chunk, size):
                writer.write(piece)
        packed.add((tmp_path / "a.assoc.tsv.gz").read_bytes())
    assert len(packed) == 1
    data = packed.pop()
    assert gzip.decompress(data) == (tmp_path / "a.txt").read_bytes()
    places, place = [], 0
    while place < len(data):  # every block is a gzip member that says how long it is
        assert data[place : place + 4] == b"\x1f\x8b\x08\x04"
        assert data[place + 12 : place + 16] == b"BC\x02\x00"
        size = int.from_bytes(data[place + 16 : place + 18], "little") + 1
        places.append(len(gzip.decompress(data[place : place + size])))
        place += size
    assert places[-1] == 0
    assert set(places[:-2]) == {0xFF00}


def test_blocks_that_do_not_compress():
    data = np.random.default_rng(0).bytes(3 * bgzf.BLOCK + 5)
    out = []
    writer = bgzf.BgzfWriter(out.append, 2)
    writer.write(data)
    writer.finish()
    assert gzip.decompress(b"".join(out)) == data
    assert max(map(len, out)) <= 0x10000


def read_tsv(path):
    with gzip.open(path, "rt") as file:
        return [line.split("\t") for line in file.read().splitlines()]


@pytest.mark.parametrize("mode", [1, 3, 4])
def test_gwas_ssf(tmp_path, mode):
    bim = make_bim(6)
    bim.chrom[:] = ["1", "chr2", "X", "MT", "26", "XY"]
    bim.rs[1] = "my:variant"
    bim.ps[:] += 1
    chunk = make_chunk(range(6), mode)
    p_name = next(name for name in STATISTICS[mode] if name.startswith("p_"))
    chunk.statistics[p_name][:] = [0.5, 0.25, 0, 1e-320, 1, 1e-9]
    chunk.neg_log10_p[:] = [0.3, 0.6, 1000.25, 320, 0, 9]
    path = assoc_path(tmp_path / "a", "gwas-ssf")
    with AssocWriter(
        path, bim, mode, fmt="gwas-ssf", cols=("n", "stat"), n_samples=100,
        metadata={"trait": 'height "cm"', "covariates": ["age", "sex"], "cases": 30},
    ) as writer:  # fmt: skip
        writer.write(chunk, NULL)
    head, *rows = read_tsv(path)
    assert head[:8] == [
        "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error",
        "effect_allele_frequency", "p_value",
    ]  # fmt: skip
    assert head[8:] == ["rsid", "variant_name", "n", "stat"]
    assert [row[0] for row in rows] == ["1", "2", "23", "25", "25", "23"]
    assert [row[7] for row in rows] == [
        "5.000000e-01", "2.500000e-01", "5.623413e-1001", "1.000000e-320", "1.000000e+00", "1.000000e-09"
    ]  # fmt: skip
    assert rows[1][8:10] == ["#NA", "my:variant"]
    for k, row in enumerate(rows):
        beta, se = chunk.statistics["beta"][k], chunk.statistics["se"][k]
        assert row[1:7] == [str(k * 1000 + 1), "A", bim.allele0[k], f"{beta:.6e}", f"{se:.6e}", f"{chunk.af[k]:.6e}"]
        assert row[10] == str(100 - chunk.n_miss[k])
    assert writer.warnings == []
    meta = (tmp_path / "a.gwas-ssf.tsv.gz-meta.yaml").read_text().splitlines()
    assert f"data_file_md5sum: {hashlib.md5(path.read_bytes()).hexdigest()}" in meta
    assert 'data_file_name: "a.gwas-ssf.tsv.gz"' in meta
    assert "    sample_size: 100" in meta
    assert r'  - "height \U00000022cm\U00000022"' in meta
    assert '  - "sex"' in meta
    assert "is_sorted: false" in meta
    yaml = pytest.importorskip("yaml").safe_load("\n".join(meta))
    # The standard's mandatory fields; "sex" may be NR.
    assert yaml["trait_description"] == ['height "cm"']
    assert (yaml["genome_assembly"], yaml["coordinate_system"], yaml["sex"]) == ("NR", "1-based", "NR")
    assert yaml["genotyping_technology"] == ["NR"]
    assert yaml["samples"] == [{
        "sample_ancestry_category": ["NR"], "sample_size": 100, "case_control_study": True, "case_count": 30,
        "control_count": 70,
    }]  # fmt: skip
    assert (yaml["is_sorted"], yaml["is_harmonised"], yaml["adjusted_covariates"]) == (False, False, ["age", "sex"])


def test_gwas_ssf_says_what_it_cannot_hold(tmp_path):
    bim = make_bim(4)
    bim.chrom[:] = ["1", "1", "2", "scaffold_7"]
    bim.allele1[2] = "<DEL>"
    bim.allele1[0], bim.allele0[0] = "a", "tg"
    bim.ps[0] = 0
    chunk = make_chunk(range(4), 1)
    chunk.statistics["beta"][1] = np.nan
    with AssocWriter(tmp_path / "a.tsv", bim, 1, fmt="gwas-ssf", n_samples=100) as writer:
        writer.write(chunk)
    assert [w.split(": ")[1].split(" ", 2)[:2] for w in writer.warnings] == [["1", "variant"]] * 4
    rows = (tmp_path / "a.tsv").read_text().splitlines()
    assert len(rows) == 4
    assert rows[1].startswith("1\t0\tA\tTG\t")
    assert rows[3].startswith("scaffold_7\t")
    with pytest.raises(UsageError, match="needs beta and se"):
        AssocWriter(tmp_path / "b", bim, 2, fmt="gwas-ssf", n_samples=100)


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    p = 140_000
    bim, chunk = make_bim(p), make_chunk(range(p), 4)
    bim.rs[0] = "rs\udcff"
    contents = set()
    for size in (p, 37_777):
        path = assoc_path(tmp_path / "a", "parquet")
        with AssocWriter(path, bim, 4, fmt="parquet", cols=("n_obs", "neg_log10_p"), n_samples=100) as writer:
            for piece in in_pieces(chunk, size):
                writer.write(piece)
        contents.add(path.read_bytes())
    assert len(contents) == 1
    table = parquet.read_table(path)
    assert table.column_names == list(writer.columns)
    assert table["rs"][:2].to_pylist() == [r"rs\xff", "rs1"]
    assert table["ps"].type == "int64"
    assert table["n_obs"].to_numpy().tolist() == (100 - chunk.n_miss).tolist()
    np.testing.assert_array_equal(table["beta"].to_numpy(), chunk.statistics["beta"])
    with pytest.raises(ValueError):
        fail_after(AssocWriter(tmp_path / "b", bim, 4, fmt="parquet", n_samples=9), chunk)
    assert os.listdir(tmp_path) == ["a.assoc.parquet"]


def fail_after(writer, chunk):
    with writer:
        writer.write(chunk)
        raise ValueError


@pytest.mark.parametrize("fmt", ["gemma", "tsv.gz", "gwas-ssf"])
def test_no_rows_and_failures_in_each_format(tmp_path, fmt):
    bim = make_bim(50_000)
    with AssocWriter(tmp_path / "empty", bim, 1, fmt=fmt, n_samples=9):
        pass
    assert (tmp_path / "empty").exists()
    with pytest.raises(ValueError):
        fail_after(AssocWriter(tmp_path / "b", bim, 1, fmt=fmt, n_samples=9, n_threads=2), make_chunk(range(50_000), 1))
    assert not [name for name in os.listdir(tmp_path) if not name.startswith("empty")]


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'jamma\[parquet\]'"):
        AssocWriter(tmp_path / "a", make_bim(1), 1, fmt="parquet", n_samples=9)
    assert os.listdir(tmp_path) == []


def test_failed_rows_are_counted_by_reason(tmp_path):
    chunk = make_chunk([2, 3, 4], 1)
    chunk.reason[:] = [0, 7, 9]
    with AssocWriter(tmp_path / "a", make_bim(9), 1, n_samples=5, reasons={7: "no convergence"}) as writer:
        writer.write(chunk)
    assert writer.failed == {"no convergence": 1, "code 9": 1}
    assert writer.failed_rows == [("rs3", "no convergence"), ("rs4", "code 9")]


def test_names_of_any_characters(tmp_path):
    bim = Bim(["weiß"], ["rs\udcff"], np.array([5]), ["*"], ["<DEL>"])
    with AssocWriter(tmp_path / "a", bim, 2, n_samples=5) as writer:
        writer.write(make_chunk([0], 2))
    assert (tmp_path / "a").read_bytes().split(b"\n")[1].startswith("weiß\trs".encode() + b"\xff\t5\t")


def test_text_of_a_chunk_is_made_once():
    bim = make_bim(10)
    text = VariantText(bim)
    data, offsets = text.take(np.array([9, 0]))
    assert bytes(data) == b"1\trs9\t9000A\tC1\trs0\t0A\tC"
    assert offsets.tolist() == [0, 10, 13, 20, 23]
    with pytest.raises(ValueError, match="row 10 of 10"):
        text.take(np.array([10]))
    index = np.array([1, 2], dtype=np.int64)
    assert text.take(index)[0] is text.take(index.copy())[0]
    assert bytes(text.take(np.array([1, 3]))[0]) != bytes(text.take(index)[0])


def test_usage_errors(tmp_path):
    with pytest.raises(UsageError, match="--out-format xls"):
        AssocWriter(tmp_path / "a", make_bim(1), 1, fmt="xls", n_samples=5)
    with pytest.raises(UsageError, match="--cols p"):
        AssocWriter(tmp_path / "a", make_bim(1), 1, cols=("n", "p"), n_samples=5)
    assert os.listdir(tmp_path) == []


def test_dropped(tmp_path):
    with DroppedWriter(tmp_path / "d", make_bim(5), {1: "maf", 2: "missing"}) as writer:
        writer.write(np.array([0, 1, 2]), np.array([0, 1, 2], dtype=np.uint8))
        writer.write_rows([(4, "r2")])
    assert (tmp_path / "d").read_text().splitlines() == [
        "chr\trs\tps\tallele1\tallele0\treason",
        "1\trs1\t1000\tA\tGT\tmaf", "1\trs2\t2000\tA\tGT\tmissing", "1\trs4\t4000\tA\tGT\tr2",
    ]  # fmt: skip
    assert writer.n_written == 3


# --- whole or not at all ---------------------------------------------------------------------------------------------


def write_half(path, error):
    with atomic_output(path) as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_exception_leaves_nothing(tmp_path, error):
    with pytest.raises(error):
        write_half(tmp_path / "sub" / "a", error)
    assert os.listdir(tmp_path / "sub") == []


def test_an_exception_keeps_the_former_file(tmp_path):
    (tmp_path / "a").write_text("before")
    with pytest.raises(ValueError):
        write_half(tmp_path / "a", ValueError)
    assert (tmp_path / "a").read_text() == "before"
    with atomic_output(tmp_path / "a", binary=False) as file:
        file.write("after\n")
    assert (tmp_path / "a").read_bytes() == b"after\n"
    assert os.listdir(tmp_path) == ["a"]


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path, text in ((tmp_path / "folder", "is a folder"), (tmp_path / "file" / "a", "not a folder|Not a directory"),
                       (tmp_path / "file" / "b" / "a", "not a folder|Not a directory"),
                       (tmp_path / ("x" * 300), "too long")):  # fmt: skip
        with pytest.raises(OutputError, match=text) as caught, atomic_output(path):
            pass
        assert caught.value.exit_code == 1
        assert str(path) in str(caught.value)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="Permission denied"), atomic_output(tmp_path / "a"):
            pass
    finally:
        tmp_path.chmod(0o700)


def test_a_failing_open_is_an_output_error(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic._Target, "__init__", refuse)
    with pytest.raises(OutputError, match="Permission denied"), atomic_output(tmp_path / "a"):
        pass


def full_disk(code):
    """Run Python code in which no file may grow beyond 100,000 bytes."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, preexec_fn=limit)


@pytest.mark.parametrize("fmt", ["tsv.gz", "gwas-ssf", "parquet"])
def test_a_full_disk_in_each_format(tmp_path, fmt):
    if fmt == "parquet":
        pytest.importorskip("pyarrow")
    done = full_disk(
        "import sys, numpy as np\n"
        "from types import SimpleNamespace\n"
        "from jamma.core.errors import OutputError\n"
        "from jamma.io.writers import AssocWriter\n"
        "from jamma.lmm.schema import AssocChunk, STATISTICS\n"
        "p = 60_000; rng = np.random.default_rng(0)\n"
        "bim = SimpleNamespace(chrom=['1'] * p, rs=['r'] * p, ps=np.arange(p), allele1=['A'] * p, allele0=['C'] * p)\n"
        "chunk = AssocChunk(index=np.arange(p), n_miss=np.zeros(p, np.int32), af=rng.random(p),\n"
        "    neg_log10_p=np.ones(p),\n"
        "    reason=np.zeros(p, np.uint8), statistics={s: rng.random(p) for s in STATISTICS[1]})\n"
        "try:\n"
        f"  with AssocWriter({str(tmp_path / 'a')!r}, bim, 1, fmt={fmt!r}, n_samples=9) as w: w.write(chunk)\n"
        "except OutputError as error: print(error); sys.exit(error.exit_code)\n"
    )
    assert done.returncode == 1, done.stderr
    assert "cannot be written: File too large" in done.stdout
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("n_bytes", [100_001, 5_000_000])  # seen at the final flush, and while writing
def test_a_full_disk(tmp_path, n_bytes):
    done = full_disk(
        "from jamma.io.atomic import atomic_output\n"
        "from jamma.core.errors import OutputError\n"
        "import sys\n"
        "try:\n"
        f"  with atomic_output({str(tmp_path / 'a')!r}) as f: f.write(bytes({n_bytes}))\n"
        "except OutputError as error: print(error); sys.exit(error.exit_code)\n"
    )
    assert done.returncode == 1, done.stderr
    assert "cannot be written: File too large" in done.stdout
    assert os.listdir(tmp_path) == []


def test_errors_of_reading_inside_are_not_taken_for_errors_of_writing(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_output(tmp_path / "a"):
        (tmp_path / "nothing").read_bytes()
    assert os.listdir(tmp_path) == []


def test_commit_fails(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(OutputError, match="Input/output error"), atomic_output(tmp_path / "a") as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_leaves_no_final_name(tmp_path, number):
    code = (
        "import sys, time\n"
        "from jamma.io.atomic import AtomicFile\n"
        f"f = AtomicFile({str(tmp_path / 'a')!r})\n"
        "f.write(bytes(3_000_000)); print('ready', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    child.wait(20)
    child.stdout.close()
    assert not (tmp_path / "a").exists()
    assert all(name.endswith(".part") for name in os.listdir(tmp_path))


def test_devices_and_pipes_are_written_directly(tmp_path):
    with atomic_output("/dev/null") as file:
        file.write(b"x")
    assert os.path.exists("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    with atomic_output(tmp_path / "pipe") as file:
        file.write(b"through")
    assert reader.communicate(timeout=20)[0] == b"through"


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real" / "file", tmp_path / "link")
    with atomic_output(tmp_path / "link") as file:
        file.write(b"x")
    assert os.path.islink(tmp_path / "link")
    assert (tmp_path / "real" / "file").read_bytes() == b"x"


def test_abort_twice_and_after_commit(tmp_path):
    file = AtomicFile(tmp_path / "a")
    file.commit()
    file.abort()
    assert (tmp_path / "a").exists()
    other = AtomicFile(tmp_path / "b")
    other.abort()
    other.abort()
    assert os.listdir(tmp_path) == ["a"]


# --- log -------------------------------------------------------------------------------------------------------------


@dataclass
class Expected:
    """A log to write."""

    record: RunRecord = field(
        default_factory=lambda: RunRecord(
            command="jamma -lmm 4 -o x", version="0.1.0", date="2030-01-01T00:00:00+00:00", n_total=1940,
            n_analyzed=1410, n_variants_total=12226, n_variants_analyzed=10768, null_models={"phenotype 1": NULL},
            excluded={"phenotype missing": 530}, filtered={"maf": 1458}, failed={"no convergence": 2},
            failed_rows=(("rs7", "no convergence"),), timings={"eigendecomposition": 1.23456}, total_s=2.5,
            peak_memory_gb=0.31, notes=("one\nof two lines",), versions={"numpy": "2.4"}, threads={"BLAS": 2},
            settings={"maf": 0.01, "odd": float("nan")},
        )
    )  # fmt: skip


def test_the_log_has_gemmas_lines(tmp_path):
    text, as_json = write_log(tmp_path / "x.log.txt", Expected().record)
    lines = text.read_text().splitlines()
    assert all(line == "##" or line.startswith("## ") for line in lines)
    for line in (
        "## number of total individuals = 1940", "## number of analyzed individuals = 1410",
        "## number of covariates = 1", "## number of phenotypes = 1", "## number of total SNPs/var = 12226",
        "## number of analyzed SNPs/var = 10768", "## REMLE log-likelihood in the null model = -1584.07",
        "## MLE log-likelihood in the null model = -1584.45", "## pve estimate in the null model = 0.609672",
        "## se(pve) in the null model = 0.0327788", "## vg estimate in the null model = 1.47914",
        "## ve estimate in the null model = 0.340552", "## beta estimate in the null model =   -7.57333e-17",
        "## se(beta) =   0.0155411", "## Command Line Input = jamma -lmm 4 -o x", "## phenotype missing = 530",
        "## maf = 1458", "## no convergence = 2", "##   rs7: no convergence", "##   ... and 1 more",
        "## time on eigendecomposition = 1.235 s", "## peak memory = 0.310 GB", "## of two lines",
    ):  # fmt: skip
        assert line in lines
    record = json.loads(as_json.read_text())
    assert as_json.name == "x.log.json"
    assert record["null_models"]["phenotype 1"]["pve"] == NULL.pve
    assert record["settings"] == {"maf": 0.01, "odd": None}


def test_the_log_of_several_phenotypes_names_them(tmp_path):
    record = RunRecord(**{**Expected().record.__dict__, "null_models": {"A": NULL, "B": NULL}})
    lines = write_log(tmp_path / "x.log.txt", record)[0].read_text().splitlines()
    assert lines.count("## pve estimate in the null model = 0.609672") == 2
    assert "## A:" in lines
    assert "## B:" in lines
