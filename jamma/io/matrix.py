"""Kinship and eigen files: GEMMA's text and .npy, matched to the analysed samples, checked before use.

Rows are found by sample ID where there is a side-car (`jamma.io.side_car`), else by their position in the .fam.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError
from jamma.io.arrays import F64, I64, newest_sibling, read_matrix, write_npy, write_text
from jamma.io.checks import check_finite, check_informative, eigenvalue_problems, eigenvector_problems, symmetrize
from jamma.io.side_car import SideCar, side_car_path, write_side_car

BLOCK = 1 << 20  # entries looked at at a time


def read_kinship(
    path: str | os.PathLike[str],
    *,
    n_total: int,
    fid: Sequence[str],
    iid: Sequence[str],
    index: I64,
    km: int = 1,
    notes: list[str] | None = None,
    warnings: list[str] | None = None,
    n_threads: int = 1,
) -> F64:
    """The kinship of the analysed samples.

    Parameters
    ----------
    path : path-like
        A matrix of all samples of the .fam in its order, or of any samples where the side-car says which (`km` 1);
        or a list ``id1 id2 value`` by IID (`km` 2). .npy, text, gzipped text; where text is named, see
        `jamma.io.arrays.newest_sibling`.
    n_total : int
        Samples in the .fam.
    fid, iid : sequence of str, length n_total
        Their IDs.
    index : ndarray of int64, shape (n_samples,)
        Rows of the .fam that are analysed.
    km : {1, 2}
    notes, warnings : list of str, optional
        Lines are added for the log.
    n_threads : int
        Threads that parse text.

    Returns
    -------
    ndarray of float64, shape (n_samples, n_samples), C order
        Symmetric, finite, in the order of `index`.

    Raises
    ------
    InputError
        Every file:row:column that is wrong; a matrix of other samples; one without any variation.
    """
    index = np.asarray(index, dtype=np.int64)
    if km == 2:
        from jamma.io.pairs import read_kinship_list

        kinship = read_kinship_list(Path(path), iid, index, notes)
        rows = index
    else:
        path = newest_sibling(path, notes)
        kinship, rows = _read_square(path, n_total, fid, iid, index, notes, n_threads)
    path = Path(path)
    check_finite(kinship, path, rows, rows)
    symmetrize(kinship, path, rows, notes)
    check_informative(kinship, path, warnings)
    return kinship


def _read_square(
    path: Path,
    n_total: int,
    fid: Sequence[str],
    iid: Sequence[str],
    index: I64,
    notes: list[str] | None,
    n_threads: int,
) -> tuple[F64, I64]:
    """Entries of the analysed samples and their rows in the file, by the side-car or by position."""
    beside = side_car_path(path)
    car = SideCar(beside) if beside.exists() else None
    if car is None:
        n, rows = n_total, index
        if notes is not None:
            notes.append(f"{path}: rows taken in the order of the .fam ({beside.name} is not there)")
        expected = (
            f"expected {n} x {n}, one row for each sample of the .fam ({len(index)} of them are analysed); a matrix "
            f"of other samples needs {beside.name} beside it, with FID and IID of each row"
        )
    else:
        n = len(car.ids)
        pairs = list(zip(fid, iid, strict=True))
        rows = index if pairs == car.ids else car.rows_of([pairs[i] for i in index], path)
        expected = f"expected {n} x {n}, one row for each of {beside.name}"
        if notes is not None:
            notes.append(f"{path}: rows found by FID and IID ({beside.name}: {n} samples, {len(rows)} used)")
    kinship = read_matrix(path, (n, n), rows, rows, expected=expected, n_threads=n_threads)
    if car is not None:
        check_finite(np.diagonal(kinship)[:, None], path, rows, rows)
        car.check_diagonal(rows, np.diagonal(kinship), path)
    return kinship, rows


def write_kinship(
    stem: str | os.PathLike[str],
    kind: str,
    kinship: F64,
    fid: Sequence[str],
    iid: Sequence[str],
    legacy_text: bool = False,
    *,
    n_threads: int = 1,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a kinship and its side-car.

    Parameters
    ----------
    stem : path-like
        Folder and ``-o`` name.
    kind : {"cXX", "sXX"}
        Centred or standardised; any other middle part of the name, too.
    kinship : ndarray of float64, shape (n, n)
    fid, iid : sequence of str, length n
        The samples of its rows.
    legacy_text : bool
        GEMMA's text (tabs, 10 significant digits) instead of .npy.
    n_threads : int
        Threads that format text.
    metadata : mapping of str to str, optional
        Further lines for the side-car.

    Returns
    -------
    Path
        The matrix file, ``STEM.cXX.npy`` or ``STEM.cXX.txt``.

    Raises
    ------
    OutputError
        A file could not be written.
    """
    path = Path(f"{os.fspath(stem)}.{kind}.{'txt' if legacy_text else 'npy'}")
    # The side-car first: after a kill between the two, the old matrix is refused instead of read by position.
    write_side_car(path, fid, iid, np.diagonal(kinship), metadata)
    return write_text(path, kinship, n_threads) if legacy_text else write_npy(path, kinship)


