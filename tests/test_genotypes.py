"""Counts and packing of hard calls, at every CPU level, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from jamma._core import genotypes


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


@pytest.mark.parametrize("n", [0, 1, 31, 63, 64, 65, 127, 255 * 64, 255 * 64 + 1, 40_000])
@pytest.mark.parametrize("n_threads", [1, 2, 8])
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
