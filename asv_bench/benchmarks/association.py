"""Rotation and optimiser of the association, each alone."""

from __future__ import annotations

import numpy as np

from .common import N_THREADS, simulate_calls, simulate_covariates, simulate_kinship, simulate_phenotypes

#: (n_samples, n_cvt, missing_rate, n_phenotypes): one varied at a time.
CASES = [
    (400, 1, 0.0, 1), (1200, 1, 0.0, 1), (1200, 5, 0.0, 1), (1200, 1, 0.01, 1), (1200, 1, 0.05, 1), (1200, 1, 0.0, 10),
]  # fmt: skip


class _Prepared:
    """A basis, its nodes and a packed chunk of variants."""

    n_variants = 1024
    params = (CASES,)
    param_names = ("n_samples, n_cvt, missing_rate, n_phenotypes",)

    def setup(self, case: tuple[int, int, float, int]) -> None:
        """Decompose a simulated kinship and pack a chunk."""
        from jamma._core.genotypes import pack_calls
        from jamma.lmm.association import prepare_association
        from jamma.lmm.basis import EigenBasis
        from jamma.lmm.eigen import eigendecompose_kinship
        from jamma.lmm.schema import LmmConfig

        n_samples, n_cvt, missing_rate, n_phenotypes = case
        kinship = simulate_kinship(n_samples)
        y = simulate_phenotypes(kinship, n_phenotypes)
        basis = EigenBasis(*eigendecompose_kinship(kinship, center=True))
        names = tuple(str(k + 1) for k in range(n_phenotypes))
        self.config = LmmConfig(lmm_mode=4)
        self.setup_ = prepare_association(basis, y, simulate_covariates(n_samples, n_cvt), self.config, names)
        calls = simulate_calls(n_samples, self.n_variants, missing_rate)
        self.packed = pack_calls(calls, np.arange(self.n_variants), N_THREADS)


class Rotation(_Prepared):
    """Sums at the nodes of packed variants."""

    def time_sums(self, case: tuple) -> None:
        """Look-ups, squares and products with the columns of covariates and phenotypes."""
        prepared = self.setup_
        prepared.basis.sums(self.packed, prepared.columns, prepared.lambdas, N_THREADS)


class Optimiser(_Prepared):
    """The search for lambda and the tests, from the sums at the nodes."""

    params = ([case for case in CASES if case[2:] == (0.0, 1)],)

    def setup(self, case: tuple[int, int, float, int]) -> None:
        """Take the sums once."""
        super().setup(case)
        prepared, n_cvt = self.setup_, case[1]
        self.xx, xz = prepared.basis.sums(self.packed, prepared.columns, prepared.lambdas, N_THREADS)
        r = len(prepared.lambdas)
        self.xq = np.ascontiguousarray(xz[:, : n_cvt * r]).reshape(-1, n_cvt, r)
        self.xy = np.ascontiguousarray(xz[:, n_cvt * r : (n_cvt + 1) * r])

    def time_all_tests(self, case: tuple) -> None:
        """Mode 4."""
        from jamma.lmm.search import fit_variants

        phenotype = self.setup_.phenotypes[0]
        fit_variants(phenotype.tables, phenotype.null_model, self.xx, self.xq, self.xy, 4, N_THREADS)


class Packing:
    """Counts, filter and 2-bit codes of a chunk."""

    params = ([400, 2000], [0.0, 0.05])
    param_names = ("n_samples", "missing_rate")

    def setup(self, n_samples: int, missing_rate: float) -> None:
        """Simulate the calls."""
        self.calls = simulate_calls(n_samples, 4096, missing_rate)

    def time_count(self, *_: object) -> None:
        """Copies of allele1 and missing calls of 4,096 variants."""
        from jamma._core.genotypes import count_calls

        count_calls(self.calls, None, N_THREADS)

    def time_pack(self, *_: object) -> None:
        """Codes and means of 4,096 variants."""
        from jamma._core.genotypes import pack_calls

        pack_calls(self.calls, np.arange(len(self.calls)), N_THREADS)
