"""The resolver, and each routine of each library that this machine has."""

from __future__ import annotations

import dataclasses
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jamma._blas import blas, discovery
from jamma.core.errors import UsageError

from .blas_libraries import choices, selected, sources_without_files


@pytest.fixture(params=choices())
def library(request):
    """Each library of this machine in turn, in use."""
    with selected(request.param) as choice:
        yield choice


def scipy_lp64_library() -> str:
    """SciPy's own OpenBLAS, whose integers have 32 bits."""
    scipy = pytest.importorskip("scipy")
    files = sorted((Path(scipy.__file__).parent.parent / "scipy.libs").glob("libscipy_openblas-*.so"))
    if not files:
        pytest.skip("this SciPy does not come with an OpenBLAS of its own")
    return str(files[0])


def test_integers_have_64_bits(library):
    assert blas.is_loaded()
    assert library.found["int_bits"] == 64
    assert blas.int_size() == 8


def test_numpy_wheel_has_a_usable_library():
    """A plain pip install on Linux must do, so its absence is a failure and not a skip."""
    if not list(discovery._numpy_files()):
        pytest.skip("this NumPy is not a wheel with an OpenBLAS inside")
    with selected("openblas") as choice:
        assert choice.found["int_bits"] == 64
        assert "numpy.libs" in choice.found["file"] or ".dylibs" in choice.found["file"]


def test_lp64_library_is_refused_by_the_probe():
    file = scipy_lp64_library()
    found = blas.probe(file)
    assert found["int_bits"] == 32
    assert "32 bits" in found["refusal"]
    with pytest.raises(UsageError, match=r"JAMMA_BLAS=.*32 bits"):
        discovery.choose(file)


def test_selecting_an_unusable_library_keeps_the_one_in_use(library):
    assert blas.select(scipy_lp64_library())["refusal"]
    assert blas.is_loaded()
    c = np.empty((1, 1))
    blas.dgemm(1.0, np.full((1, 2), 2.0), np.full((2, 1), 3.0), 0.0, c)
    assert c[0, 0] == 12.0


def test_library_without_blas_and_missing_file():
    assert "cannot be loaded" in blas.probe("/nonexistent/libblas.so")["refusal"]
    if sys.platform == "linux":
        assert "no BLAS" in blas.probe("libm.so.6")["refusal"]


@pytest.mark.parametrize("value", ["opnblas", "/nonexistent/libblas.so", "64"])
def test_unusable_value_is_named(value, monkeypatch):
    monkeypatch.setenv("JAMMA_BLAS", value)
    with pytest.raises(UsageError, match=f"JAMMA_BLAS={value}"):
        discovery.choose()


def test_absent_kind_says_what_to_install(monkeypatch):
    monkeypatch.setattr(discovery, "SOURCES", sources_without_files())
    with pytest.raises(UsageError, match=r"JAMMA_BLAS=mkl.*pip install jamma\[mkl\]"):
        discovery.choose("mkl")
    assert discovery.choose("auto").found == {}


def test_auto_takes_a_library_that_works(monkeypatch):
    monkeypatch.delenv("JAMMA_BLAS", raising=False)
    choice = discovery.choose()
    assert choice.found == discovery.choose("auto").found
    assert not choice.found or choice.found["refusal"] is None


def test_auto_goes_by_order_and_says_what_it_passed_over(monkeypatch):
    """MKL is last: no CPU was found on which it is faster."""
    assert [source.key for source, _ in discovery.preferred_sources()][-1] == "mkl"
    lp64 = scipy_lp64_library()
    sources = list(discovery.SOURCES)
    sources[0] = dataclasses.replace(sources[0], files=lambda: iter([lp64]))
    monkeypatch.setattr(discovery, "SOURCES", tuple(sources))
    choice = discovery.choose("auto")
    assert choice.found["file"] != lp64
    assert choice.refused[0].startswith(lp64)
    assert "32 bits" in choice.refused[0]


