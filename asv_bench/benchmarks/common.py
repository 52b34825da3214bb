"""Simulated data for the benchmarks, small enough that a quick run of all takes minutes; always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MISSING_CALL = -127
N_THREADS = 2

Calls = NDArray[np.int8]


def simulate_calls(n_samples: int, n_variants: int, missing_rate: float = 0.0, seed: int = 1) -> Calls:
    """Hard calls, one row a variant: int8, shape (n_variants, n_samples), frequencies from 0.05 to 0.5."""
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.05, 0.5, (n_variants, 1))
    calls = np.empty((n_variants, n_samples), np.int8)
    for start in range(0, n_variants, 1000):
        stop = start + 1000
        calls[start:stop] = rng.binomial(2, frequency[start:stop], calls[start:stop].shape)
        if missing_rate:
            calls[start:stop][rng.random(calls[start:stop].shape) < missing_rate] = MISSING_CALL
    return calls


def simulate_kinship(n_samples: int, n_variants: int | None = None, seed: int = 2) -> NDArray[np.float64]:
    """A centred kinship of relatives (each sample shares half of its variants with the next one)."""
    x = simulate_calls(n_samples, n_variants or n_samples + n_samples // 2, seed=seed).T.astype(np.float64)
    half = x.shape[1] // 2
    x[1::2, :half] = x[0 : 2 * (n_samples // 2) : 2, :half]
    x -= x.mean(axis=0)
    return x @ x.T / x.shape[1]


def simulate_phenotypes(kinship: NDArray[np.float64], n_phenotypes: int, h2: float = 0.5) -> NDArray[np.float64]:
    """Phenotypes with heritability `h2` of that kinship, shape (n, n_phenotypes)."""
    rng = np.random.default_rng(3)
    n = len(kinship)
    factor = np.linalg.cholesky(kinship / np.trace(kinship) * n + 1e-8 * np.eye(n))
    g = factor @ rng.standard_normal((n, n_phenotypes))
    return np.sqrt(h2) * g + np.sqrt(1 - h2) * rng.standard_normal((n, n_phenotypes))


def simulate_covariates(n_samples: int, n_cvt: int) -> NDArray[np.float64]:
    """An intercept and n_cvt - 1 normal columns."""
    w = np.random.default_rng(4).standard_normal((n_samples, n_cvt))
    w[:, 0] = 1
    return w


def write_cohort(
    prefix: Path, n_samples: int, n_variants: int, missing_rate: float = 0.005, n_phenotypes: int = 1
) -> None:
    """A PLINK fileset with 20 chromosomes."""
    from bed_reader import to_bed

    calls = simulate_calls(n_samples, n_variants, missing_rate)
    to_bed(f"{prefix}.bed", np.asfortranarray(calls.T), num_threads=1)
    signal = np.where(calls[::50] == MISSING_CALL, 0, calls[::50]).T.astype(np.float64)
    signal = (signal - signal.mean(axis=0)) @ np.random.default_rng(5).standard_normal((signal.shape[1], n_phenotypes))
    y = signal / signal.std(axis=0) + np.random.default_rng(6).standard_normal(signal.shape)
    fam = (f"f{i} i{i} 0 0 1 " + " ".join(f"{v:.5f}" for v in y[i]) + "\n" for i in range(n_samples))
    Path(f"{prefix}.fam").write_text("".join(fam))
    bim = (f"{1 + 20 * v // n_variants}\tv{v}\t0\t{1000 * (v + 1)}\tA\tG\n" for v in range(n_variants))
    Path(f"{prefix}.bim").write_text("".join(bim))
