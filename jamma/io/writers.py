"""Association results and dropped variants to files, a chunk at a time; each file appears whole or not at all.

A writer keeps nothing past a chunk. The default format is GEMMA's .assoc.txt to the byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import UsageError
from jamma.io.atomic import AtomicFile, CommitOrAbort, atomic_output
from jamma.io.formats import ParquetSink, SsfSink, TextSink, VariantTable, VariantText
from jamma.io.log import MAX_FAILED_LISTED, RunRecord, write_log
from jamma.lmm.schema import STATISTICS, AssocChunk, NullModel

__all__ = [
    "EXTRA_COLUMNS",
    "FORMATS",
    "AssocWriter",
    "DroppedWriter",
    "RunRecord",
    "VariantTable",
    "VariantText",
    "assoc_path",
    "atomic_output",
    "write_log",
]  # fmt: skip

#: Formats and the endings of their files.
FORMATS: dict[str, str] = {
    "gemma": ".assoc.txt",
    "tsv.gz": ".assoc.tsv.gz",
    "parquet": ".assoc.parquet",
    "gwas-ssf": ".gwas-ssf.tsv.gz",
}

#: Columns that ``--cols`` adds, in this order after GEMMA's.
EXTRA_COLUMNS: dict[str, str] = {
    "n": "samples in the analysis",
    "n_obs": "samples with a called genotype",
    "stat": "test statistic of the first p-value: F (Wald, score) or chi-square (LRT), 1 degree of freedom",
    "neg_log10_p": "-log10 of the first p-value, also where that is below the smallest double",
}


def assoc_path(stem: str | os.PathLike[str], fmt: str = "gemma") -> Path:
    """File name of a result: the stem (folder and ``-o`` name) and the ending of the format."""
    return Path(f"{os.fspath(stem)}{FORMATS[fmt]}")


def first_statistic(
    mode: int, statistics: dict[str, NDArray[np.float64]], n_samples: int, null: NullModel | None
) -> NDArray[np.float64]:
    """The statistic behind the mode's first p-value.

    Wald: F = (beta / se)^2. LRT: 2 (logl_H1 - logl_H0). Score, with df = n - c - 1 and W = (beta / se)^2, where
    se^2 = y'P_x y / (df x'P x): F = n (x'P y)^2 / (y'P y x'P x) = n W / (W + df).

    Parameters
    ----------
    mode : {1, 2, 3, 4}
    statistics : dict of str to ndarray of float64, shape (k,)
    n_samples : int
        Samples in the analysis.
    null : NullModel or None
        Needed by modes 2 (its ML log-likelihood) and 3 (its number of covariates).

    Returns
    -------
    ndarray of float64, shape (k,)
    """
    if mode in (2, 3) and null is None:
        raise ValueError("the statistic of modes 2 and 3 needs the null model")
    if mode == 2:
        assert null is not None
        return np.maximum(2 * (statistics["logl_H1"] - null.logl_mle), 0)
    with np.errstate(all="ignore"):
        wald = (statistics["beta"] / statistics["se"]) ** 2
    if mode == 3:
        assert null is not None
        return n_samples * wald / (wald + (n_samples - len(null.beta) - 1))
    return wald


class AssocWriter(CommitOrAbort):
    """Writes the results of one phenotype.

    Parameters
    ----------
    path : path-like
        Final name; see `assoc_path`.
    bim : VariantTable or VariantText
        The variants that chunks point into; a `VariantText` may be shared by several writers.
    mode : {1, 2, 3, 4}
        ``-lmm``; decides the columns.
    fmt : str
        One of `FORMATS`.
    cols : sequence of str
        Names of `EXTRA_COLUMNS`, written after the mode's own.
    n_samples : int
        Samples in the analysis.
    n_threads : int
        Threads that format and compress; the bytes do not depend on it.
    reasons : dict of int to str
        Texts of the codes in `AssocChunk.reason`.
    metadata : dict
        What the YAML of GWAS-SSF says of the analysis; see `SsfSink`.

    Attributes
    ----------
    path : Path
        Final name.
    columns : tuple of str
        GEMMA's names of the columns, with the added ones.
    n_written : int
        Rows so far.
    failed : dict of str to int
        Rows whose statistics are nan, by reason.
    failed_rows : list of (str, str)
        Names and reasons of the first 10,000 of them.
    warnings : list of str
        What the format could not hold; complete after `commit`.

    Raises
    ------
    OutputError
        See `AtomicFile`.
    UsageError
        Unknown format or column, a format that the mode has no columns for, or pyarrow is missing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        bim: VariantTable | VariantText,
        mode: int,
        *,
        fmt: str = "gemma",
        cols: Sequence[str] = (),
        n_samples: int,
        n_threads: int = 1,
        reasons: dict[int, str] | None = None,
        metadata: dict[str, Any] | None = None,
    ):
        if fmt not in FORMATS:
            raise UsageError(f"--out-format {fmt}: expected {', '.join(FORMATS)}")
        unknown = [c for c in cols if c not in EXTRA_COLUMNS]
        if unknown:
            raise UsageError(f"--cols {','.join(unknown)}: expected some of {', '.join(EXTRA_COLUMNS)}")
        if fmt == "gwas-ssf" and "beta" not in STATISTICS[mode]:
            raise UsageError(
                f"--out-format gwas-ssf: needs beta and se, which -lmm {mode} does not have; use -lmm 1 or 4"
            )
        text = bim if isinstance(bim, VariantText) else VariantText(bim)
        self.mode, self.n_samples = mode, n_samples
        self.cols = tuple(c for c in EXTRA_COLUMNS if c in cols)
        self.columns = ("chr", "rs", "ps", "n_miss", "allele1", "allele0", "af", *STATISTICS[mode], *self.cols)
        self.n_written = 0
        self.failed: dict[str, int] = {}
        self.failed_rows: list[tuple[str, str]] = []
        self._bim, self._reasons = text.bim, reasons or {}
        self._sink: TextSink | ParquetSink
        if fmt == "parquet":
            self._sink = ParquetSink(Path(path), text, self.columns)
        elif fmt == "gwas-ssf":
            p_name = next(name for name in STATISTICS[mode] if name.startswith("p_"))
            self._sink = SsfSink(Path(path), text, self.cols, p_name, n_samples, metadata or {}, n_threads)
        else:
            self._sink = TextSink(Path(path), text, self.columns, fmt == "tsv.gz", n_threads)
        self.path = self._sink.file.path

    @property
    def warnings(self) -> list[str]:
        """What the format could not hold."""
        return self._sink.warnings

    def write(self, chunk: AssocChunk, null_model: NullModel | None = None) -> None:
        """Append the rows of a chunk.

        Parameters
        ----------
        chunk : AssocChunk
        null_model : NullModel, optional
            The model that these rows were tested against; only the column ``stat`` of modes 2 and 3 needs it.
        """
        table = {
            "n_miss": chunk.n_miss.astype(np.float64),
            "af": chunk.af,
            **chunk.statistics,
            "n": np.full(len(chunk.index), self.n_samples, dtype=np.float64),
            "n_obs": self.n_samples - chunk.n_miss.astype(np.float64),
            "neg_log10_p": chunk.neg_log10_p,
        }
        if "stat" in self.cols:
            table["stat"] = first_statistic(self.mode, chunk.statistics, self.n_samples, null_model)
        self._count_failed(chunk)
        self._sink.write(chunk, table)
        self.n_written += len(chunk.index)

    def _count_failed(self, chunk: AssocChunk) -> None:
        """Remember the rows without a result."""
        for i in np.flatnonzero(chunk.reason):
            reason = self._reasons.get(int(chunk.reason[i]), f"code {chunk.reason[i]}")
            self.failed[reason] = self.failed.get(reason, 0) + 1
            if len(self.failed_rows) < MAX_FAILED_LISTED:
                self.failed_rows.append((str(self._bim.rs[int(chunk.index[i])]), reason))

    def commit(self) -> None:
        """Complete the file and give it its name."""
        try:
            self._sink.commit()
        except BaseException:
            self._sink.abort()
            raise

    def abort(self) -> None:
        """Leave no file."""
        self._sink.abort()


