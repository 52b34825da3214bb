"""The search for lambda from the sums at the nodes, against the DGEMM that forms the largest of these sums.

The search has no BLAS counterpart: the product (x∘x) H of the same variants, n by R, is the least that a search on the
samples would pay at as many values of lambda. The printed difference is of p_wald from the NumPy reference's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from case import Case


class Problem:
    """Rotated data with a given spectrum (eigenvectors do not matter here), its tables and its sums."""

    def __init__(self, n_samples: int, n_cvt: int, n_variants: int):
        from jamma.lmm.nodes import make_nodes, phenotype_tables
        from jamma.lmm.null_model import fit_null_model
        from jamma.lmm.search import make_search

        rng = np.random.default_rng(7)
        d = np.sort(np.concatenate([[0.0], rng.gamma(0.3, 1.2, n_samples - 1) + 1e-4]))
        q = np.zeros((n_samples, n_cvt))
        q[0, 0] = 1.0  # the intercept is K's null vector
        q[1:, 1:] = np.linalg.qr(rng.normal(size=(n_samples - 1, n_cvt - 1)))[0]
        y = np.sqrt(4.0 * d + 1.0) * rng.normal(size=n_samples)
        y[0] = 0.0
        self.d, self.q, self.y = d, q, y / np.sqrt(np.mean(y * y))
        self.x = rng.normal(size=(n_samples, n_variants))
        nodes = make_nodes(d, 1e-5, 1e5, self.gram_of(q))
        vectors = np.column_stack([q, self.y])
        self.tables = phenotype_tables(nodes, self.gram_of(vectors), n_samples, n_cvt)
        self.null = fit_null_model(self.tables)
        self.search = make_search(self.tables, self.null)
        self.h = 1.0 / (np.outer(d, nodes.lambdas) + 1.0)
        self.squares = np.ascontiguousarray((self.x**2).T)
        self.xx = self.squares @ self.h
        self.xq = np.stack([(self.x * column[:, None]).T @ self.h for column in q.T], axis=1).copy()
        self.xy = (self.x * self.y[:, None]).T @ self.h

    def gram_of(self, vectors: np.ndarray) -> Any:
        """The Gram matrices of rotated vectors as a function of the lambdas."""
        products = (vectors[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
        size = vectors.shape[1]
        return lambda at: ((1.0 / (np.outer(at, self.d) + 1.0)) @ products).reshape(-1, size, size)

    def error(self, ours: Any, _: Any) -> float:
        """Largest relative difference of p_wald from the reference, over 64 variants."""
        from jamma.lmm.reference import Model, associate_rotated
        from jamma.lmm.schema import LmmConfig

        model = Model(self.d, self.q, self.y, self.tables.scaling)
        expected = associate_rotated(model, self.null, self.x[:, :64], LmmConfig(lmm_mode=1))["p_wald"]
        return float(np.abs(ours[0][-1][:64] / expected - 1.0).max())


def cases(n_threads: int, small: bool = False) -> Iterator[Case]:
    """Wald tests at the sizes of the targets; small: 300 samples."""
    from jamma._core import likelihood

    for n, c, k in [(300, 1, 64)] if small else [(1410, 1, 1024), (1410, 5, 1024), (10_000, 1, 256)]:
        p = Problem(n, c, k)
        yield Case(
            f"search n={n} c={c} R={p.h.shape[1]} against DGEMM of x∘x at the nodes",
            lambda p=p: p.search.fit(p.xx, p.xq, p.xy, 1, n_threads),
            lambda p=p: p.squares @ p.h,
            n_items=k,
            levels=likelihood,
            difference=p.error,
        )
