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
from jamma.io.side_car import SideCar, side_car_path, write_side_car

#: Largest asymmetry, relative to the largest entry.
TOLERANCE = 1e-6
#: Largest |u_j'u_k - (j = k)| in eigenvectors; text of 10 digits keeps them orthonormal to about 1e-10.
ORTHOGONALITY = 1e-6
SAMPLED_COLUMNS = 32
TILE = 1024


def _check_finite(matrix: F64, path: Path, rows: I64, columns: I64) -> None:
    """Refuse nan and infinity, with their places in the file."""
    problems = []
    for first in range(0, len(matrix), TILE):
        block = matrix[first : first + TILE]
        if not np.isfinite(block).all():
            for i, j in np.argwhere(~np.isfinite(block))[:100]:
                where = f"{path}:{rows[first + i] + 1}:{columns[j] + 1}"
                problems.append(f"{where}: {block[i, j]}, expected a finite number")
    if problems:
        raise InputError(problems)


def _symmetrize(kinship: F64, path: Path, rows: I64, notes: list[str] | None) -> None:
    """Refuse a matrix that is not symmetric; average what is symmetric but for rounding, in place."""
    n, worst, where = len(kinship), 0.0, (0, 0)
    top = max((float(np.abs(kinship[s : s + TILE]).max()) for s in range(0, n, TILE)), default=0.0)
    for a in range(0, n, TILE):
        for b in range(0, a + 1, TILE):
            difference = np.abs(kinship[a : a + TILE, b : b + TILE] - kinship[b : b + TILE, a : a + TILE].T)
            if difference.max() > worst:
                i, j = divmod(int(np.argmax(difference)), difference.shape[1])
                worst, where = float(difference[i, j]), (a + i, b + j)
    if worst == 0:
        return
    i, j = where
    if worst > TOLERANCE * top:
        raise InputError(
            f"{path}:{rows[i] + 1}:{rows[j] + 1}: {kinship[i, j]:.10g}, but row {rows[j] + 1}, column {rows[i] + 1} "
            f"has {kinship[j, i]:.10g}: expected a symmetric matrix"
        )
    for a in range(0, n, TILE):
        for b in range(0, a + 1, TILE):
            mean = (kinship[a : a + TILE, b : b + TILE] + kinship[b : b + TILE, a : a + TILE].T) / 2
            kinship[a : a + TILE, b : b + TILE] = mean
            kinship[b : b + TILE, a : a + TILE] = mean.T
    if notes is not None:
        notes.append(f"{path}: rounding differences between its triangles (largest {worst:.1e}) were averaged")


def _check_informative(kinship: F64, path: Path, warnings: list[str] | None) -> None:
    """Refuse a matrix without any variation; warn of one that is an identity but for constants.

    K = a I + b 11' is a multiple of I - 11'/n after centring: V = (a lambda + 1) I, in which lambda cannot be told
    from the residual variance.
    """
    n = len(kinship)
    if n < 2:
        return
    top = max(float(np.abs(kinship[s : s + TILE]).max()) for s in range(0, n, TILE))
    if top == 0:
        raise InputError(f"{path}: every entry for the analysed samples is 0, expected a kinship")
    diagonal, off = np.diagonal(kinship), float(kinship[1, 0])
    spread = float(np.ptp(diagonal))
    for first in range(0, n, TILE):
        block = np.abs(kinship[first : first + TILE] - off)
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
    _check_finite(kinship, path, rows, rows)
    _symmetrize(kinship, path, rows, notes)
    _check_informative(kinship, path, warnings)
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
        _check_finite(np.diagonal(kinship)[:, None], path, rows, rows)
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
    """Diagonal of U diag(d) U', in blocks of rows."""
    n = len(eigenvectors)
    out = np.empty(n)
    for first in range(0, n, TILE):
        out[first : first + TILE] = (eigenvectors[first : first + TILE] ** 2) @ eigenvalues
    return out


def _check_eigen(d: F64, u: F64, d_path: Path, u_path: Path, weights: F64 | None) -> None:
    """Refuse eigenvalues and eigenvectors that no symmetric positive matrix has."""
    problems = []
    top = float(d.max(initial=0.0))
    for k in np.flatnonzero(d < -1e-8 * max(top, 1e-300))[:5]:
        problems.append(f"{d_path}:{k + 1}: {d[k]:.10g}, expected an eigenvalue of at least 0")
    if top <= 0:
        problems.append(f"{d_path}: no eigenvalue above 0")
    n = len(d)
    chosen = np.unique(np.linspace(0, n - 1, min(n, SAMPLED_COLUMNS)).astype(np.int64))
    some = u[:, chosen]
    scaled = some / (weights[:, None] if weights is not None else 1.0)
    product = u.T @ scaled
    product[chosen, np.arange(len(chosen))] -= 1
    j, k = divmod(int(np.argmax(np.abs(product))), product.shape[1])
    if np.abs(product[j, k]) > ORTHOGONALITY:
        hint = "" if weights is not None else "; with unequal weights (-widv) the run that reads it needs them too"
        problems.append(
            f"{u_path}: columns {j + 1} and {chosen[k] + 1} have the inner product "
            f"{product[j, k] + (j == chosen[k]):.10g}, expected {int(j == chosen[k])}: not eigenvectors{hint}"
        )
    if problems:
        raise InputError(problems)


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
    _check_finite(d, d_path, columns, one)
    u = read_matrix(u_path, (n, n), rows, columns, expected=expected, order="F", n_threads=n_threads)
    _check_finite(u, u_path, rows, columns)
    eigenvalues = np.ascontiguousarray(d[:, 0])
    _check_eigen(eigenvalues, u, d_path, u_path, weights)
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
