"""PLINK binary files: what is read, and what is said of files that do not belong together."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamma.core.errors import InputError
from jamma.io import load_plink_binary
from jamma.io.plink import PlinkReader, read_plink_tables

CODES = {0: 0b11, 1: 0b10, 2: 0b00, -127: 0b01}  # of .bed: copies of allele1 and missing


def encode_bed(calls: np.ndarray) -> bytes:
    """A .bed from calls (variants by individuals), by PLINK's definition."""
    m, n = calls.shape
    codes = np.vectorize(CODES.get, otypes=[np.uint8])(calls) if calls.size else np.zeros((m, n), np.uint8)
    codes = np.pad(codes, ((0, 0), (0, -n % 4))).reshape(m, -1, 4)
    return b"\x6c\x1b\x01" + (codes << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2, dtype=np.uint8).tobytes()


def make_calls(m: int, n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).choice(np.array([0, 1, 2, -127], np.int8), (m, n))


@pytest.fixture
def fileset(write):
    """A function that writes calls as a fileset and gives its prefix."""

    def write_fileset(calls: np.ndarray, prefix: str = "my.study.v1"):
        m, n = calls.shape
        write(f"{prefix}.fam", "".join(f"f{i} i{i} 0 0 1 {i}.5 NA\n" for i in range(n)))
        write(f"{prefix}.bim", "".join(f"{1 + v % 3}\trs{v}\t0\t{100 * v}\tA\tG\n" for v in range(m)))
        return write(f"{prefix}.bed", encode_bed(calls)).with_suffix("")

    return write_fileset


@pytest.mark.parametrize("n", [1, 3, 4, 5, 64, 131])
@pytest.mark.parametrize("m", [1, 2, 7])
def test_calls(fileset, n, m):
    calls = make_calls(m, n)
    data = load_plink_binary(fileset(calls))
    assert data.genotypes.dtype == np.int8
    np.testing.assert_array_equal(data.genotypes, calls.T)
    assert (data.n_samples, data.n_variants) == (n, m)


def test_data(fileset):
    data = load_plink_binary(fileset(make_calls(2, 3)))
    assert data.snp_info()[1] == {"chr": "2", "rs": "rs1", "pos": 100, "a1": "A", "a0": "G"}
    assert type(data.snp_info()[1]["pos"]) is int
    np.testing.assert_array_equal(data.phenotypes, [[0.5, np.nan], [1.5, np.nan], [2.5, np.nan]])


@pytest.mark.parametrize("chunk_size", [1, 4, 7, 20, 21, 1000])
@pytest.mark.parametrize("samples", [None, [], [3], [0, 2, 3, 8, 9], [9, 0, 4]])
@pytest.mark.parametrize("variants", [None, [], [0], [2, 3, 11, 19], list(range(20))])
def test_chunks(fileset, chunk_size, samples, variants):
    calls = make_calls(20, 10)
    reader = PlinkReader(fileset(calls), samples, n_threads=1)
    wanted = None if variants is None else np.array(variants, np.int64)
    chunks = list(reader.chunks(chunk_size, wanted))
    rows = np.arange(20) if variants is None else wanted
    expected = calls[rows] if samples is None else calls[np.ix_(rows, samples)]
    assert all(0 < c.n_variants <= chunk_size and c.dosages is None for c in chunks)
    for c in chunks:
        assert c.calls.flags.c_contiguous
        assert c.calls.dtype == np.int8
        assert c.index.dtype == np.int64
    if chunks:
        np.testing.assert_array_equal(np.concatenate([c.calls for c in chunks]), expected)
        np.testing.assert_array_equal(np.concatenate([c.index for c in chunks]), rows)
    else:
        assert len(rows) == 0
    assert reader.n_samples == expected.shape[1]


def test_row_numbers_are_checked(fileset):
    prefix = fileset(make_calls(5, 6))
    for samples in ([6], [-1]):
        with pytest.raises(ValueError, match="samples: expected row numbers from 0 to 5"):
            PlinkReader(prefix, samples)
    reader = PlinkReader(prefix)
    with pytest.raises(ValueError, match="variants: expected row numbers from 0 to 4"):
        next(reader.chunks(2, np.array([5])))
    with pytest.raises(ValueError, match="chunk size 0"):
        next(reader.chunks(0))


def test_from_another_thread(fileset):
    calls = make_calls(50, 9)
    reader = PlinkReader(fileset(calls), n_threads=2)
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.extend(c.calls for c in reader.chunks(8)))
    thread.start()
    here = np.concatenate([c.calls for c in reader.chunks(8)])
    thread.join()
    np.testing.assert_array_equal(np.concatenate(found), here)
    np.testing.assert_array_equal(here, calls)


