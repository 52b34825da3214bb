"""Who is analysed: phenotypes, covariates, weights and lists of individuals, and the covariate matrix that follows.

An individual is analysed if every phenotype asked for is present, no covariate is missing, the weight is not missing,
and the lists leave it in. The covariate matrix W then gets an intercept and full rank, as GEMMA and the algebra ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError, Problems, UsageError
from jamma.io.tables import FamTable, NumberTable, PathLike, match_individuals, read_matrix
from jamma.io.text import attempt, parse_number, plural, show, some

F64 = NDArray[np.float64]

#: A column whose part outside the span of the columns before it is smaller than this, relative to the column (centred),
#: is taken as dependent on them: covariates come as text of some seven digits. R's ``lm`` uses the same bound.
RANK_TOLERANCE = 1e-7


@dataclass(frozen=True, kw_only=True)
class SampleSelection:
    """The analysed individuals, in .fam order, and their data.

    Attributes
    ----------
    index : ndarray of int64, shape (n,)
        Rows of the .fam.
    mask : ndarray of bool, shape (n_total,)
    phenotypes : ndarray of float64, shape (n, K)
    phenotype_names : tuple of str, length K
        Column numbers, or names of a table with a header.
    covariates : ndarray of float64, shape (n, c)
        Of full rank, intercept included.
    covariate_names : tuple of str, length c
    weights : ndarray of float64, shape (n,), or None
    fid, iid : list of str, length n
    n_total : int
        Individuals of the .fam.
    excluded : dict of str to int
        Individuals by the (first) reason for leaving them out.
    notes, warnings : tuple of str
    """

    index: NDArray[np.int64]
    mask: NDArray[np.bool_]
    phenotypes: F64
    phenotype_names: tuple[str, ...]
    covariates: F64
    covariate_names: tuple[str, ...]
    weights: F64 | None
    fid: list[str]
    iid: list[str]
    n_total: int
    excluded: dict[str, int]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of analysed individuals."""
        return len(self.index)

    @property
    def n_cvt(self) -> int:
        """Number of covariate columns, intercept included."""
        return self.covariates.shape[1]


@dataclass
class _Tables:
    """What the files say, before anybody is left out."""

    phenotypes: NumberTable
    covariates: NumberTable | None = None
    weights: F64 | None = None
    keep: NDArray[np.bool_] | None = None
    remove: NDArray[np.bool_] | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def select_samples(
    fam: FamTable,
    *,
    phenotype_columns: Sequence[int] = (1,),
    phenotype_file: PathLike | None = None,
    covariate_file: PathLike | None = None,
    categorical: Sequence[int] = (),
    weights_file: PathLike | None = None,
    keep: PathLike | None = None,
    remove: PathLike | None = None,
    phenotype_required: bool = True,
) -> SampleSelection:
    """Choose the analysed individuals and prepare their phenotypes and covariates.

    Parameters
    ----------
    fam : FamTable
    phenotype_columns : sequence of int
        1-based columns of phenotypes (``-n``), of the .fam or of `phenotype_file`.
    phenotype_file : path, optional
        Phenotypes in .fam order (``-p``); ``NA`` is missing, -9 a number.
    covariate_file : path, optional
        Covariates in .fam order (``-c``).
    categorical : sequence of int
        1-based covariate columns to be one-hot encoded (``-cat``): numbers or text, the first level dropped.
    weights_file : path, optional
        A weight for each individual, in .fam order (``-widv``).
    keep, remove : path, optional
        Lists of individuals to be left in, and out.
    phenotype_required : bool
        False (kinship alone): if nobody has the phenotype, everybody is used, and phenotypes are not checked.

    Raises
    ------
    InputError
        Everything that is wrong with the files; nobody left; a constant phenotype; as many parameters as individuals.
    """
    tables = _read_tables(
        fam,
        phenotype_columns,
        phenotype_file,
        covariate_file,
        categorical,
        weights_file,
        keep,
        remove,
        phenotype_required,
    )
    mask, excluded = _exclude(fam, tables, phenotype_required)
    index = np.flatnonzero(mask).astype(np.int64)
    y = tables.phenotypes.values[index]
    w, names = _covariate_matrix(tables, index)
    if phenotype_required:
        _check_phenotypes(fam, y, tables.phenotypes.names, w, names, tables)
    return SampleSelection(
        index=index, mask=mask, phenotypes=y, phenotype_names=tables.phenotypes.names, covariates=w,
        covariate_names=names, weights=None if tables.weights is None else tables.weights[index],
        fid=[fam.fid[i] for i in index], iid=[fam.iid[i] for i in index], n_total=fam.n_samples, excluded=excluded,
        notes=tuple(tables.notes), warnings=tuple(tables.warnings),
    )  # fmt: skip


# --- reading ----------------------------------------------------------------------------------------------------