class DroppedWriter(CommitOrAbort):
    """Lists the variants that were not tested, each with its reason, in file order: ``--dropped FILE``.

    Parameters
    ----------
    path : path-like
        Final name. Columns: chr, rs, ps, allele1, allele0, reason; tab-separated, with a header.
    bim : VariantTable
    reasons : dict of int to str
        Texts of the codes; 0 is a variant that was kept.
    """

    def __init__(self, path: str | os.PathLike[str], bim: VariantTable, reasons: dict[int, str]):
        self._bim, self._reasons = bim, reasons
        self.n_written = 0
        self._file = AtomicFile(path)
        self.path = self._file.path
        self._file.write(b"chr\trs\tps\tallele1\tallele0\treason\n")

    def write(self, index: NDArray[np.int64], reason: NDArray[np.uint8]) -> None:
        """Append those of the variants `index` whose code in `reason` (same length) is not 0."""
        self.write_rows((int(index[i]), self._reasons.get(int(reason[i]), f"code {reason[i]}"))
                        for i in np.flatnonzero(reason))  # fmt: skip

    def write_rows(self, rows: Iterable[tuple[int, str]]) -> None:
        """Append variants by number, each with its reason as text."""
        b, lines = self._bim, []
        for i, reason in rows:
            lines.append(f"{b.chrom[i]}\t{b.rs[i]}\t{b.ps[i]}\t{b.allele1[i]}\t{b.allele0[i]}\t{reason}\n")
        self._file.write("".join(lines).encode("utf-8", "surrogateescape"))
        self.n_written += len(lines)

    def commit(self) -> None:
        """Complete the file and give it its name."""
        self._file.commit()

    def abort(self) -> None:
        """Leave no file."""
        self._file.abort()