def layouts(matrix):
    """The same matrix as rows, as columns, and as parts of larger ones."""
    rows, columns = matrix.shape
    wide = np.full((rows + 3, columns + 5), np.nan)
    wide[:rows, :columns] = matrix
    tall = np.full((rows + 3, columns + 5), np.nan, order="F")
    tall[:rows, :columns] = matrix
    return [np.ascontiguousarray(matrix), np.asfortranarray(matrix), wide[:rows, :columns], tall[:rows, :columns]]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 1), (7, 1, 5), (5, 7, 1), (1, 1, 6), (13, 17, 11)])
def test_gemm_reads_every_layout(library, shape):
    m, k, n = shape
    rng = np.random.default_rng(1)
    a, b, c = rng.standard_normal((m, k)), rng.standard_normal((k, n)), rng.standard_normal((m, n))
    for left in layouts(a):
        for right in layouts(b):
            out = c.copy()
            blas.dgemm(0.5, left, right, -2.0, out)
            np.testing.assert_allclose(out, 0.5 * (a @ b) - 2.0 * c, rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (14, 5)])
def test_syrk_fills_the_lower_triangle_only(library, shape):
    rng = np.random.default_rng(2)
    a, c = rng.standard_normal(shape), rng.standard_normal((shape[0], shape[0]))
    for given in layouts(a):
        out = c.copy()
        blas.dsyrk(0.5, given, -2.0, out)
        expected = np.where(np.tri(shape[0], dtype=bool), 0.5 * (a @ a.T) - 2.0 * c, c)
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


def sparse_matrix(values, stride):
    """The values in rows `stride` elements apart, in memory of which only the touched pages exist."""
    rows, columns = values.shape
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # named from Python 3.13 on
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    try:
        memory = mmap.mmap(-1, 8 * (rows * stride + columns), flags=flags)
    except (OSError, ValueError) as error:
        pytest.skip(f"no sparse memory of this size: {error}")
    matrix = np.lib.stride_tricks.as_strided(np.frombuffer(memory), values.shape, (8 * stride, 8))
    matrix[...] = values
    return matrix


@pytest.mark.skipif(not hasattr(mmap, "MAP_ANONYMOUS"), reason="no anonymous memory map on this platform")
def test_leading_dimension_of_more_than_32_bits(library):
    """2³¹ + 5 elements from row to row: 16 GiB of addresses for each of three rows."""
    rng = np.random.default_rng(8)
    values, other = rng.standard_normal((3, 4)), rng.standard_normal((4, 2))
    stride = 2**31 + 5
    a = sparse_matrix(values, stride)
    out = np.empty((3, 2))
    blas.dgemm(1.0, a, other, 0.0, out)
    np.testing.assert_allclose(out, values @ other, rtol=0, atol=1e-14)
    square = np.zeros((3, 3))
    blas.dsyrk(1.0, a, 0.0, square)
    np.testing.assert_allclose(np.tril(square), np.tril(values @ values.T), rtol=0, atol=1e-14)
    wide = sparse_matrix(np.full((3, 2), 7.0), stride)
    blas.dgemm(1.0, values, other, 0.5, wide)
    np.testing.assert_allclose(wide, values @ other + 3.5, rtol=0, atol=1e-14)


def test_without_a_library_nothing_is_called():
    with selected(None):
        blas.unload()
        out = np.zeros((1, 1))
        assert blas.dgemm(1.0, np.ones((1, 1)), np.ones((1, 1)), 0.0, out) == -1000
        assert out[0, 0] == 0.0


def test_environment_forces_a_library():
    """In a fresh process, as a user would."""
    code = "import jamma; jamma.show_config()"
    for value in discovery.KEYS:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env={**os.environ, "JAMMA_BLAS": value},
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            assert f"JAMMA_BLAS={value}" in done.stdout
            assert "integers:  64 bits" in done.stdout
        else:
            assert f"JAMMA_BLAS={value}: no such library" in done.stderr
