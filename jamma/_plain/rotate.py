"""Variants times the columns of a basis, and the sums of their squares at the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jamma.core.threads import blas_threads
from jamma.lmm.schema import F64

if TYPE_CHECKING:
    from jamma._plain.genotypes import PackedCalls

# Rows of every matrix product, the last one padded with zeros: what comes out for a variant does not depend on how
# many others there are.
_PANEL_ROWS = 256


@blas_threads(1)  # the same bits whatever the number of threads
def rotate_sums(packed: PackedCalls, basis: F64, columns: F64, h: F64, *, n_threads: int = 1) -> tuple[F64, F64]:
    """Σ_i h[i, r] (q_iᵀx)² of each variant, shape (k, R), and its products with `columns`, shape (k, M)."""
    xx, xz = np.empty((len(packed), h.shape[1])), np.empty((len(packed), len(columns)))
    x = np.empty((_PANEL_ROWS, packed.n_samples))
    for start in range(0, len(packed), _PANEL_ROWS):
        rows = packed.decode(start, start + _PANEL_ROWS)
        x[: len(rows)], x[len(rows) :] = rows, 0.0
        at = slice(start, start + len(rows))
        xx[at] = ((x @ basis.T) ** 2 @ h)[: len(rows)]
        xz[at] = (x @ columns.T)[: len(rows)]
    return xx, xz


def rotate_calls(columns: F64, packed: PackedCalls, n_threads: int = 1) -> F64:
    """The products of packed variants with some vectors."""
    return rotate_sums(packed, np.empty((0, packed.n_samples)), columns, np.empty((0, 0)))[1]
