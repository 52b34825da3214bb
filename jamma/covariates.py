"""The covariate matrix: one-hot columns, an intercept, and full rank."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError
from jamma.io.columns import NumberTable
from jamma.io.text import parse_number, plural, show, some

F64 = NDArray[np.float64]

#: A column whose part outside the span of the columns before it is smaller than this, relative to the column (centred),
#: is taken as dependent on them: covariates come as text of some seven digits. R's ``lm`` uses the same bound.
RANK_TOLERANCE = 1e-7

MAX_LEVELS = 1000  # a column of IDs taken for a category would need a matrix as large as the kinship


@dataclass
class CovariateMatrix:
    """W of the analysed individuals.

    Attributes
    ----------
    values : ndarray of float64, shape (n, c)
        Of full rank, intercept included.
    names : tuple of str, length c
    notes, warnings : list of str
    """

    values: F64
    names: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def covariate_matrix(table: NumberTable | None, index: NDArray[np.int64]) -> CovariateMatrix:
    """Build W from the covariates of the individuals in `index`.

    A column that is constant over them (and not 0) counts as the intercept, with its value; of several, the first is
    kept, as GEMMA keeps it where all columns are constant. Without one, a column of ones is appended last. Further
    constant columns and linear combinations of other columns are dropped, with a warning that names them.

    Parameters
    ----------
    table : NumberTable or None
        Covariates of all individuals; None: the intercept alone.
    index : ndarray of int64, shape (n,)
        Analysed individuals, none of which has a missing covariate.

    Raises
    ------
    InputError
        A categorical column with a level for each individual, or more than 1,000 levels.
    """
    n = len(index)
    if table is None:
        return CovariateMatrix(np.ones((n, 1)), ("intercept",))
    w = CovariateMatrix(np.empty((n, 0)), ())
    columns: list[F64] = []
    names: list[str] = []
    for k, name in enumerate(table.names):
        if k in table.labels:
            for level_name, column in one_hot([table.labels[k][i] for i in index], show(name), w.notes):
                names.append(level_name)
                columns.append(column)
        else:
            names.append(show(name))
            columns.append(table.values[index, k])
    intercept = next((k for k, x in enumerate(columns) if x[0] != 0 and x.min() == x.max()), None)
    if intercept is None:
        intercept = len(columns)
        columns.append(np.ones(n))
        names.append("intercept")
        w.notes.append("no covariate is constant: a column of ones was appended as the intercept")
    else:
        w.notes.append(f"{names[intercept]} is the intercept (constant {columns[intercept][0]:g})")
    kept, dropped = independent_columns(np.column_stack(columns), intercept)
    for k, others in dropped:
        why = f"a linear combination of {some([names[j] for j in others], 6)}" if others else "constant"
        w.warnings.append(f"{names[k]} was dropped: it is {why}")
    w.values = np.column_stack([columns[k] for k in kept])
    w.names = tuple(names[k] for k in kept)
    return w


def one_hot(labels: list[str], name: str, notes: list[str]) -> list[tuple[str, F64]]:
    """Indicator columns, with names, of every level but the first.

    Levels are ordered, and equal, as numbers (``1``, ``1.0``) where all are numbers, else as text.
    """
    numbers = {t: parse_number(t) for t in set(labels)}
    if all(v is not None for v in numbers.values()):
        values = sorted({v for v in numbers.values() if v is not None})
        code = {t: values.index(v) for t, v in numbers.items() if v is not None}
        levels = [f"{v:.15g}" for v in values]
    else:
        texts = sorted(numbers)
        code = {t: k for k, t in enumerate(texts)}
        levels = [show(t) for t in texts]
    n = plural(len(levels), "level")
    if len(levels) > MAX_LEVELS or 1 < len(levels) == len(labels):
        raise InputError(
            f"{name}: {n} for {plural(len(labels), 'individual')} ({some(levels)}), expected a category (-cat)"
        )
    notes.append(f"{name} is categorical: {n} {some(levels, 20)}; {levels[0]} is the reference")
    codes = np.fromiter((code[t] for t in labels), np.int64, len(labels))
    return [(f"{name}={level}", (codes == k).astype(np.float64)) for k, level in enumerate(levels) if k > 0]


def independent_columns(w: F64, intercept: int) -> tuple[list[int], list[tuple[int, list[int]]]]:
    """Rank-revealing QR that moves dependent columns behind the others and leaves the order else as it is.

    The intercept goes first; then each column in turn is reduced by those kept so far (Gram-Schmidt, twice, which is
    enough for orthogonality to working precision) and kept if what is left of it exceeds `RANK_TOLERANCE` times its
    centred norm. This limited pivoting, which R's ``lm`` uses too, drops the later of two equal columns.

    Parameters
    ----------
    w : ndarray of float64, shape (n, c)
    intercept : int
        The column that is constant and not 0.

    Returns
    -------
    kept : list of int
        Independent columns, ascending.
    dropped : list of (int, list of int)
        Each dependent column with the kept columns of which it is a combination; none for a constant.
    """
    n, c = w.shape
    varies = w.min(axis=0) != w.max(axis=0)
    centred = w / np.maximum(np.abs(w).max(axis=0), np.finfo(np.float64).tiny)  # first, so that no sum overflows
    centred -= centred.mean(axis=0)
    basis = np.empty((n, c))
    kept: list[int] = []
    dropped: list[tuple[int, list[int]]] = []
    for k in range(c):
        if k == intercept:
            continue
        x = centred[:, k]
        if not (varies[k] and x.any()):
            dropped.append((k, []))
            continue
        size = np.linalg.norm(x)
        q = basis[:, : len(kept)]
        for _ in range(2):
            x = x - q @ (q.T @ x)
        left = np.linalg.norm(x)
        if left <= RANK_TOLERANCE * size:
            dropped.append((k, _explained_by(centred, kept, k)))
        else:
            basis[:, len(kept)] = x / left
            kept.append(k)
    return sorted([*kept, intercept]), dropped


def _explained_by(centred: F64, kept: list[int], k: int) -> list[int]:
    """The columns in `kept` that carry weight in the least-squares expression of column `k`."""
    scale = np.linalg.norm(centred[:, kept], axis=0)
    coefficients = np.linalg.lstsq(centred[:, kept] / scale, centred[:, k], rcond=None)[0]
    threshold = 1e-5 * np.linalg.norm(centred[:, k])
    return [j for j, b in zip(kept, coefficients, strict=True) if abs(b) > threshold]
