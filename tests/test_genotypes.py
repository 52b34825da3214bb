"""Counts and packing of hard calls, at every CPU level, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from jamma._core import genotypes
from jamma.lmm.schema import LmmConfig
from jamma.variants import filter_counts


@pytest.fixture(params=genotypes.available_levels())
def level(request):
    genotypes.set_level(request.param)
    yield request.param
    genotypes.set_level(None)


def make_calls(m: int, n: int, miss: float = 0.1, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    calls = rng.binomial(2, rng.uniform(0.02, 0.5, (m, 1)), (m, n)).astype(np.int8)
    calls[rng.random((m, n)) < miss] = -127
    return calls


def numpy_counts(calls: np.ndarray) -> np.ndarray:
    return np.stack([(calls == 0).sum(1), (calls == 1).sum(1), (calls == 2).sum(1), (calls < 0).sum(1)], axis=1)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 63, 64, 65, 127, 255 * 16 + 1, 255 * 64, 255 * 64 + 1, 40_000])
@pytest.mark.parametrize("n_threads", [1, 8])
def test_counts(level, n, n_threads):
    calls = make_calls(5, n)
    calls[0] = 2  # a full lane in every vector
    counts = genotypes.count_calls(calls, None, n_threads)
    assert counts.dtype == np.int32
    np.testing.assert_array_equal(counts, numpy_counts(calls))


@pytest.mark.parametrize("n", [1, 64, 333, 255 * 64 + 17])
def test_counts_of_some_samples(level, n):
    calls = make_calls(7, n, seed=2)
    mask = (np.random.default_rng(3).random(n) < 0.6).astype(np.uint8) * 7
    np.testing.assert_array_equal(genotypes.count_calls(calls, mask, 2), numpy_counts(calls[:, mask > 0]))


def test_counts_no_variants(level):
    assert genotypes.count_calls(np.zeros((0, 10), np.int8)).shape == (0, 4)


def test_counts_mask_of_wrong_length():
    with pytest.raises(ValueError, match="mask of 3 samples, calls of 4"):
        genotypes.count_calls(np.zeros((1, 4), np.int8), np.ones(3, np.uint8))


def test_unknown_level():
    with pytest.raises(ValueError, match="CPU level nonsense"):
        genotypes.set_level("nonsense")
    assert genotypes.level() == genotypes.available_levels()[-1]


def numpy_codes(calls: np.ndarray) -> np.ndarray:
    """Packed codes by their definition, shape (n_words, m)."""
    m, n = calls.shape
    x = np.zeros((m, -(-n // 32) * 32), np.uint64)
    x[:, :n] = np.maximum(calls, 0)
    byte = (x.reshape(m, -(-n // 32), 8, 4) * np.array([1, 3, 9, 27], np.uint64)).sum(3)
    return (byte << (np.arange(8, dtype=np.uint64) * 8)).sum(2).T


def imputed(calls: np.ndarray) -> np.ndarray:
    x = np.where(calls < 0, np.nan, calls)
    means = np.array([0.0 if np.isnan(row).all() else np.nanmean(row) for row in x])
    return np.where(calls < 0, means[:, None], calls)


@pytest.mark.parametrize("n", [1, 3, 31, 32, 33, 63, 64, 65, 96, 97, 1410])
@pytest.mark.parametrize("m", [0, 1, 8, 9, 40])
def test_pack(level, n, m):
    calls = make_calls(m, n, seed=n)
    packed = genotypes.pack_calls(calls, None, 2)
    np.testing.assert_array_equal(packed.codes, numpy_codes(calls))
    np.testing.assert_array_equal(packed.counts, numpy_counts(calls))
    np.testing.assert_allclose(packed.decode(), imputed(calls), rtol=0, atol=1e-15)


def test_pack_rows_in_any_order(level):
    calls = make_calls(50, 333)
    rows = np.array([49, 3, 3, 0, 17, 20, 21, 22, 48, 1])
    packed = genotypes.pack_calls(calls, rows, 8)
    np.testing.assert_allclose(packed.decode(), imputed(calls[rows]), rtol=0, atol=1e-15)
    np.testing.assert_allclose(packed.decode(2, 5), imputed(calls[rows[2:5]]), rtol=0, atol=1e-15)
    np.testing.assert_allclose(packed.take(np.array([5, 1])).decode(), imputed(calls[[20, 3]]), rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", ["none", "everywhere", "one"])
def test_pack_missing(level, kind):
    calls = make_calls(20, 100, miss=0)
    if kind == "everywhere":
        calls[4] = -127
    elif kind == "one":
        calls[4, 99] = -127
    packed = genotypes.pack_calls(calls, None, 2)
    assert (packed.missing is None) == (kind == "none")
    np.testing.assert_allclose(packed.decode(), imputed(calls), rtol=0, atol=1e-15)


def test_pack_no_such_row():
    with pytest.raises(IndexError, match="0 to 5 of 5"):
        genotypes.pack_calls(make_calls(5, 10), np.array([0, 5]))


@pytest.mark.parametrize("n", [1, 40, 333])
@pytest.mark.parametrize(("m", "n_threads"), [(0, 1), (1, 1), (64, 3), (65, 2), (300, 1), (300, 3)])
@pytest.mark.parametrize(
    "config", [LmmConfig(maf=0.2, miss=0.1), LmmConfig(maf=0.05, miss=1.0), LmmConfig(notsnp=True, miss=1.0)]
)
def test_sweep(level, n, m, n_threads, config):
    calls = make_calls(m, n, miss=0.05, seed=m + n)
    calls[2:6] = np.array([0, 1, 2, -127], np.int8)[: max(min(m - 2, 4), 0), None]
    counts, reason, packed = genotypes.sweep(calls, config.miss, config.maf, n_threads, config.notsnp)
    np.testing.assert_array_equal(counts, numpy_counts(calls))
    np.testing.assert_array_equal(reason, filter_counts(counts, config))
    expected = genotypes.pack_calls(calls, np.flatnonzero(reason == 0))
    np.testing.assert_array_equal(packed.codes, expected.codes)
    np.testing.assert_array_equal(packed.counts, expected.counts)
    np.testing.assert_array_equal(packed.decode(), expected.decode())
    few = packed.take(np.arange(len(packed))[::3])
    np.testing.assert_array_equal(few.decode(), packed.decode()[::3])


def test_sweep_with_other_codes():
    calls = np.array([[-127, -127, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]], np.int8)
    _, reason, packed = genotypes.sweep(calls, 0.25, 0.1, 1, reason_codes=(1, 2, 3))
    np.testing.assert_array_equal(reason, [1, 2, 0, 3])
    assert len(packed) == 1
