"""Sizes beyond 32 bits: every kernel that reads or writes a large array, on memory of which few pages exist.

The BLAS's own strides are in test_blas.py. The tests marked large are for a machine with 24 GiB of memory.
"""

from __future__ import annotations

import mmap
import sys

import numpy as np
import psutil
import pytest

from jamma._core import genotypes, kinship, parse, rotate
from jamma.io.readers import GenotypeChunk
from jamma.kinship import KinshipSum, centered

BEYOND = 2**31
LARGE_N = 47_000


def sparse(shape, dtype):
    """An array of zeros that takes memory only where it is written."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # named from Python 3.13 on
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    except (AttributeError, OSError, ValueError) as error:
        pytest.skip(f"no sparse memory of this size: {error}")
    return np.frombuffer(memory, dtype).reshape(shape)


def test_counts_and_packing_of_more_than_32_bits_of_calls():
    """The last of 2³¹ / 997 variants; samples are not a multiple of anything."""
    rng = np.random.default_rng(1)
    n = 997
    calls = sparse((BEYOND // n + 5, n), np.int8)
    calls[-3:] = rng.integers(0, 3, (3, n))
    calls[-2, ::7] = -127
    expected = [[(row == code).sum() for code in (0, 1, 2, -127)] for row in calls[-3:]]
    counts = genotypes.count_calls(calls, None, 2)
    np.testing.assert_array_equal(counts[-3:], expected)
    np.testing.assert_array_equal(counts[:-3], np.broadcast_to([n, 0, 0, 0], (len(calls) - 3, 4)))
    rows = np.arange(len(calls) - 3, len(calls))
    x = genotypes.pack_calls(calls, rows, 2).decode()
    np.testing.assert_array_equal(x[[0, 2]], calls[[-3, -1]])
    counts, _, packed = genotypes.sweep(calls, 0.5, 0.0, 2)  # all others do not vary
    np.testing.assert_array_equal(counts[-3:], expected)
    np.testing.assert_array_equal(packed.decode(), x)


@pytest.mark.parametrize("level", kinship.available_levels())
def test_kinship_of_variants_beyond_32_bits(level):
    rng = np.random.default_rng(2)
    n = 201
    calls = sparse((BEYOND // n + 9, n), np.int8)
    calls[-8:] = rng.integers(0, 3, (8, n))
    calls[-8:][rng.random((8, n)) < 0.02] = -127
    rows = np.arange(len(calls) - 8, len(calls))
    counts = genotypes.count_calls(np.ascontiguousarray(calls[-8:]))
    means = (counts[:, 1] + 2 * counts[:, 2]) / (n - counts[:, 3])
    half, row_terms = np.zeros((n, n)), np.zeros(n)
    kinship.set_level(level)
    try:
        start, variant = kinship.missing_by_sample(calls, rows, np.ascontiguousarray(counts[:, 3]), 2)
        assert kinship.add_calls(calls, rows, means, start, variant, half, row_terms, 2) == 0
    finally:
        kinship.set_level(None)
    kinship.finish(half, row_terms, float((means**2).sum()), 8.0, 2)
    z = centered(calls[-8:])
    np.testing.assert_allclose(half, z.T @ z / 8, rtol=0, atol=1e-13)


@pytest.mark.parametrize("level", rotate.available_levels()[-2:])  # the matrix unit's source, and all others'
def test_rotation_by_a_basis_of_more_than_32_bits(level):
    """2³¹ bytes of a basis, all zeros but its last rows; the sums of the last ones carry all."""
    rng = np.random.default_rng(3)
    n, m = 1031, BEYOND // (8 * 1031) + 40
    packed = genotypes.pack_calls(rng.integers(0, 3, (2, n)).astype(np.int8))
    basis, h, fwd = sparse((m, n), np.float64), np.zeros((m, 8)), np.zeros((m, 8))
    basis[-20:] = rng.standard_normal((20, n))
    h[-20:], fwd[-20:] = rng.random((2, 20, 8))
    rotate.set_level(level)
    try:
        xx, _ = rotate.rotate_sums(packed, basis, np.zeros((1, n)), h, fwd, 2)
    finally:
        rotate.set_level(None)
    expected, s = np.zeros((2, 8)), np.zeros((2, 8))
    for i, row in enumerate(basis[-20:] @ packed.decode().T):
        s = row[:, None] - fwd[len(fwd) - 20 + i] * s
        expected += h[len(h) - 20 + i] * s * s
    np.testing.assert_allclose(xx, expected, rtol=1e-11)


def test_text_of_more_than_32_bits():
    line = b"\n1 2.5 3\n"
    data = sparse((BEYOND + 100,), np.uint8)
    data[-9:] = np.frombuffer(line, np.uint8)
    starts = parse.line_starts(data)
    assert starts[-2:].tolist() == [len(data) - 8, len(data)]
    out = np.empty((1, 3))
    parse.parse_numbers(data, starts[-2:], out, 1)
    np.testing.assert_array_equal(out, [[1.0, 2.5, 3.0]])


def large_calls():
    """64 variants of LARGE_N samples, 1 % missing."""
    rng = np.random.default_rng(4)
    calls = rng.binomial(2, rng.uniform(0.1, 0.9, (64, 1)), (64, LARGE_N)).astype(np.int8)
    calls[rng.random(calls.shape) < 0.01] = -127
    return calls


@pytest.mark.large
@pytest.mark.parametrize("standardized", [False, True], ids=["centred", "standardised"])
def test_kinship_of_more_than_32_bits(standardized):
    """47,000² is 2.2e9: corners against NumPy, the diagonal, and every entry by K v = Z' (Z v) / p."""
    needed = LARGE_N**2 * 8 + (1 << 30)
    if (available := psutil.virtual_memory().available) < needed:
        pytest.skip(f"needs {needed / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB are free")
    calls = large_calls()
    total = KinshipSum(LARGE_N, standardized)
    total.add(GenotypeChunk(calls, None, np.arange(64)))
    k = total.matrix()
    assert k.size > BEYOND
    z = centered(calls, standardized)
    ends = np.r_[:300, LARGE_N // 2 : LARGE_N // 2 + 300, LARGE_N - 300 : LARGE_N]
    np.testing.assert_allclose(k[np.ix_(ends, ends)], z[:, ends].T @ z[:, ends] / 64, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.einsum("ii->i", k), (z**2).sum(axis=0) / 64, rtol=0, atol=1e-12)
    v = np.random.default_rng(5).standard_normal(LARGE_N)
    product = np.concatenate([k[start : start + 1000] @ v for start in range(0, LARGE_N, 1000)])
    np.testing.assert_allclose(product, z.T @ (z @ v) / 64, rtol=0, atol=1e-9)
