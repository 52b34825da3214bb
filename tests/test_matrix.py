"""Kinship and eigen files: GEMMA's text and .npy, the right samples, and errors that say where."""

from __future__ import annotations

import gzip
import os
import time
import warnings as python_warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamma.core.errors import InputError
from jamma.io.arrays import newest_sibling, read_matrix
from jamma.io.matrix import read_eigen, read_kinship, write_eigen, write_kinship
from jamma.io.side_car import side_car_path


def make_kinship(n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3 * n))
    x -= x.mean(axis=0)
    return x @ x.T / (3 * n)


def names(n, start=0):
    return [f"f{i // 2}" for i in range(start, start + n)], [f"i{i}" for i in range(start, start + n)]


def read(path, n_total, index=None, **options):
    fid, iid = names(n_total)
    index = np.arange(n_total) if index is None else np.asarray(index)
    return read_kinship(path, n_total=n_total, fid=fid, iid=iid, index=index, **options)


def as_text(matrix, sep="\t", end="\n"):
    return "".join(sep.join(f"{v:.10g}" for v in row) + end for row in matrix)


# --- kinship: forms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("legacy_text", [False, True])
@pytest.mark.parametrize("index", [None, [0, 2, 3, 7], [5]])
def test_kinship_round_trip(tmp_path, legacy_text, index):
    k = make_kinship(9)
    path = write_kinship(tmp_path / "out" / "k", "cXX", k, *names(9), legacy_text)
    assert path.name == ("k.cXX.txt" if legacy_text else "k.cXX.npy")
    got = read(path, 9, index)
    index = np.arange(9) if index is None else index
    np.testing.assert_allclose(got, k[np.ix_(index, index)], rtol=1e-9 if legacy_text else 0, atol=0)
    assert got.flags.c_contiguous
    assert sorted(os.listdir(path.parent)) == sorted([path.name, "k.cXX.id.txt"])
    if not legacy_text:
        np.testing.assert_array_equal(np.load(path, allow_pickle=False), k)


def test_text_is_gemmas(tmp_path):
    k = make_kinship(5)
    k[0, 1] = k[1, 0] = 0
    path = write_kinship(tmp_path / "k", "sXX", k, *names(5), True, n_threads=2)
    assert path.read_text() == as_text(k)
    assert side_car_path(path).read_text() == "#FID\tIID\tdiagonal\n" + "".join(
        f"{f}\t{i}\t{d:.10g}\n" for f, i, d in zip(*names(5), np.diagonal(k), strict=True)
    )


@pytest.mark.parametrize("sep", ["\t", " ", ",", " , ", "  "])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\t\n", " \r\n"])
@pytest.mark.parametrize("extra", [("", ""), ("\ufeff", "\n\n"), ("", "\r\n \n")])
@pytest.mark.parametrize("packed", [False, True])
def test_any_text_form(tmp_path, sep, end, extra, packed):
    k = make_kinship(4)
    data = (extra[0] + as_text(k, sep, end) + extra[1]).encode()
    path = tmp_path / "k.cXX.txt"
    path.write_bytes(gzip.compress(data) if packed else data)
    np.testing.assert_allclose(read(path, 4), k, rtol=1e-9)


def test_last_line_without_end(tmp_path):
    (tmp_path / "k").write_text(as_text(make_kinship(4)).rstrip("\n"))
    assert read(tmp_path / "k", 4).shape == (4, 4)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<i4", "|i1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_number_type(tmp_path, dtype, order):
    k = np.round(make_kinship(6) * 40).astype(dtype)
    np.save(tmp_path / "k.npy", np.asarray(k, order=order))
    np.testing.assert_array_equal(read(tmp_path / "k.npy", 6, [1, 4, 5]), k[np.ix_([1, 4, 5], [1, 4, 5])].astype(float))


