"""Problems for the tests of nodes, null model, search and reference, and their sums at the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from jamma.lmm.basis import EigenBasis
from jamma.lmm.nodes import PhenotypeTables, make_nodes, phenotype_tables


@dataclass(frozen=True)
class HardCase:
    """A small problem that strains the search; `kinship` is centred."""

    kinship: np.ndarray
    eigenvalues: np.ndarray
    u: np.ndarray
    w: np.ndarray
    y: np.ndarray
    x: np.ndarray
    kind: str


def make_hard_case(seed: int) -> HardCase:
    """One of `hard_cases`."""
    heritabilities = (0.0, 0.05, 0.3, 0.6, 0.9, 0.99, 0.999, 0.5)
    rng = np.random.default_rng([2024, seed])
    n, c, h2 = int(rng.integers(30, 120)), 1 + seed % 5, heritabilities[seed % 8]
    kind = ("full", "low", "families", "structure", "flat")[seed % 6 % 5]
    rank = {"full": 3 * n, "low": max(2, n // 4), "families": 2 * n, "structure": 2 * n, "flat": 1}[kind]
    g = rng.binomial(2, rng.uniform(0.05, 0.5, rank), (n, rank)).astype(float)
    if kind == "families":
        g = g[np.arange(n) // 4 * 4] + rng.binomial(1, 0.02, g.shape)
    if kind == "structure":
        g[: n // 3] += rng.binomial(1, 0.7, rank)
    k = np.eye(n) if kind == "flat" else np.cov(g.T, rowvar=False, bias=True) * n / rank
    k = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
    d, u = np.linalg.eigh(k)
    d = np.where(d < 1e-10, 0.0, d)
    w = np.column_stack([np.ones(n), rng.normal(size=(n, c - 1))])
    x = np.column_stack([rng.binomial(2, f, n) for f in rng.uniform(0.1, 0.9, 3)]).astype(float)
    genetic = u @ (np.sqrt(d) * rng.normal(size=n)) / np.sqrt(d.mean())
    y = (
        np.sqrt(h2) * genetic
        + np.sqrt(1 - h2) * rng.normal(size=n)
        + (seed % 3) * 0.3 * x[:, 0]
        + w @ rng.normal(size=c)
    )
    return HardCase(k, d, u, w, y, x[:, x.std(0) > 0], kind)


def make_tables(problem, *, know_covariates: bool = True, bounds=(1e-5, 1e5)) -> tuple[PhenotypeTables, EigenBasis]:
    """Nodes and tables of a problem with fields eigenvalues, u, w and y."""
    p = problem
    basis = EigenBasis(p.eigenvalues, p.u)
    q, r_factor = np.linalg.qr(p.w)
    ones = np.linalg.lstsq(p.w, np.ones(len(p.y)), rcond=None)[0]
    nodes = make_nodes(p.eigenvalues, *bounds, partial(basis.gram, q) if know_covariates else None)
    mean, scale = float(p.y.mean()), float(p.y.std())
    gram = partial(basis.gram, np.column_stack([q, (p.y - mean) / scale]))
    return phenotype_tables(
        nodes, gram, len(p.y), p.w.shape[1], y_mean=mean, y_scale=scale, r_factor=r_factor, ones=ones
    ), basis  # fmt: skip


def node_sums(tables: PhenotypeTables, basis: EigenBasis, problem, x: np.ndarray):
    """xx (k, R), xq (k, c, R) and xy (k, R) of the columns of x, as the equations say."""
    h = 1.0 / (np.outer(basis.eigenvalues, tables.nodes.lambdas) + 1.0)
    rotated = basis.vectors.T @ x
    q = basis.vectors.T @ np.linalg.qr(problem.w)[0]
    y = basis.vectors.T @ ((problem.y - tables.scaling.mean) / tables.scaling.scale)
    xq = np.stack([(rotated * column[:, None]).T @ h for column in q.T], axis=1)
    return (rotated**2).T @ h, np.ascontiguousarray(xq), (rotated * y[:, None]).T @ h
