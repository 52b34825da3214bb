"""The rotation of packed variants and its sums, at every CPU level, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from jamma._core import genotypes, rotate


@pytest.fixture(params=rotate.available_levels())
def level(request):
    rotate.set_level(request.param)
    yield request.param
    rotate.set_level(None)


def make_case(k: int, n: int, miss: float, m: int = 0, n_columns: int = 0, n_nodes: int = 16, seed: int = 1):
    """Packed calls, basis rows, further columns, weights and forward factors."""
    rng = np.random.default_rng([seed, k, n])
    calls = rng.binomial(2, rng.uniform(0.02, 0.98, (k, 1)), (k, n)).astype(np.int8)
    calls[rng.random((k, n)) < miss] = -127
    basis = rng.normal(size=(m, n)) * rng.choice([1e-3, 1.0, 50.0], (m, 1))
    columns = rng.normal(size=(n_columns, n))
    h, fwd = rng.uniform(0, 1, (2, m, n_nodes))
    return genotypes.pack_calls(calls), basis, columns, h, fwd


def numpy_sums(x, basis, h, fwd=None):
    """Σ_i h[i, r] s_i², s_i = x_i - fwd[i, r] s_{i-1}, as it is written."""
    rotated = x @ basis.T
    xx = np.zeros((len(x), h.shape[1]))
    s = np.zeros_like(xx)
    for i in range(len(basis)):
        s = rotated[:, i, None] - (0.0 if fwd is None else fwd[i] * s)
        xx += h[i] * s * s
    return xx


@pytest.mark.parametrize("n", [1, 31, 32, 33, 63, 64, 65, 200, 333])
@pytest.mark.parametrize("miss", [0.0, 0.02, 0.4])
def test_products(level, n, miss):
    packed, _, columns, _, _ = make_case(37, n, miss, n_columns=19)
    xz = rotate.rotate_calls(columns, packed, 2)
    x = packed.decode()
    # Round-off of n products and sums; the matrix unit's columns have an error of 2^-47 of their largest entry.
    bound = 4e-15 * n * np.abs(columns).max()
    if level == "amx":
        bound += 2.0**-47 * x.sum(axis=1).max() * np.abs(columns).max()
    np.testing.assert_allclose(xz, x @ columns.T, rtol=0, atol=bound)


def test_columns_of_any_size(level):
    """Entries of one column from 1e-280 to 1e300, of all signs, and a column of zeros."""
    packed, _, columns, _, _ = make_case(40, 100, 0.05, n_columns=40)
    columns *= np.logspace(-280, 300, 40)[:, None]
    columns[[3, 17]] = 0.0
    columns[5] = -np.abs(columns[5])
    columns[6, :] = 0.0
    columns[6, 99] = 0.75
    products = rotate.rotate_calls(columns, packed, 1)
    scale = np.maximum(np.abs(columns).max(axis=1), 1e-280)
    np.testing.assert_allclose(products / scale, packed.decode() @ (columns / scale[:, None]).T, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(products[:, [3, 17]], 0)


@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 257])
def test_any_number_of_variants(level, k):
    packed, basis, columns, h, _ = make_case(k, 70, 0.05, m=70, n_columns=5)
    xx, xz = rotate.rotate_sums(packed, basis, columns, h, None, 2)
    x = packed.decode()
    assert xx.shape == (k, 16)
    np.testing.assert_allclose(xx, numpy_sums(x, basis, h), rtol=1e-12)
    np.testing.assert_allclose(xz, x @ columns.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("m", [1, 7, 8, 9, 31, 32, 33, 64, 65])
@pytest.mark.parametrize("n_nodes", [8, 16, 24, 48])
@pytest.mark.parametrize("forward", [False, True])
def test_any_number_of_columns_and_nodes(level, m, n_nodes, forward):
    packed, basis, columns, h, fwd = make_case(20, 100, 0.05, m=m, n_columns=m, n_nodes=n_nodes)
    if not forward:
        fwd = None
    xx, xz = rotate.rotate_sums(packed, basis, columns, h, fwd, 1)
    np.testing.assert_allclose(xx, numpy_sums(packed.decode(), basis, h, fwd), rtol=1e-11)
    np.testing.assert_allclose(xz, packed.decode() @ columns.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("miss", [0.0, 0.03, 0.3])
@pytest.mark.parametrize("forward", [False, True])
def test_result_does_not_depend_on_chunk_or_threads(level, miss, forward, monkeypatch):
    packed, basis, columns, h, fwd = make_case(100, 150, miss, m=70, n_columns=11)
    if not forward:
        fwd = None
    whole = rotate.rotate_sums(packed, basis, columns, h, fwd, 1)
    for n_threads in (2, 8):
        for ours, expected in zip(rotate.rotate_sums(packed, basis, columns, h, fwd, n_threads), whole, strict=True):
            np.testing.assert_array_equal(ours, expected)
    for size in (1, 7, 33, 64):
        rows = [np.arange(start, min(start + size, 100)) for start in range(0, 100, size)][:: 9 if size < 9 else 1]
        for part in rows:
            for ours, expected in zip(
                rotate.rotate_sums(packed.take(part), basis, columns, h, fwd, 2), whole, strict=True
            ):
                np.testing.assert_array_equal(ours, expected[part])
    monkeypatch.setattr(rotate, "MAX_BLOCK", 24)
    for ours, expected in zip(rotate.rotate_sums(packed, basis, columns, h, fwd, 2), whole, strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("n", [32, 100])
def test_everything_missing(level, n):
    packed = genotypes.pack_calls(np.full((9, n), -127, np.int8))
    xx, xz = rotate.rotate_sums(packed, np.ones((3, n)), np.ones((2, n)), np.ones((3, 8)), None, 1)
    assert not xx.any()
    assert not xz.any()


def test_blocks_of_about_the_same_size():
    assert rotate.block_size(1, 10, 4) == 1
    assert rotate.block_size(rotate.MAX_BLOCK * 3, 10, 2) * 4 == rotate.MAX_BLOCK * 3
    assert rotate.block_size(1000, 10, 3) == 334
    assert rotate.block_size(10_000, rotate.MAX_BLOCK_BYTES // 500, 1) == 500


def test_sizes_that_do_not_agree():
    packed, basis, columns, h, fwd = make_case(3, 40, 0, m=4, n_columns=2)
    for wrong in (
        (basis[:, :-1].copy(), columns, h, None),
        (basis, columns[:, :-1].copy(), h, None),
        (basis, columns, h[:-1].copy(), None),
        (basis, columns, h[:, :12].copy(), None),
        (basis, columns, h, fwd[:, :8].copy()),
    ):
        with pytest.raises(ValueError, match="sizes do not agree"):
            rotate.rotate_sums(packed, *wrong, 1)