def _diagonal_of(eigenvalues: F64, eigenvectors: F64) -> F64:
    """Diagonal of U diag(d) U', a block of columns after the other."""
    n = len(eigenvectors)
    out, step = np.zeros(n), max(1, BLOCK // max(n, 1))
    for first in range(0, n, step):
        out += (eigenvectors[:, first : first + step] ** 2) @ eigenvalues[first : first + step]
    return out


def read_eigen(
    d_path: str | os.PathLike[str],
    u_path: str | os.PathLike[str],
    *,
    fid: Sequence[str],
    iid: Sequence[str],
    weights: F64 | None = None,
    metadata: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
    n_threads: int = 1,
) -> tuple[F64, F64]:
    """Eigenvalues and eigenvectors of the analysed samples' kinship.

    Parameters
    ----------
    d_path, u_path : path-like
        ``.eigenD`` and ``.eigenU`` as .npy or GEMMA's text; where text is named, see
        `jamma.io.arrays.newest_sibling`.
    fid, iid : sequence of str, length n_samples
        The analysed samples. With a side-car the rows are put into their order; without one they must be in it.
    weights : ndarray of float64, shape (n_samples,), optional
        Those of ``-widv``: row i of U was multiplied by the square root of weight i.
    metadata : mapping of str to str, optional
        What the side-car has to say, where it says anything under these names.
    notes : list of str, optional
        Lines are added for the log.
    n_threads : int
        Threads that parse text.

    Returns
    -------
    eigenvalues : ndarray of float64, shape (n_samples,)
    eigenvectors : ndarray of float64, shape (n_samples, n_samples), Fortran order
        Column j belongs to eigenvalue j.

    Raises
    ------
    InputError
        Sizes, values that are not finite, negative eigenvalues, columns that are not orthonormal, other samples.
    """
    d_path, u_path = newest_sibling(d_path, notes), newest_sibling(u_path, notes)
    pairs = list(zip(fid, iid, strict=True))
    n = len(pairs)
    expected = f"expected {n} x {n}, a row for each analysed sample"
    beside = side_car_path(u_path)
    car = SideCar(beside) if beside.exists() else None
    rows = np.arange(n, dtype=np.int64)
    if car is not None:
        if len(car.ids) != n:
            raise InputError(f"{u_path}: of {len(car.ids)} samples ({beside.name}), {n} are analysed: compute it anew")
        rows = car.rows_of(pairs, u_path)
        for name, value in (metadata or {}).items():
            if car.metadata.get(name, value) != value:
                raise InputError(f"{u_path}: {beside.name} says {name}={car.metadata[name]}, this run has {value}")
    one = np.zeros(1, dtype=np.int64)
    columns = np.arange(n, dtype=np.int64)
    d = read_matrix(d_path, (n, 1), columns, one, expected=f"expected {n} eigenvalues, one a line", n_threads=1)
    check_finite(d, d_path, columns, one)
    u = read_matrix(u_path, (n, n), rows, columns, expected=expected, order="F", n_threads=n_threads)
    check_finite(u, u_path, rows, columns)
    eigenvalues = np.ascontiguousarray(d[:, 0])
    problems = [*eigenvalue_problems(eigenvalues, d_path), *eigenvector_problems(u, weights, u_path)]
    if problems:
        raise InputError(problems)
    if car is not None:
        car.check_diagonal(rows, _diagonal_of(eigenvalues, u), u_path)
    return np.maximum(eigenvalues, 0), u


def write_eigen(
    stem: str | os.PathLike[str],
    eigenvalues: F64,
    eigenvectors: NDArray[np.float64],
    fid: Sequence[str],
    iid: Sequence[str],
    legacy_text: bool = False,
    *,
    n_threads: int = 1,
    metadata: Mapping[str, str] | None = None,
) -> tuple[Path, Path]:
    """Write eigenvalues, eigenvectors and the side-car.

    Parameters
    ----------
    stem : path-like
        Folder and ``-o`` name.
    eigenvalues : ndarray of float64, shape (n,)
    eigenvectors : ndarray of float64, shape (n, n)
        Column j belongs to eigenvalue j.
    fid, iid : sequence of str, length n
        The samples of its rows.
    legacy_text : bool
        Also GEMMA's text, to which the .npy are then the faster siblings.
    n_threads : int
        Threads that format text.
    metadata : mapping of str to str, optional
        Further lines for the side-car.

    Returns
    -------
    (Path, Path)
        ``STEM.eigenD.npy`` and ``STEM.eigenU.npy``, or the .txt with `legacy_text`.

    Raises
    ------
    OutputError
        A file could not be written.
    """
    base = os.fspath(stem)
    d_path, u_path = Path(f"{base}.eigenD.npy"), Path(f"{base}.eigenU.npy")
    write_side_car(u_path, fid, iid, _diagonal_of(eigenvalues, eigenvectors), metadata)
    text = (d_path.with_suffix(".txt"), u_path.with_suffix(".txt"))
    if legacy_text:  # the text first: the .npy have to be the newer ones
        write_text(text[0], eigenvalues[:, None] + 0.0, n_threads)
        write_text(text[1], eigenvectors, n_threads)
    write_npy(d_path, eigenvalues)
    write_npy(u_path, eigenvectors)
    return text if legacy_text else (d_path, u_path)