def test_compressed_tables(fileset):
    prefix = fileset(make_calls(5, 6))
    for suffix in (".fam", ".bim"):
        path = prefix.with_name(prefix.name + suffix)
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert load_plink_binary(prefix).genotypes.shape == (6, 5)


def test_checking_a_fileset_does_not_import_the_decoder(fileset):
    prefix = fileset(make_calls(5, 6))
    code = "import sys, jamma.io.plink as p; p.PlinkReader(sys.argv[1]); print('bed_reader' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code, str(prefix)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- broken filesets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: b"", "begins with bytes (none), expected 6c 1b; not a PLINK .bed"),
        (lambda b: b"\x6c", "begins with bytes 6c, expected 6c 1b; not a PLINK .bed"),
        (lambda b: b"PK" + b[2:], "begins with bytes 50 4b, expected 6c 1b; not a PLINK .bed"),
        (gzip.compress, "compressed by gzip, expected a plain .bed; decompress it"),
        (lambda b: b[:2], "third byte (none), expected 01 (variant-major); rewrite it with plink --make-bed"),
        (
            lambda b: b[:2] + b"\x00" + b[3:],
            "third byte 00, expected 01 (variant-major); rewrite it with plink --make-bed",
        ),
        (
            lambda b: b[:-1],
            "20 bytes, expected 21 for 10 individuals (.fam) and 6 variants (.bim); "
            "it fits no number of either: the file is cut off or damaged; copy it again",
        ),
        (
            lambda b: b[:-3],
            "18 bytes, expected 21 for 10 individuals (.fam) and 6 variants (.bim); "
            "it fits 5 variants: the three files are not of one set",
        ),
        (
            lambda b: b + bytes(6),
            "27 bytes, expected 21 for 10 individuals (.fam) and 6 variants (.bim); "
            "it fits 8 variants or 13 to 16 individuals: the three files are not of one set",
        ),
        (
            lambda b: b[:3],
            "3 bytes, expected 21 for 10 individuals (.fam) and 6 variants (.bim); "
            "it fits no number of either: the file is cut off or damaged; copy it again",
        ),
    ],
)
def test_broken_bed(fileset, problems, change, said):
    prefix = fileset(make_calls(6, 10))
    bed = prefix.with_name(prefix.name + ".bed")
    bed.write_bytes(change(bed.read_bytes()))
    assert problems(PlinkReader, prefix) == [f"my.study.v1.bed: {said}"]


def test_all_three_files_are_checked_together(write, tmp_path, problems):
    write("s.fam", "f i 0 0\n")
    write("s.bed", b"xx")
    assert problems(read_plink_tables, tmp_path / "s") == [
        "s.fam:1: 4 columns, expected at least 6 (FID IID father mother sex phenotype)",
        "s.bim: no such file",
        "s.bed: begins with bytes 78 78, expected 6c 1b; not a PLINK .bed",
    ]


def test_bed_that_is_cut_off_while_in_use(fileset, problems):
    prefix = fileset(make_calls(6, 10))
    reader = PlinkReader(prefix)
    next(reader.chunks(2))
    reader.path.write_bytes(reader.path.read_bytes()[:-4])
    told = problems(lambda: list(reader.chunks(2)))
    assert told[0].startswith("my.study.v1.bed: cannot be read")
    reader.path.unlink()
    assert problems(lambda: list(reader.chunks(2)))[0].startswith("my.study.v1.bed: cannot be read")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bed=st.binary(min_size=6, max_size=6).map(lambda b: b"\x6c\x1b\x01" + b) | st.binary(max_size=12))
def test_any_bed(tmp_path, write, bed):
    write("h.fam", "f i 0 0 1 1\n" * 5)
    write("h.bim", "1 r 0 1 A G\n" * 3)
    write("h.bed", bed)
    try:
        calls = load_plink_binary(tmp_path / "h").genotypes
    except InputError as error:
        assert len(error.problems) == 1  # noqa: PT017
        return
    padding = np.tile(np.array([0b11111111, 0b11], np.uint8), 3)  # five calls of two bits in two bytes
    expected = np.frombuffer(bed, np.uint8)[3:] & padding
    np.testing.assert_array_equal(np.frombuffer(encode_bed(calls.T), np.uint8)[3:], expected)


def test_reference_data(shared_data):
    data = load_plink_binary(shared_data / "mouse_hs1940" / "mouse_hs1940")
    assert data.genotypes.shape == (1940, 12226)
    assert data.phenotypes.shape == (1940, 6)
    assert np.isin(data.genotypes, [0, 1, 2, -127]).all()