def _read_tables(
    fam: FamTable,
    phenotype_columns: Sequence[int],
    phenotype_file: PathLike | None,
    covariate_file: PathLike | None,
    categorical: Sequence[int],
    weights_file: PathLike | None,
    keep: PathLike | None,
    remove: PathLike | None,
    phenotype_required: bool,
) -> _Tables:
    """Read every file that was given; raise with everything that is wrong with any of them."""
    if categorical and covariate_file is None:
        raise UsageError("-cat: names columns of a covariate file, but -c was not given")
    problems = Problems()
    n = fam.n_samples
    phenotypes = attempt(problems, _read_phenotypes, fam, phenotype_columns, phenotype_file, phenotype_required)
    tables = _Tables(phenotypes or NumberTable(values=np.empty((n, 0)), names=()))
    if covariate_file is not None:
        tables.covariates = attempt(
            problems, read_matrix, covariate_file, n, kind="covariate", text_columns=tuple(categorical)
        )
    if weights_file is not None:
        tables.weights = attempt(problems, _read_weights, weights_file, n, tables)
    if keep is not None and (found := attempt(problems, match_individuals, keep, fam)):
        tables.keep = found[0]
        tables.warnings += found[1]
    if remove is not None and (found := attempt(problems, match_individuals, remove, fam)):
        tables.remove = found[0]
        tables.warnings += found[1]
    problems.raise_if_any()
    for table in (tables.phenotypes, tables.covariates):
        if table is not None:
            tables.notes += table.notes
            tables.warnings += table.warnings
    return tables


def _read_phenotypes(fam: FamTable, columns: Sequence[int], path: PathLike | None, required: bool) -> NumberTable:
    """The phenotype columns, from `path` or from the .fam."""
    if path is not None:
        table = read_matrix(path, fam.n_samples, kind="phenotype", columns=columns)
        return NumberTable(values=table.values, names=tuple(map(str, columns)), warnings=table.warnings)
    if fam.n_phenotypes == 0 and not required:
        return NumberTable(values=np.full((fam.n_samples, len(columns)), np.nan), names=tuple(map(str, columns)))
    values, warnings = fam.phenotypes(columns)
    return NumberTable(values=values, names=tuple(map(str, columns)), warnings=tuple(warnings))


def _read_weights(path: PathLike, n_samples: int, tables: _Tables) -> F64:
    """One positive weight an individual; nan where missing."""
    table = read_matrix(path, n_samples, kind="weight", columns=[1])
    weights = table.values[:, 0]
    bad = np.flatnonzero(weights <= 0)
    if len(bad):
        raise InputError([
            f"{show(path)}:{i + 1}:1: {weights[i]:g}, expected a weight above 0; write NA to leave the individual out"
            for i in bad[:1000]
        ])  # fmt: skip
    tables.warnings += table.warnings
    return weights


# --- who is left ------------------------------------------------------------------------------------------------


def _exclude(fam: FamTable, tables: _Tables, phenotype_required: bool) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """The mask of analysed individuals, and how many are out for which reason (the first that applies)."""
    reasons: list[tuple[str, NDArray[np.bool_]]] = []
    if tables.keep is not None:
        reasons.append(("not in --keep", ~tables.keep))
    if tables.remove is not None:
        reasons.append(("in --remove", tables.remove))
    no_phenotype = np.isnan(tables.phenotypes.values).any(axis=1)
    if no_phenotype.all() and not phenotype_required:
        tables.notes.append("no individual has a phenotype: all are used")
    else:
        reasons.append(("phenotype missing", np.asarray(no_phenotype)))
    if tables.covariates is not None:
        reasons.append(("covariate missing", _row_missing(tables.covariates)))
    if tables.weights is not None:
        reasons.append(("weight missing", np.isnan(tables.weights)))
    mask = np.ones(fam.n_samples, bool)
    excluded: dict[str, int] = {}
    for name, out in reasons:
        n = int(np.count_nonzero(mask & out))
        if n:
            excluded[name] = n
        mask &= ~out
    if not mask.any():
        why = ", ".join(f"{n:,} {name}" for name, n in excluded.items())
        raise InputError(f"{show(fam.path)}: none of {plural(fam.n_samples, 'individual')} is left ({why})")
    return mask, excluded


def _row_missing(table: NumberTable) -> NDArray[np.bool_]:
    """Individuals with a missing value in any column."""
    missing = np.zeros(len(table.values), bool)
    for k in range(table.values.shape[1]):
        if k in table.labels:
            missing |= np.fromiter((label == "" for label in table.labels[k]), bool, len(missing))
        else:
            missing |= np.isnan(table.values[:, k])
    return missing


# --- the covariate matrix ---------------------------------------------------------------------------------------