def test_gemmas_own_file(shared_data):
    start = time.perf_counter()
    path = shared_data / "gemma_reference" / "gk1.cXX.txt.gz"
    k = read(path, 1940)
    assert time.perf_counter() - start < 30
    with gzip.open(path, "rt") as file:
        for i, line in enumerate(file):
            if i % 400 == 0:
                assert k[i].tolist() == [float(v) for v in line.split()]


def test_blocks_of_lines(tmp_path, monkeypatch):
    """Lines that cross the blocks, and lines longer than one."""
    from jamma.io import arrays

    k = make_kinship(30)
    (tmp_path / "k").write_text(as_text(k))
    for size in (1, 7, 100, 5000):
        monkeypatch.setattr(arrays, "BLOCK_BYTES", size)
        np.testing.assert_allclose(read(tmp_path / "k", 30, [29, 3]), k[np.ix_([29, 3], [29, 3])], rtol=1e-9)


# --- kinship: which samples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("legacy_text", [False, True])
def test_side_car_subset_and_order(tmp_path, legacy_text):
    """A matrix in another order, with samples that the .fam does not have."""
    k = make_kinship(12)
    fid, iid = names(12)
    order = np.random.default_rng(3).permutation(12)
    path = write_kinship(
        tmp_path / "k", "cXX", k[np.ix_(order, order)], [fid[i] for i in order], [iid[i] for i in order], legacy_text
    )
    notes = []
    got = read(path, 8, [0, 5, 6], notes=notes)
    np.testing.assert_allclose(got, k[np.ix_([0, 5, 6], [0, 5, 6])], rtol=1e-9)
    assert "12 samples, 3 used" in notes[0]


def test_side_car_by_hand_needs_two_columns(tmp_path):
    k = make_kinship(3)
    np.save(tmp_path / "k.npy", k)
    (tmp_path / "k.id.txt").write_text("f1 i2\nf0\ti0\r\nf0 i1\n")
    np.testing.assert_array_equal(read(tmp_path / "k.npy", 5, [0, 1, 2]), k[np.ix_([1, 2, 0], [1, 2, 0])])


def test_ids_with_spaces(tmp_path):
    k, fid, iid = make_kinship(3), ["a b", "c", "d"], ["x", "y z", "é "]
    path = write_kinship(tmp_path / "k", "cXX", k, fid, iid)
    got = read_kinship(path, n_total=3, fid=fid[::-1], iid=iid[::-1], index=np.arange(3))
    np.testing.assert_array_equal(got, k[::-1, ::-1])


def test_unknown_samples_are_counted_and_named(tmp_path):
    path = write_kinship(tmp_path / "k", "cXX", make_kinship(5), *names(5))
    with pytest.raises(InputError, match=r"3 of 8 analysed samples are not among its 5 rows .*f2 i5, f3 i6, f3 i7"):
        read(path, 8)


def test_duplicate_ids(tmp_path):
    k = make_kinship(4)
    fid, iid = ["a", "a", "a", "b"], ["1", "1", "2", "1"]
    path = write_kinship(tmp_path / "k", "cXX", k, fid, iid)
    index = np.array([1, 3])
    got = read_kinship(path, n_total=4, fid=fid, iid=iid, index=index)  # same order: by position
    np.testing.assert_array_equal(got, k[np.ix_(index, index)])
    with pytest.raises(InputError, match=r"more than once, e\.g\. a 1"):
        read_kinship(path, n_total=3, fid=fid[1:], iid=iid[1:], index=np.array([0]))
    got = read_kinship(path, n_total=3, fid=fid[1:], iid=iid[1:], index=np.array([1, 2]))
    np.testing.assert_array_equal(got, k[2:, 2:])


def test_a_stale_side_car_is_refused(tmp_path):
    path = write_kinship(tmp_path / "k", "cXX", make_kinship(5), *names(5))
    np.save(path, make_kinship(5, seed=1))
    with pytest.raises(InputError, match="delete the side-car"):
        read(path, 5)
    side_car_path(path).unlink()
    np.testing.assert_array_equal(read(path, 5), make_kinship(5, seed=1))


