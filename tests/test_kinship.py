"""The kinship against its definition in NumPy, at every CPU level, thread count and shape."""

from __future__ import annotations

import numpy as np
import pytest

from jamma._core import kinship as kernel
from jamma.core.errors import InputError
from jamma.io.readers import ArrayReader, GenotypeChunk
from jamma.kinship import KinshipSum, LocoKinship, compute_centered_kinship, compute_standardized_kinship

LEVELS = kernel.available_levels()


@pytest.fixture
def at_level():
    """Sets the kernel's CPU level; the best one is back afterwards."""
    yield kernel.set_level
    kernel.set_level(None)


def simulate(n: int, p: int, missing: float = 0.0, seed: int = 1) -> np.ndarray:
    """Hard calls (p, n) of variants that vary."""
    rng = np.random.default_rng(seed)
    calls = rng.binomial(2, rng.uniform(0.05, 0.95, (p, 1)), (p, n)).astype(np.int8)
    calls[:, 0], calls[:, -1] = 0, 2
    calls[:, 1:-1][rng.random((p, n - 2)) < missing] = -127
    return calls


def definition(calls: np.ndarray, standardized: bool = False) -> np.ndarray:
    """(1/p) sum of z z' with z the centred, mean-imputed variant."""
    x = np.where(calls < 0, np.nan, calls.astype(float))
    x = np.where(np.isnan(x), np.nanmean(x, axis=1, keepdims=True), x)
    z = x - x.mean(axis=1, keepdims=True)
    if standardized:
        z /= x.std(axis=1, keepdims=True)
    return z.T @ z / len(z)


def chunk(calls: np.ndarray) -> GenotypeChunk:
    return GenotypeChunk(np.ascontiguousarray(calls), None, np.arange(len(calls)))


def close(mine: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))
    assert np.array_equal(mine, mine.T)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("missing", [0.0, 0.01, 0.2])
@pytest.mark.parametrize(("n", "p"), [(2, 1), (31, 63), (32, 64), (33, 65), (100, 300), (257, 130)])
def test_definition(at_level, level, n, p, missing):
    at_level(level)
    calls = simulate(n, p, missing)
    total = KinshipSum(n, n_threads=2)
    total.add(chunk(calls))
    assert total.n_variants == p
    close(total.matrix(), definition(calls))


@pytest.mark.parametrize("level", LEVELS)
def test_sums_that_would_overflow_16_bits(at_level, level):
    """Every product is 4, over more variants than one block holds."""
    at_level(level)
    calls = np.full((2 * kernel.MAX_VARIANTS + 1, 40), 2, np.int8)
    calls[:, 0] = 0
    total = KinshipSum(40)
    total.add(chunk(calls))
    close(total.matrix(), definition(calls))


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_block_boundaries(extra):
    calls = simulate(35, kernel.MAX_VARIANTS + extra, 0.01)
    total = KinshipSum(35)
    total.add(chunk(calls))
    close(total.matrix(), definition(calls))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("missing", [0.0, 0.02])
def test_threads_do_not_matter(at_level, level, missing):
    at_level(level)
    if level == "baseline":
        pytest.skip("DSYRK does the work, whose last bits depend on its threads")
    calls = simulate(150, 700, missing)
    results = []
    for n_threads in (1, 2, 8):
        total = KinshipSum(150, n_threads=n_threads)
        total.add(chunk(calls))
        results.append(total.matrix().tobytes())
    assert len(set(results)) == 1


def test_levels_agree_to_the_bit(at_level):
    """All but the baseline, which is DSYRK: the sums are integers, the corrections of one order."""
    calls = simulate(90, 500, 0.02)
    results = set()
    for level in LEVELS:
        if level == "baseline":
            continue
        at_level(level)
        total = KinshipSum(90)
        total.add(chunk(calls))
        results.add(total.matrix().tobytes())
    assert len(results) <= 1


@pytest.mark.parametrize("level", LEVELS)
def test_integer_product_of_the_kernel_itself(at_level, level):
    """add_calls against int64 NumPy; at the baseline too, which the class does not use."""
    at_level(level)
    calls = simulate(45, 200)
    half, terms = np.zeros((45, 45)), np.zeros(45)
    start, variant = kernel.missing_by_sample(calls, np.arange(200), np.zeros(200, np.int32))
    assert kernel.add_calls(calls, np.arange(200), np.zeros(200), start, variant, half, terms, 2) == 0
    g = calls.astype(np.int64)
    assert np.array_equal(half + half.T, g.T @ g)


def test_missing_by_sample():
    calls = simulate(37, 90, 0.1)
    n_miss = (calls < 0).sum(axis=1).astype(np.int32)
    start, variant = kernel.missing_by_sample(calls, np.arange(90), n_miss, 2)
    for i in range(37):
        assert np.array_equal(variant[start[i] : start[i + 1]], np.flatnonzero(calls[:, i] < 0))


def test_chunks_and_selection():
    calls = simulate(60, 300, 0.01)
    keep = np.arange(300) % 3 > 0
    whole, pieces = KinshipSum(60), KinshipSum(60)
    whole.add(chunk(calls), keep)
    for start in range(0, 300, 7):
        pieces.add(chunk(calls[start : start + 7]), keep[start : start + 7])
    pieces.add(chunk(calls[:0]))
    assert whole.n_variants == pieces.n_variants == keep.sum()
    expected = definition(calls[keep])
    close(whole.matrix(), expected)
    close(pieces.matrix(), expected)


def test_loco_is_the_kinship_of_the_others():
    calls = simulate(50, 400, 0.01)
    on_chromosome = np.arange(400) % 4 == 1
    total, group = LocoKinship(50), KinshipSum(50)
    total.add(chunk(calls))
    group.add(chunk(calls), on_chromosome)
    close(total.without(group), definition(calls[~on_chromosome]))
    again = KinshipSum(50)
    again.add(chunk(calls), ~on_chromosome)
    close(total.without(again), definition(calls[on_chromosome]))


def test_loco_of_complete_calls_is_exact():
    calls = simulate(50, 400)
    total, group, others = LocoKinship(50), KinshipSum(50), KinshipSum(50)
    total.add(chunk(calls))
    group.add(chunk(calls[:100]))
    others.add(chunk(calls[100:]))
    np.testing.assert_allclose(total.without(group), others.matrix(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(dtype, order):
    calls = simulate(40, 120, 0.05)
    genotypes = np.array(calls.T, dtype=dtype, order=order)
    if np.dtype(dtype).kind == "f":
        genotypes[genotypes < 0] = np.nan
    genotypes.flags.writeable = False
    close(compute_centered_kinship(genotypes), definition(calls))
    standardized = compute_standardized_kinship(genotypes)
    close(standardized, definition(calls, standardized=True))
    assert np.trace(standardized) / 40 == pytest.approx(1.0, abs=1e-12)


def test_dosages():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 2, (30, 80))
    z = x - x.mean(axis=0)
    close(compute_centered_kinship(x), z @ z.T / 80)


def test_monomorphic_variants_do_not_count():
    calls = simulate(20, 50)
    constant = np.full((3, 20), 1, np.int8)
    constant[1] = -127
    constant[2, ::2] = -127
    close(compute_centered_kinship(np.concatenate([calls, constant]).T), definition(calls))
    with pytest.raises(InputError, match="none of 3 variants varies"):
        compute_centered_kinship(constant.T)


def test_reader_of_the_arrays_is_what_is_added():
    calls = simulate(20, 50)
    total = KinshipSum(20)
    for part in ArrayReader(calls.T).chunks(8):
        total.add(part)
    close(total.matrix(), definition(calls))
