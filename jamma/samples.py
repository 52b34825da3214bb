"""Who is analysed: phenotypes, covariates, weights and lists of individuals, and the covariate matrix that follows.

An individual is analysed if every phenotype asked for is present, no covariate is missing, the weight is not missing,
and the lists leave it in. The covariate matrix W then gets an intercept and full rank, as GEMMA and the algebra ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError, Problems, UsageError
from jamma.covariates import CovariateMatrix, covariate_matrix
from jamma.io.by_id import match_individuals, read_table_by_id
from jamma.io.columns import NumberTable, read_matrix
from jamma.io.tables import FamTable
from jamma.io.text import FileProblems, PathLike, attempt, plural, show, show_path, some

F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


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

    def describe(self, k: int) -> dict[str, Any]:
        """Phenotype `k` and its adjustment, in words: the metadata of a result.

        Returns
        -------
        dict
            ``trait`` (str); ``covariates`` (list of str), the constant one left out; ``cases`` (int), how many have the
            larger value where the phenotype is coded 0 and 1 or 1 and 2, else None.
        """
        name, y = self.phenotype_names[k], self.phenotypes[:, k]
        values = set(np.unique(y).tolist())
        return {
            "trait": f"phenotype {name}" if name.isdecimal() else name,
            "covariates": [
                c for c, w in zip(self.covariate_names, self.covariates.T, strict=True) if w.min() != w.max()
            ],
            "cases": int((y == max(values)).sum()) if values in ({0.0, 1.0}, {1.0, 2.0}) else None,
        }


@dataclass(frozen=True, kw_only=True)
class SampleSources:
    """Where phenotypes, covariates and lists of individuals come from.

    Attributes
    ----------
    phenotype_columns : sequence of int
        1-based columns of phenotypes (``-n``), of the .fam, of `phenotype_file`, or of `pheno_table` without its IDs.
    phenotype_file : path or None
        Phenotypes in .fam order (``-p``); ``NA`` is missing, -9 a number.
    pheno_table, pheno_names : path or None, sequence of str
        Phenotypes by ID (``--pheno``, ``--pheno-name``); -9 is missing, as for PLINK.
    covariate_file : path or None
        Covariates in .fam order (``-c``).
    covar_table, covar_names : path or None, sequence of str
        Covariates by ID (``--covar``, ``--covar-name``); without names, all of the table.
    categorical : sequence of int or str
        Covariate columns, 1-based or by name, to be one-hot encoded (``-cat``): numbers or text.
    weights_file : path or None
        A weight for each individual, in .fam order (``-widv``).
    keep, remove : path or None
        Lists of individuals to be left in, and out.
    """

    phenotype_columns: Sequence[int] = (1,)
    phenotype_file: PathLike | None = None
    pheno_table: PathLike | None = None
    pheno_names: Sequence[str] = ()
    covariate_file: PathLike | None = None
    covar_table: PathLike | None = None
    covar_names: Sequence[str] = ()
    categorical: Sequence[int | str] = ()
    weights_file: PathLike | None = None
    keep: PathLike | None = None
    remove: PathLike | None = None

    def __post_init__(self) -> None:
        if self.phenotype_file is not None and self.pheno_table is not None:
            raise UsageError("-p and --pheno: both name phenotypes; give one of them")
        if self.covariate_file is not None and self.covar_table is not None:
            raise UsageError("-c and --covar: both name covariates; give one of them")
        if self.pheno_names and self.pheno_table is None:
            raise UsageError("--pheno-name: names columns of a table; give the table by --pheno")
        if self.covar_names and self.covar_table is None:
            raise UsageError("--covar-name: names columns of a table; give the table by --covar")
        if self.categorical and self.covariate_file is None and self.covar_table is None:
            raise UsageError("-cat: names covariate columns; give the covariates by -c or --covar")


@dataclass
class _Data:
    """What the sources say of all individuals, before anybody is left out."""

    phenotypes: NumberTable
    covariates: NumberTable | None
    weights: NumberTable | None
    out: dict[str, Mask]
    notes: list[str]
    warnings: list[str]


def select_samples(fam: FamTable, *, phenotype_required: bool = True, **sources: Any) -> SampleSelection:
    """Choose the analysed individuals and prepare their phenotypes and covariates.

    Parameters
    ----------
    fam : FamTable
    phenotype_required : bool
        False (kinship alone): if nobody has the phenotype, everybody is used, and phenotypes are not checked.
    **sources
        The attributes of `SampleSources`.

    Raises
    ------
    InputError
        Everything that is wrong with the files; nobody left; a constant phenotype; as many parameters as individuals.
    UsageError
        Two sources of the same thing.
    """
    data = _read(fam, SampleSources(**sources), phenotype_required)
    mask, excluded = _exclude(fam, data, phenotype_required)
    index = np.flatnonzero(mask).astype(np.int64)
    w = covariate_matrix(data.covariates, index)
    y = data.phenotypes.values[index]
    if phenotype_required:
        data.warnings += _check_phenotypes(y, data.phenotypes.names, w)
    return SampleSelection(
        index=index, mask=mask, phenotypes=y, phenotype_names=data.phenotypes.names, covariates=w.values,
        covariate_names=w.names, weights=None if data.weights is None else data.weights.values[index, 0],
        fid=[fam.fid[i] for i in index], iid=[fam.iid[i] for i in index], n_total=fam.n_samples, excluded=excluded,
        notes=(*data.notes, *w.notes), warnings=(*data.warnings, *w.warnings),
    )  # fmt: skip


# --- reading ----------------------------------------------------------------------------------------------------


def _read(fam: FamTable, sources: SampleSources, phenotype_required: bool) -> _Data:
    """Read every file that was given; raise with everything that is wrong with any of them."""
    problems = Problems()
    phenotypes = attempt(problems, _read_phenotypes, fam, sources, phenotype_required)
    covariates = attempt(problems, _read_covariates, fam, sources)
    weights = attempt(problems, _read_weights, fam, sources.weights_file)
    keep = attempt(problems, match_individuals, sources.keep, fam) if sources.keep is not None else None
    remove = attempt(problems, match_individuals, sources.remove, fam) if sources.remove is not None else None
    problems.raise_if_any()
    assert phenotypes is not None
    data = _Data(phenotypes, covariates, weights, {}, [], [])
    for table in (phenotypes, covariates, weights):
        if table is not None:
            data.notes += table.notes
            data.warnings += table.warnings
    if keep is not None:
        data.out["not in --keep"] = ~keep[0]
        data.warnings += keep[1]
    if remove is not None:
        data.out["in --remove"] = remove[0]
        data.warnings += remove[1]
    return data


def _read_phenotypes(fam: FamTable, sources: SampleSources, required: bool) -> NumberTable:
    """The phenotypes asked for, from whichever source was given."""
    columns = sources.phenotype_columns
    if sources.pheno_table is not None:
        return read_table_by_id(
            sources.pheno_table, fam, sources.pheno_names, option="--pheno", columns=columns, minus_nine_missing=True
        )
    numbers = tuple(map(str, columns))
    if sources.phenotype_file is not None:
        table = read_matrix(sources.phenotype_file, fam.n_samples, kind="phenotype", columns=columns)
        return replace(table, names=numbers)
    if fam.n_phenotypes == 0 and not required:
        return NumberTable(values=np.full((fam.n_samples, len(columns)), np.nan), names=numbers)
    return fam.phenotypes(columns)


def _read_covariates(fam: FamTable, sources: SampleSources) -> NumberTable | None:
    """The covariates, from whichever source was given."""
    categorical = sources.categorical
    if sources.covar_table is not None:
        return read_table_by_id(
            sources.covar_table, fam, sources.covar_names, option="--covar", text_columns=categorical
        )
    if sources.covariate_file is None:
        return None
    path = sources.covariate_file
    numbers = [c for c in categorical if isinstance(c, int)]
    if len(numbers) < len(categorical):
        name = next(c for c in categorical if not isinstance(c, int))
        raise InputError(f"{show_path(path)}: -cat {show(name)}, expected the number of a column (there is no header)")
    return read_matrix(path, fam.n_samples, kind="covariate", text_columns=numbers)


def _read_weights(fam: FamTable, path: PathLike | None) -> NumberTable | None:
    """One positive weight an individual; nan where missing."""
    if path is None:
        return None
    table = read_matrix(path, fam.n_samples, kind="weight", columns=[1])
    problems = FileProblems(path)
    for i in np.flatnonzero(table.values[:, 0] <= 0):
        text = f"{table.values[i, 0]:g}, expected a weight above 0; write NA to leave the individual out"
        problems.add(int(i) + 1, 1, text)
    problems.raise_if_any()
    return table


# --- who is left ------------------------------------------------------------------------------------------------


def _exclude(fam: FamTable, data: _Data, phenotype_required: bool) -> tuple[Mask, dict[str, int]]:
    """The mask of analysed individuals, and how many are out for which reason (the first that applies)."""
    out = dict(data.out)
    no_phenotype = _row_missing(data.phenotypes)
    if no_phenotype.all() and not phenotype_required:
        data.notes.append("no individual has a phenotype: all individuals are used")
    else:
        out["phenotype missing"] = no_phenotype
    if data.covariates is not None:
        out["covariate missing"] = _row_missing(data.covariates)
    if data.weights is not None:
        out["weight missing"] = _row_missing(data.weights)
    mask = np.ones(fam.n_samples, bool)
    excluded: dict[str, int] = {}
    for name, these in out.items():
        if n := int(np.count_nonzero(mask & these)):
            excluded[name] = n
        mask &= ~these
    if not mask.any():
        why = ", ".join(f"{n:,} {name}" for name, n in excluded.items())
        raise InputError(f"{show_path(fam.path)}: none of {plural(fam.n_samples, 'individual')} is left ({why})")
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


# --- checks -----------------------------------------------------------------------------------------------------


def _check_phenotypes(y: F64, names: tuple[str, ...], w: CovariateMatrix) -> list[str]:
    """Raise if the data cannot be fitted; return warnings of what looks like another program's coding."""
    problems = Problems()
    warnings = []
    n, c = w.values.shape
    covariates = some(list(w.names), 6)
    if n < c + 2:
        problems.add(
            f"{plural(n, 'individual')} analysed, expected at least {c + 2} for {plural(c, 'covariate')} "
            f"({covariates}), a variant and the error variance"
        )
    for k, name in enumerate(names):
        values = y[:, k]
        if values.min() == values.max():
            problems.add(f"phenotype {show(name)}: {_describe_constant(float(values[0]), n)}; nothing can be tested")
        elif n >= c + 2 and _is_in_span(values, w.values):
            problems.add(f"phenotype {show(name)}: a linear combination of the covariates ({covariates})")
        elif values.min() == 0 and values.max() == 2 and set(np.unique(values)) == {0.0, 1.0, 2.0}:
            zeros = plural(int(np.count_nonzero(values == 0)), "zero")
            warnings.append(
                f"phenotype {show(name)}: 0, 1 and 2 taken as numbers ({zeros}); write NA if 0 means missing, as in "
                "PLINK's case-control coding"
            )
    problems.raise_if_any()
    return warnings


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