def test_broken_side_car(tmp_path):
    path = write_kinship(tmp_path / "k", "cXX", make_kinship(2), *names(2))
    side_car_path(path).write_text("f0 i0 x\nf0\n")
    with pytest.raises(InputError, match=r"k.cXX.id.txt:1:3: 'x', expected a number\n.*id.txt:2: 1 columns"):
        read(path, 2)


@pytest.mark.parametrize("n", [3, 5])
def test_wrong_size_by_position(tmp_path, n):
    np.save(tmp_path / "k.npy", make_kinship(n))
    (tmp_path / "t.txt").write_text(as_text(make_kinship(n)))
    with pytest.raises(InputError, match=rf"{n} x {n}, expected 4 x 4, one row for each sample .*\(2 of them"):
        read(tmp_path / "k.npy", 4, [0, 1])
    with pytest.raises(InputError, match=rf":1: {n} columns, expected 4 x 4"):
        read(tmp_path / "t.txt", 4, [0, 1])


# --- kinship: what is refused ----------------------------------------------------------------------------------------


def text_error(tmp_path, text, n=2, **options):
    path = tmp_path / "k.txt"
    path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read(path, n, **options)
    return str(caught.value).replace(str(path), "K").split("\n")


def test_errors_say_where(tmp_path):
    assert text_error(tmp_path, "1 x\ny,5 2\n") == [
        "K:1:2: 'x', expected a number",
        "K:2:1: 'y', expected a number",
        "K:2: 3 columns, expected 2 x 2, one row for each sample of the .fam (2 of them are analysed); a matrix of "
        "other samples needs k.id.txt beside it, with FID and IID of each row",
    ]
    assert text_error(tmp_path, "1 0.5\n\n0.5 nan\n") == ["K:2:2: nan, expected a finite number"]
    assert "1 rows, expected 2 x 2" in text_error(tmp_path, "1 0.5\n")[0]
    assert "K: more than 2 rows" in text_error(tmp_path, "1 0\n0 1\n0 0\n")[0]
    assert "0 rows" in text_error(tmp_path, "")[0]
    assert len(text_error(tmp_path, "a b\n" * 50)) <= 21


def test_asymmetric(tmp_path):
    assert text_error(tmp_path, "1 0.5\n0.4 1\n")[0] == (
        "K:1:2: 0.5, but row 2, column 1 has 0.4: expected a symmetric matrix"
    )
    notes = []
    (tmp_path / "k.txt").write_text("1 0.5\n0.50000000001 2\n")
    k = read(tmp_path / "k.txt", 2, notes=notes)
    assert k[0, 1] == k[1, 0] == pytest.approx(0.500000000005, abs=1e-15)
    assert "were averaged" in notes[-1]


def test_asymmetry_in_another_tile(tmp_path, monkeypatch):
    from jamma.io import checks

    monkeypatch.setattr(checks, "TILE", 3)
    monkeypatch.setattr(checks, "BLOCK", 20)
    k = make_kinship(8)
    k[7, 2] += 1
    np.save(tmp_path / "k.npy", k)
    with pytest.raises(InputError, match=r"k.npy:8:3: "):
        read(tmp_path / "k.npy", 8)


def test_values_of_samples_that_are_not_analysed_do_not_matter(tmp_path):
    (tmp_path / "k.txt").write_text("1 nan 0.5\nnan nan nan\n0.5 inf 2\n")
    assert read(tmp_path / "k.txt", 3, [0, 2]).tolist() == [[1, 0.5], [0.5, 2]]


