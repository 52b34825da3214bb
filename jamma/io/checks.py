"""What a kinship and its eigenvectors have to be before they are used; all in blocks, without a second matrix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jamma.core.errors import MAX_PROBLEMS_SHOWN, InputError
from jamma.io.arrays import F64, I64

#: Largest asymmetry, relative to the largest entry.
TOLERANCE = 1e-6
#: Largest |u_j'u_k - (j = k)| in eigenvectors; text of 10 digits keeps them orthonormal to about 1e-10.
ORTHOGONALITY = 1e-6
SAMPLED_COLUMNS = 32
TILE = 1024
BLOCK = 1 << 20  # entries looked at at a time


def row_blocks(matrix: F64) -> Iterator[tuple[int, F64]]:
    """Runs of rows of about a million entries, with the number of the first row."""
    step = max(1, BLOCK // max(matrix.shape[1], 1))
    for first in range(0, len(matrix), step):
        yield first, matrix[first : first + step]


def check_finite(matrix: F64, path: Path, rows: I64, columns: I64) -> None:
    """Refuse nan and infinity, with their places in the file."""
    problems: list[str] = []
    for first, block in row_blocks(matrix):
        if len(problems) < MAX_PROBLEMS_SHOWN and not np.isfinite(block).all():
            for i, j in np.argwhere(~np.isfinite(block))[: MAX_PROBLEMS_SHOWN + 1]:
                where = f"{path}:{rows[first + i] + 1}:{columns[j] + 1}"
                problems.append(f"{where}: {block[i, j]}, expected a finite number")
    if problems:
        raise InputError(problems)


def largest(matrix: F64) -> float:
    """Largest absolute value."""
    return max((float(np.abs(block).max(initial=0.0)) for _, block in row_blocks(matrix)), default=0.0)


def symmetrize(kinship: F64, path: Path, rows: I64, notes: list[str] | None) -> None:
    """Refuse a matrix that is not symmetric; average what is symmetric but for rounding, in place."""
    n, worst, where = len(kinship), 0.0, (0, 0)
    top = largest(kinship)
    for a in range(0, n, TILE):
        for b in range(0, a + 1, TILE):
            difference = np.abs(kinship[a : a + TILE, b : b + TILE] / 2 - kinship[b : b + TILE, a : a + TILE].T / 2)
            if difference.max() > worst:
                i, j = divmod(int(np.argmax(difference)), difference.shape[1])
                worst, where = float(difference[i, j]), (a + i, b + j)
    if worst == 0:
        return
    i, j = where
    if worst > TOLERANCE / 2 * top:
        raise InputError(
            f"{path}:{rows[i] + 1}:{rows[j] + 1}: {kinship[i, j]:.10g}, but row {rows[j] + 1}, column {rows[i] + 1} "
            f"has {kinship[j, i]:.10g}: expected a symmetric matrix"
        )
    for a in range(0, n, TILE):
        for b in range(0, a + 1, TILE):
            mean = kinship[a : a + TILE, b : b + TILE] / 2 + kinship[b : b + TILE, a : a + TILE].T / 2
            kinship[a : a + TILE, b : b + TILE] = mean
            kinship[b : b + TILE, a : a + TILE] = mean.T
    if notes is not None:
        notes.append(f"{path}: rounding differences between its triangles (largest {2 * worst:.1e}) were averaged")


def check_informative(kinship: F64, path: Path, warnings: list[str] | None) -> None:
    """Refuse a matrix without any variation; warn of one that is an identity but for constants.

    K = a I + b 11' is a multiple of I - 11'/n after centring: V = (a lambda + 1) I, in which lambda cannot be told
    from the residual variance.
    """
    n = len(kinship)
    if n < 2:
        return
    top = largest(kinship)
    if top == 0:
        raise InputError(f"{path}: every entry for the analysed samples is 0, expected a kinship")
    diagonal, off = np.diagonal(kinship), float(kinship[1, 0])
    spread = float(np.ptp(diagonal))
    for first, rows in row_blocks(kinship):
        block = np.abs(rows - off)
        block[np.arange(len(block)), np.arange(first, first + len(block))] = 0
        spread = max(spread, float(block.max()))
        if spread > 1e-12 * top:
            return
    if abs(float(diagonal[0]) - off) <= 1e-12 * top:
        raise InputError(f"{path}: every entry for the analysed samples is {off:.6g}, expected a kinship")
    if warnings is not None:
        warnings.append(
            f"{path}: identity matrix (diagonal {diagonal[0]:.6g}, elsewhere {off:.6g}): lambda, pve, vg and ve are "
            "not identified; the tests are those of a linear regression"
        )


def eigenvalue_problems(d: F64, path: Path) -> list[str]:
    """What no positive semidefinite matrix has among its eigenvalues."""
    top = float(d.max(initial=0.0))
    negative = np.flatnonzero(d < -1e-8 * max(top, 1e-300))[:5]
    problems = [f"{path}:{k + 1}: {d[k]:.10g}, expected an eigenvalue of at least 0" for k in negative]
    return problems if top > 0 else [*problems, f"{path}: no eigenvalue above 0"]


def eigenvector_problems(u: F64, weights: F64 | None, path: Path) -> list[str]:
    """Columns that are not orthonormal, looked for among some of them against all.

    With weights, row i of U was multiplied by the square root of weight i; where one is 0, so is its row, and nothing
    is checked.
    """
    n = len(u)
    if weights is not None and not (weights > 0).all():
        return []
    chosen = np.unique(np.linspace(0, n - 1, min(n, SAMPLED_COLUMNS)).astype(np.int64))
    some = u[:, chosen]
    product = u.T @ (some if weights is None else some / weights[:, None])
    product[chosen, np.arange(len(chosen))] -= 1
    j, k = divmod(int(np.argmax(np.abs(product))), product.shape[1])
    if np.abs(product[j, k]) <= ORTHOGONALITY:
        return []
    same = int(j == chosen[k])
    hint = "" if weights is not None else "; with unequal weights (-widv) the run that reads it needs them too"
    return [
        f"{path}: columns {j + 1} and {chosen[k] + 1} have the inner product {product[j, k] + same:.10g}, expected "
        f"{same}: not eigenvectors{hint}"
    ]