def _covariate_matrix(tables: _Tables, index: NDArray[np.int64]) -> tuple[F64, tuple[str, ...]]:
    """W of the analysed individuals: one-hot columns, an intercept, full rank.

    A column that is constant (and not 0) counts as the intercept, with its value; GEMMA keeps the first of several such
    columns too. Without one, a column of ones is appended last.
    """
    if tables.covariates is None:
        return np.ones((len(index), 1)), ("intercept",)
    columns: list[F64] = []
    names: list[str] = []
    for k, name in enumerate(tables.covariates.names):
        if k in tables.covariates.labels:
            labels = [tables.covariates.labels[k][i] for i in index]
            new, new_names = _one_hot(labels, name, tables)
            columns += new
            names += new_names
        else:
            columns.append(tables.covariates.values[index, k])
            names.append(name)
    constant = [k for k, x in enumerate(columns) if x.min() == x.max() and x[0] != 0]
    if constant:
        tables.notes.append(f"{names[constant[0]]} is the intercept (constant {columns[constant[0]][0]:g})")
    else:
        columns.append(np.ones(len(index)))
        names.append("intercept")
        constant = [len(columns) - 1]
        tables.notes.append("no covariate is constant: a column of ones was appended as the intercept")
    kept, dropped = independent_columns(np.column_stack(columns), constant[0])
    for k, others in dropped:
        why = f"a linear combination of {some([names[j] for j in others], 6)}" if others else "constant"
        tables.warnings.append(f"{names[k]} was dropped: it is {why}")
    return np.column_stack([columns[k] for k in kept]), tuple(names[k] for k in kept)


def _one_hot(labels: list[str], name: str, tables: _Tables) -> tuple[list[F64], list[str]]:
    """Indicator columns of every level but the first; levels that are all numbers are compared as numbers."""
    numbers = {t: parse_number(t) for t in set(labels)}
    numeric = all(v is not None for v in numbers.values())
    key = {t: (v if numeric else t) for t, v in numbers.items()}
    levels = sorted(set(key.values()))  # type: ignore[type-var]
    shown = [f"{v:g}" if numeric else show(v) for v in levels]
    if len(levels) > 1 and len(levels) == len(labels):
        raise InputError(f"{name}: a level of its own for each individual; expected a category (-cat)")
    code = np.array([key[t] for t in labels])
    tables.notes.append(
        f"{name} is categorical: {plural(len(levels), 'level')} {some(shown, 20)}; {shown[0]} is the reference"
    )
    columns = [(code == level).astype(np.float64) for level in levels[1:]]
    return columns, [f"{name}={text}" for text in shown[1:]]


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


# --- checks -----------------------------------------------------------------------------------------------------


def _check_phenotypes(
    fam: FamTable, y: F64, phenotypes: tuple[str, ...], w: F64, covariates: tuple[str, ...], tables: _Tables
) -> None:
    """Raise if the data cannot be fitted; warn of what looks like another program's coding."""
    problems = Problems()
    n, c = w.shape
    if n < c + 2:
        problems.add(
            f"{plural(n, 'individual')} analysed, expected at least {c + 2} for {plural(c, 'covariate')} (intercept "
            f"included), a variant and an error variance; covariates: {some(list(covariates), 6)}"
        )
    for k, name in enumerate(phenotypes):
        values = y[:, k]
        if values.min() == values.max():
            problems.add(f"phenotype {show(name)}: {_describe_constant(float(values[0]), n)}; nothing can be tested")
        elif n >= c + 2 and _is_in_span(values, w):
            problems.add(
                f"phenotype {show(name)}: a linear combination of the covariates ({some(list(covariates), 6)})"
            )
        elif set(np.unique(values[:1000])) == set(np.unique(values)) == {0.0, 1.0, 2.0}:
            tables.warnings.append(
                f"phenotype {show(name)}: values 0, 1 and 2 taken as numbers ({int((values == 0).sum()):,} zeros); "
                "write NA if 0 means missing, as in PLINK's case-control coding"
            )
    problems.raise_if_any()


def _describe_constant(value: float, n: int) -> str:
    """What a constant phenotype may mean."""
    meaning = {0.0: " (all are controls, coded 0)", 1.0: " (all are controls coded 1, or cases coded 1)"}
    meaning[2.0] = " (all are cases, coded 2)"
    return f"{value:g} for all {plural(n, 'analysed individual')}{meaning.get(value, '')}"


def _is_in_span(y: F64, w: F64) -> bool:
    """Whether the covariates explain y to round-off."""
    centred = y / np.abs(y).max()  # first, so that no sum overflows
    centred -= centred.mean()
    scaled = w / np.abs(w).max(axis=0)
    residual = centred - scaled @ np.linalg.lstsq(scaled, centred, rcond=None)[0]
    return bool(np.linalg.norm(residual) <= 1e-12 * np.linalg.norm(centred))