def test_matrices_without_information(tmp_path):
    assert "every entry for the analysed samples is 0" in text_error(tmp_path, "0 0\n0 0\n")[0]
    assert "every entry for the analysed samples is 0.5" in text_error(tmp_path, ".5 .5\n.5 .5\n")[0]
    warnings = []
    for text in ("1 0 0\n0 1 0\n0 0 1\n", "2 .5 .5\n.5 2 .5\n.5 .5 2\n"):
        (tmp_path / "k.txt").write_text(text)
        read(tmp_path / "k.txt", 3, warnings=warnings)
    assert len(warnings) == 2
    assert all("not identified" in w for w in warnings)
    warnings.clear()
    (tmp_path / "k.txt").write_text("1 0 0\n0 1 0.1\n0 0.1 1\n")
    read(tmp_path / "k.txt", 3, warnings=warnings)
    assert warnings == []


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "nothing", 2)
    with pytest.raises(InputError, match="Is a directory"):
        read(tmp_path, 2)
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(InputError, match=r"no such file; there is .*a.npy"):
        read_matrix(tmp_path / "a.txt", (2, 2), np.arange(2), np.arange(2), expected="x")
    packed = gzip.compress(as_text(np.eye(2)).encode())
    assert "damaged gzip file" in text_error(tmp_path, packed[:-6])[0]
    assert "damaged gzip file" in text_error(tmp_path, packed[:12] + b"\xff" * 20)[0]


def test_npy_is_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "k.npy", np.array([[Trap(), 1], [1, 2]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="dtype object"):
        read(tmp_path / "k.npy", 2)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("array", "text"),
    [(np.eye(2, dtype=complex), "complex128"), (np.eye(2, dtype=bool), "bool"), (np.ones((2, 2, 1)), "2 x 2 x 1"),
     (np.float64(3), "a single number"), (np.array([["a", "b"], ["c", "d"]]), "<U1"),
     (np.zeros((2, 2), dtype=[("x", "f8")]), "dtype"), (np.zeros((0, 0)), "0 x 0")],
)  # fmt: skip
def test_other_npy(tmp_path, array, text):
    np.save(tmp_path / "k.npy", array)
    with pytest.raises(InputError, match=text):
        read(tmp_path / "k.npy", 2)


def npy_with(header, data=b"\0" * 32, version=1):
    text = header.encode() + b"\n"
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


@pytest.mark.parametrize(
    ("content", "text"),
    [(npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"), "needs 48 bytes"),
     (npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", b"\0" * 31), "damaged or cut short"),
     (npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", b"\0" * 33), "damaged or cut short"),
     (npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -2), }"), "damaged or cut short"),
     (npy_with(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**62}, {2**62}), }}"), "damaged or cut short"),
     (npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': 2, }"), "not a readable"),
     (npy_with("__import__('os').system('true')"), "not a readable"), (npy_with("(" * 5000), "not a readable"),
     (npy_with("{" * 20000), "not a readable"), (b"\x93NUMPY\x09\x00", "not a readable"),
     (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "not a readable"), (b"\x93NUMPY", "not a readable")],
)  # fmt: skip
def test_broken_npy(tmp_path, content, text):
    (tmp_path / "k.npy").write_bytes(content)
    with pytest.raises(InputError, match=text):
        read(tmp_path / "k.npy", 2)


def test_a_line_without_end_is_not_collected(tmp_path, monkeypatch):
    """A gzipped file of one endless line: refused after the limit, not read into memory."""
    from jamma.io import arrays

    monkeypatch.setattr(arrays, "MIN_LINE_LIMIT", 1 << 20)
    monkeypatch.setattr(arrays, "BLOCK_BYTES", 1 << 16)
    assert "a line of more than" in text_error(tmp_path, gzip.compress(b"1 " * (4 << 20)))[0]


# --- the newest sibling ----------------------------------------------------------------------------------------------


def test_newest_sibling(tmp_path):
    text, binary, packed = tmp_path / "k.cXX.txt", tmp_path / "k.cXX.npy", tmp_path / "k.cXX.txt.gz"
    notes = []
    assert newest_sibling(text, notes) == text
    binary.write_bytes(b"")
    assert newest_sibling(text, notes) == binary
    assert "there is no k.cXX.txt" in notes.pop()
    for name in (text, packed):
        name.write_bytes(b"")
        for text_time, binary_time, expected in ((100, 100, binary), (100, 101, binary), (101, 100, name)):
            os.utime(name, (text_time, text_time))
            os.utime(binary, (binary_time, binary_time))
            assert newest_sibling(name, notes) == expected
    assert len(notes) == 4
    os.utime(binary, (1, 1))
    assert newest_sibling(binary, notes) == binary
    assert newest_sibling(tmp_path / "other", notes) == tmp_path / "other"


def test_a_regenerated_text_wins(tmp_path):
    old, new = make_kinship(4), make_kinship(4, seed=1)
    np.save(tmp_path / "k.npy", old)
    (tmp_path / "k.txt").write_text(as_text(new))
    os.utime(tmp_path / "k.npy", (1, 1))
    np.testing.assert_allclose(read(tmp_path / "k.txt", 4), new, rtol=1e-9)
    np.testing.assert_array_equal(read(tmp_path / "k.npy", 4), old)
    os.utime(tmp_path / "k.txt", (0, 0))
    np.testing.assert_array_equal(read(tmp_path / "k.txt", 4), old)


# --- lists of pairs --------------------------------------------------------------------------------------------------


def test_list_of_pairs(tmp_path):
    (tmp_path / "k").write_bytes(
        gzip.compress(b"i0 i0 1\ni2\ti0\t0.25\r\ni0,i2,0.25\n\ni2 i2 2\nstranger i0 9\ni1 i1 5\n")
    )
    notes = []
    got = read(tmp_path / "k", 4, [0, 2, 3], km=2, notes=notes)
    assert got.tolist() == [[1, 0.25, 0], [0.25, 2, 0], [0, 0, 0]]
    assert "4 of 6 pairs" in notes[0]
    assert "3 pairs of analysed samples are not listed" in notes[0]


def test_list_in_blocks_is_the_matrix(tmp_path, monkeypatch):
    """Blocks that are regular and blocks with a repeated pair are read by different code."""
    from jamma.io import arrays

    k, rng = make_kinship(20), np.random.default_rng(8)
    lines = [f"i{i} i{j} {float(k[i, j])!r}\n" for i in range(20) for j in range(i + 1)]
    rng.shuffle(lines)
    (tmp_path / "k").write_text("".join([*lines[:100], "\n", *lines[50:], *lines[3:5]]))
    for size in (50, 1000, 8 << 20):
        monkeypatch.setattr(arrays, "BLOCK_BYTES", size)
        np.testing.assert_array_equal(read(tmp_path / "k", 20, km=2), k)
        with open(tmp_path / "k") as file:
            text = file.read()
        bad = text + "i3 i4 5\n"
        assert text_error(tmp_path, bad, 20, km=2)[0].startswith(
            f"K:{bad.count(chr(10))}:3: 5 for 'i3' 'i4', which had"
        )


def test_list_errors(tmp_path):
    assert text_error(tmp_path, "i0 i1 1\ni1 i0 2\ni0 i0\ni0 i0 x\ni0 i0 inf\n", km=2) == [
        "K:2:3: 2 for 'i1' 'i0', which had 1 before",
        "K:3: 2 columns, expected two IIDs and a number",
        "K:4:3: 'x', expected a finite number",
        "K:5:3: 'inf', expected a finite number",
    ]
    assert "none of its 1 pairs" in text_error(tmp_path, "a b 1\n", km=2)[0]
    assert len(text_error(tmp_path, "i0\n" * 100, km=2)) <= 21
    (tmp_path / "k.txt").write_text("i0 i0 1\n")
    with pytest.raises(InputError, match="IID of several samples"):
        read_kinship(tmp_path / "k.txt", n_total=2, fid=["a", "b"], iid=["i0", "i0"], index=np.arange(2), km=2)


# --- eigen files -----------------------------------------------------------------------------------------------------


def make_eigen(n, seed=0):
    d, u = np.linalg.eigh(make_kinship(n, seed))
    d[0] = 0
    return d, np.asfortranarray(u)


def eigen_names(n):
    fid, iid = names(n)
    return {"fid": fid, "iid": iid}


def test_eigen_round_trip_is_exact(tmp_path):
    d, u = make_eigen(8)
    paths = write_eigen(tmp_path / "e", d, u, *names(8))
    assert [p.name for p in paths] == ["e.eigenD.npy", "e.eigenU.npy"]
    got_d, got_u = read_eigen(*paths, **eigen_names(8))
    np.testing.assert_array_equal(got_d, d)
    np.testing.assert_array_equal(got_u, u)
    assert got_u.flags.f_contiguous


def test_eigen_legacy_text(tmp_path):
    d, u = make_eigen(8)
    paths = write_eigen(tmp_path / "e", d, u, *names(8), True)
    assert paths[0].read_text() == "".join(f"{v:.10g}\n" for v in d)
    assert paths[0].read_text().startswith("0\n")
    assert paths[1].read_text() == as_text(u)
    assert sorted(os.listdir(tmp_path)) == [
        "e.eigenD.npy", "e.eigenD.txt", "e.eigenU.id.txt", "e.eigenU.npy", "e.eigenU.txt"
    ]  # fmt: skip
    np.testing.assert_array_equal(read_eigen(*paths, **eigen_names(8))[1], u)  # through the .npy beside
    for name in ("e.eigenD.npy", "e.eigenU.npy"):
        (tmp_path / name).unlink()
    got_d, got_u = read_eigen(*paths, **eigen_names(8))
    np.testing.assert_allclose(got_d, d, rtol=1e-9)
    np.testing.assert_allclose(got_u, u, rtol=1e-9)


def test_gemmas_eigenvalues(shared_data, tmp_path):
    with gzip.open(shared_data / "gemma_reference" / "eigen.eigenD.txt.gz", "rt") as file:
        d = np.array([float(line) for line in file])
    np.save(tmp_path / "u.npy", np.eye(len(d)))
    got, _ = read_eigen(
        shared_data / "gemma_reference" / "eigen.eigenD.txt.gz", tmp_path / "u.npy", **eigen_names(len(d))
    )
    np.testing.assert_array_equal(got, d)


def test_eigen_rows_are_put_into_the_order_of_the_samples(tmp_path):
    d, u = make_eigen(8)
    paths = write_eigen(tmp_path / "e", d, u, *names(8))
    fid, iid = names(8)
    got = read_eigen(*paths, fid=fid[::-1], iid=iid[::-1])[1]
    np.testing.assert_array_equal(got, u[::-1])


def eigen_error(paths, n=8, **options):
    with pytest.raises(InputError) as caught:
        read_eigen(*paths, **{**eigen_names(n), **options})
    return str(caught.value)


def test_eigen_of_other_samples(tmp_path):
    paths = write_eigen(tmp_path / "e", *make_eigen(8), *names(8))
    assert "of 8 samples (e.eigenU.id.txt), 7 are analysed" in eigen_error(paths, 7)
    fid, iid = names(8, 1)
    assert "1 of 8 analysed samples are not among" in eigen_error(paths, fid=fid, iid=iid)
    side_car_path(paths[1]).unlink()
    assert "expected 7 eigenvalues" in eigen_error(paths, 7)


def test_eigenvalues_and_vectors_of_different_runs(tmp_path):
    one = write_eigen(tmp_path / "a", *make_eigen(8), *names(8))
    other = write_eigen(tmp_path / "b", *make_eigen(8, seed=5), *names(8))
    assert "stale" in eigen_error((one[0], other[1]))


def test_eigen_metadata(tmp_path):
    paths = write_eigen(tmp_path / "a", *make_eigen(8), *names(8), metadata={"variants": "12 abc", "loco": "17"})
    read_eigen(*paths, **eigen_names(8), metadata={"variants": "12 abc", "loco": "17", "more": "x"})
    assert "says loco=17, this run has 18" in eigen_error(paths, metadata={"loco": "18"})


def test_broken_eigen_files(tmp_path):
    d, u = make_eigen(8)
    bad = u.copy()
    bad[:, 3] *= 1.001
    swapped = u.copy()
    swapped[2, 5] += 0.1
    for values, vectors, text in (
        (d, bad, "columns 4 and 4 have the inner product 1.002"), (d, swapped, "not eigenvectors"),
        (-d, u, "expected an eigenvalue of at least 0"), (np.zeros(8), u, "no eigenvalue above 0"),
        (np.append(d[1:], np.nan), u, "nan, expected a finite number"), (d[:7], u, "expected 8 eigenvalues"),
        (d, u[:7], "7 x 8, expected 8 x 8"), (d, np.where(u == u[3, 3], np.inf, u), ":4:4: inf"),
    ):  # fmt: skip
        np.save(tmp_path / "d.npy", values)
        np.save(tmp_path / "u.npy", vectors)
        assert text in eigen_error((tmp_path / "d.npy", tmp_path / "u.npy"))


def test_round_off_below_zero_becomes_zero(tmp_path):
    d, u = make_eigen(8)
    d[0] = -1e-15
    np.save(tmp_path / "d.npy", d)
    np.save(tmp_path / "u.npy", u)
    assert read_eigen(tmp_path / "d.npy", tmp_path / "u.npy", **eigen_names(8))[0][0] == 0


def test_weighted_eigenvectors(tmp_path):
    """-widv multiplies the rows of U, which are then only orthonormal after division."""
    d, u = make_eigen(8)
    weights = np.random.default_rng(1).random(8) + 0.5
    paths = write_eigen(tmp_path / "e", d, u * np.sqrt(weights)[:, None], *names(8))
    read_eigen(*paths, **eigen_names(8), weights=weights)
    assert "with unequal weights (-widv)" in eigen_error(paths)
    assert "not eigenvectors" in eigen_error(paths, weights=np.ones(8))
    weights[3] = 0
    paths = write_eigen(tmp_path / "z", d, u * np.sqrt(weights)[:, None], *names(8))
    assert read_eigen(*paths, **eigen_names(8), weights=weights)[1][3].tolist() == [0] * 8


# --- hostile bytes ---------------------------------------------------------------------------------------------------

FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def finite_or_refused(path, **options):
    """Reading ends in a finite symmetric matrix or in an InputError, without a warning."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("error")
        try:
            k = read(path, 3, **options)
        except InputError:
            return
    assert np.isfinite(k).all()
    assert (k == k.T).all()


@given(st.binary(max_size=200))
@FUZZ
def test_any_bytes(tmp_path, data):
    (tmp_path / "k").write_bytes(data)
    finite_or_refused(tmp_path / "k")
    finite_or_refused(tmp_path / "k", km=2)
    (tmp_path / "u.id.txt").write_bytes(data)
    np.save(tmp_path / "u.npy", make_kinship(3))
    finite_or_refused(tmp_path / "u.npy")


@given(st.text(alphabet="0123456789.eE+-na \t,\r\n\0é", max_size=80))
@FUZZ
def test_any_text(tmp_path, text):
    (tmp_path / "k").write_text(text)
    finite_or_refused(tmp_path / "k")


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_beyond_the_largest_double(tmp_path, sign):
    """Neither the difference of mirrored entries nor their mean may overflow."""
    k = make_kinship(3)
    k[2, 2], k[0, 1], k[1, 0] = 1.7e308, 1.7e308, sign * 1.7e308 * (1 - 1e-15)
    np.save(tmp_path / "k.npy", k)
    finite_or_refused(tmp_path / "k.npy")


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=5), st.booleans())
@FUZZ
def test_damaged_files(tmp_path, changes, packed):
    """A good .npy or .gz with some bytes changed."""
    np.save(tmp_path / "good.npy", make_kinship(3))
    data = bytearray((tmp_path / "good.npy").read_bytes())
    if packed:
        data = bytearray(gzip.compress(as_text(make_kinship(3)).encode()))
    for place, value in changes:
        data[place % len(data)] = value
    (tmp_path / "k").write_bytes(data)
    finite_or_refused(tmp_path / "k")
