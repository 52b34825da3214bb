"""The forms that association results take: text, block-gzipped text, GWAS-SSF, Parquet.

A sink gets the rows of one chunk after the other as columns and writes its form. GWAS-SSF follows the GWAS Catalog's
specification (github.com/EBISPOT/gwas-summary-statistics-standard), in what its versions 1.0 and 1.1 have in common.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jamma._core import format as _format
from jamma._version import __version__
from jamma.core.errors import UsageError
from jamma.io.atomic import AtomicFile, write_all
from jamma.io.bgzf import BgzfWriter
from jamma.io.text import plural
from jamma.lmm.schema import AssocChunk

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

INTEGER_COLUMNS = ("ps", "n_miss", "n", "n_obs")
TEXT_COLUMNS = ("chr", "rs", "allele1", "allele0")
ROW_GROUP = 1 << 17  # rows of a Parquet row group, whatever the chunk size


class VariantTable(Protocol):
    """What the writers need of a .bim: sequences of equal length."""

    @property
    def chrom(self) -> Sequence[str]:
        """Chromosomes."""

    @property
    def rs(self) -> Sequence[str]:
        """Variant IDs."""

    @property
    def ps(self) -> Any:
        """Positions, as an array of integers."""

    @property
    def allele1(self) -> Sequence[str]:
        """Counted (effect) alleles."""

    @property
    def allele0(self) -> Sequence[str]:
        """Other alleles."""


def encode_texts(texts: list[str]) -> tuple[bytes, I64]:
    """The texts one after the other, as UTF-8 (other bytes as read), and where each begins and the last ends."""
    joined = "".join(texts)
    if joined.isascii():
        lengths = [len(t) for t in texts]
        data = joined.encode("ascii")
    else:
        pieces = [t.encode("utf-8", "surrogateescape") for t in texts]
        lengths = [len(t) for t in pieces]
        data = b"".join(pieces)
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return data, offsets


class VariantText:
    """The names of a chunk's variants as one run of bytes.

    Several writers of one run (many phenotypes) share one object, so that the text of a chunk is made once.

    Parameters
    ----------
    bim : VariantTable
    """

    def __init__(self, bim: VariantTable):
        self.bim = bim
        self._index: I64 | None = None
        self._taken: tuple[bytes | NDArray[np.uint8], I64] = (b"", np.zeros(1, dtype=np.int64))

    def take(self, index: I64) -> tuple[bytes | NDArray[np.uint8], I64]:
        """Bytes and offsets of ``chr rs ps`` and ``allele1 allele0`` of the variants `index`, alternately."""
        if self._index is None or not np.array_equal(self._index, index):
            b = self.bim
            ps = np.ascontiguousarray(b.ps, dtype=np.int64)
            try:
                self._taken = _format.variant_texts(b.chrom, b.rs, ps, b.allele1, b.allele0, index)
            except UnicodeEncodeError:
                texts = []
                for i in index.tolist():
                    texts += [f"{b.chrom[i]}\t{b.rs[i]}\t{ps[i]}", f"{b.allele1[i]}\t{b.allele0[i]}"]
                self._taken = encode_texts(texts)
            self._index = index.copy()
        return self._taken


class TextSink:
    """Tab-separated rows with a header: GEMMA's .assoc.txt, or the same in BGZF.

    Parameters
    ----------
    path : path-like
        Final name.
    text : VariantText
    columns : sequence of str
        All columns, as the header has them.
    packed : bool
        Compress.
    n_threads : int
    """

    def __init__(self, path: Path, text: VariantText, columns: Sequence[str], packed: bool, n_threads: int):
        self.warnings: list[str] = []
        self.file = AtomicFile(path)
        self._text, self._numbers, self._n_threads = text, columns[6:], n_threads
        self._layout = b"AdB" + b"".join(_code(name) for name in self._numbers)
        self._gzip = BgzfWriter(self._emit, n_threads) if packed else None
        self._put("\t".join(columns).encode() + b"\n")

    def _emit(self, data: bytes | memoryview) -> None:
        """Write bytes of the file."""
        self.file.write(data)

    def _put(self, data: bytes | memoryview) -> None:
        """Write bytes of the text."""
        if self._gzip is None:
            self._emit(data)
        else:
            self._gzip.write(data)

    def write(self, chunk: AssocChunk, table: dict[str, F64]) -> None:
        """Append the rows of a chunk."""
        text, offsets = self._text.take(chunk.index)
        self._rows(text, offsets, self._layout, [table["n_miss"], *(table[name] for name in self._numbers)])

    def _rows(self, text: bytes | NDArray[np.uint8], offsets: I64, layout: bytes, columns: Sequence[F64]) -> None:
        """Format rows and write them."""
        n_rows = len(offsets) // 2
        values = np.empty((len(columns), n_rows))
        for k, column in enumerate(columns):
            values[k] = column
        rows = np.arange(n_rows, dtype=np.int64)
        for piece in _format.format_rows(text, offsets, rows, layout, values, self._n_threads):
            self._put(piece)

    def commit(self) -> None:
        """Complete the file and give it its name."""
        if self._gzip is not None:
            self._gzip.finish()
        self.file.commit()

    def abort(self) -> None:
        """Leave no file."""
        if self._gzip is not None:
            self._gzip.close()
        self.file.abort()


def _code(name: str) -> bytes:
    """How a column is printed: the code of `jamma._core.format.format_rows`."""
    return b"d" if name in INTEGER_COLUMNS else b"f" if name == "af" else b"e"


# --- GWAS-SSF --------------------------------------------------------------------------------------------------------

SSF_COLUMNS = ("chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error",
               "effect_allele_frequency", "p_value", "rsid", "variant_name", "n")  # fmt: skip
#: PLINK's codes and names of chromosomes beyond the autosomes; GWAS-SSF has 23 = X, 24 = Y, 25 = MT.
SSF_CHROMOSOMES = {"X": "23", "Y": "24", "M": "25", "MT": "25", "26": "25", "XY": "23", "PAR1": "23", "PAR2": "23",
                   "25": "23"}  # fmt: skip
_RSID = re.compile(r"rs[0-9]+", re.ASCII)
_ALLELE = re.compile(r"[ACGTacgt]+", re.ASCII)


def ssf_chromosome(name: str) -> str:
    """GWAS-SSF's number of a chromosome; a name that has none is given back as it is."""
    short = name[3:] if name[:3].lower() == "chr" else name
    short = SSF_CHROMOSOMES.get(short.upper(), short)
    return short if short.isdecimal() and 1 <= int(short) <= 25 else name


class SsfSink(TextSink):
    """GWAS-SSF: the GWAS Catalog's columns in its order, and the metadata beside it in ``NAME-meta.yaml``.

    The p-value is printed with its true exponent where it is too small for a double. Rows without a result are left
    out, because the format has no missing effects. What the format does not allow otherwise (chromosomes beyond 1 to
    25, positions below 1, alleles other than A, C, G, T) is written as it is and counted in `warnings`.

    Parameters
    ----------
    path, text, n_threads
        As in `TextSink`; compressed where the path ends in .gz.
    extra : sequence of str
        Further columns, after the format's own.
    p_name : str
        The p-value of the mode to report.
    n_samples : int
    metadata : dict
        For the YAML: ``trait`` (str), ``covariates`` (sequence of str), ``cases`` (int; None where the trait is not
        one of cases and controls).
    """

    def __init__(
        self, path: Path, text: VariantText, extra: Sequence[str], p_name: str, n_samples: int,
        metadata: dict[str, Any], n_threads: int,
    ):  # fmt: skip
        self._extra = [name for name in extra if name != "n"]
        self._p_name, self._n_samples, self._metadata = p_name, n_samples, metadata
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._left_out = self._odd_alleles = self._odd_chromosomes = self._odd_places = 0
        self._known: dict[str, str] = {}
        self._last: tuple[int, int] = (-1, -1)
        self._sorted = True
        columns = [*SSF_COLUMNS, *self._extra]
        super().__init__(path, text, columns, path.name.endswith(".gz"), n_threads)
        self._layout = b"AeeepBd" + b"".join(_code(name) for name in self._extra)

    def _emit(self, data: bytes | memoryview) -> None:
        self._md5.update(data)
        super()._emit(data)

    def write(self, chunk: AssocChunk, table: dict[str, F64]) -> None:
        """Append the rows of a chunk that have a result."""
        good = np.isfinite(table["beta"]) & np.isfinite(table["se"]) & np.isfinite(table[self._p_name])
        self._left_out += len(good) - int(good.sum())
        text, offsets = encode_texts(self._names(chunk.index[good]))
        names = ["beta", "se", "af", self._p_name, "neg_log10_p", "n_obs", *self._extra]
        self._rows(text, offsets, self._layout, [table[name][good] for name in names])

    def _names(self, index: I64) -> list[str]:
        """Texts before and after the numbers, alternately."""
        b, ps, texts = self._text.bim, np.asarray(self._text.bim.ps), []
        for i in index.tolist():
            name, rs, one, two = b.chrom[i], b.rs[i], b.allele1[i], b.allele0[i]
            code = self._known.setdefault(name, ssf_chromosome(name))
            number = int(code) if code.isdecimal() else 99
            self._odd_chromosomes += number > 25 or number < 1
            if _ALLELE.fullmatch(one) and _ALLELE.fullmatch(two):
                one, two = one.upper(), two.upper()
            else:
                self._odd_alleles += 1
            self._odd_places += ps[i] < 1
            place = (number, int(ps[i]))
            self._sorted &= self._last <= place
            self._last = place
            texts.append(f"{code}\t{ps[i]}\t{one}\t{two}")
            texts.append(f"{rs if _RSID.fullmatch(rs) else '#NA'}\t{rs}")
        return texts

    def commit(self) -> None:
        """Complete the file, then its metadata."""
        super().commit()
        path = self.file.path
        write_all(path.with_name(path.name + "-meta.yaml"), [self._yaml().encode("utf-8", "backslashreplace")])
        for count, what in (
            (self._left_out, "without a result left out: GWAS-SSF has no missing effects"),
            (self._odd_chromosomes, "on a chromosome that GWAS-SSF has no number for (1 to 25)"),
            (self._odd_places, "without a position, which GWAS-SSF needs"),
            (self._odd_alleles, "with alleles other than A, C, G and T, which GWAS-SSF does not allow"),
        ):
            if count:
                self.warnings.append(f"{path}: {plural(count, 'variant')} {what}")

    def _yaml(self) -> str:
        """The metadata that the run knows; NR (not reported) stands where the user has to fill in what is mandatory."""
        m = self._metadata
        cases = m.get("cases")
        lines = [
            "---",
            "# NR: not known to jamma; fill it in before the files are shared.",
            f"date_metadata_last_modified: {datetime.date.today().isoformat()}",
            "trait_description:",
            f"  - {_quoted(m.get('trait') or 'NR')}",
            "genome_assembly: NR",
            "coordinate_system: 1-based",
            "genotyping_technology:",
            "  - NR",
            "samples:",
            "  - sample_ancestry_category:",
            "      - NR",
            f"    sample_size: {self._n_samples}",
            f"    case_control_study: {str(cases is not None).lower()}",
            *([] if cases is None else [f"    case_count: {cases}", f"    control_count: {self._n_samples - cases}"]),
            "sex: NR",
            f"data_file_name: {_quoted(self.file.path.name)}",
            "file_type: GWAS-SSF v1.0",
            f"data_file_md5sum: {self._md5.hexdigest()}",
            f"analysis_software: jamma {__version__}",
        ]
        if m.get("covariates"):
            lines += ["adjusted_covariates:", *(f"  - {_quoted(name)}" for name in m["covariates"])]
        lines += ["is_harmonised: false", f"is_sorted: {str(self._sorted).lower()}"]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A YAML scalar in double quotes, for text of any characters."""
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in text)
    return f'"{escaped}"'


# --- Parquet ---------------------------------------------------------------------------------------------------------


class ParquetSink:
    """The columns of .assoc.txt in full precision, as Apache Parquet (needs pyarrow).

    Parameters
    ----------
    path, text, columns
        As in `TextSink`.

    Raises
    ------
    UsageError
        pyarrow is not installed.
    """

    def __init__(self, path: Path, text: VariantText, columns: Sequence[str]):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise UsageError("--out-format parquet needs pyarrow: pip install 'jamma[parquet]'") from error
        self.warnings: list[str] = []
        self._pa, self._bim, self._columns = pyarrow, text.bim, columns
        types = {**dict.fromkeys(TEXT_COLUMNS, pyarrow.string()), **dict.fromkeys(INTEGER_COLUMNS, pyarrow.int64())}
        self._schema = pyarrow.schema([(name, types.get(name, pyarrow.float64())) for name in columns])
        self._waiting: list[Any] = []
        self._n_waiting = 0
        self.file = AtomicFile(path)
        self._writer = pyarrow.parquet.ParquetWriter(self.file.file, self._schema, compression="zstd")

    def write(self, chunk: AssocChunk, table: dict[str, F64]) -> None:
        """Append the rows of a chunk."""
        b = self._bim
        names = {"chr": b.chrom, "rs": b.rs, "allele1": b.allele1, "allele0": b.allele0}
        arrays = []
        for name, kind in zip(self._columns, self._schema.types, strict=True):
            if name in names:
                texts = [names[name][i] for i in chunk.index.tolist()]
                arrays.append(self._pa.array([_unicode(t) for t in texts], type=kind))
            elif name == "ps":
                arrays.append(self._pa.array(np.asarray(b.ps)[chunk.index], type=kind))
            elif name in INTEGER_COLUMNS:
                arrays.append(self._pa.array(table[name].astype(np.int64), type=kind))
            else:
                arrays.append(self._pa.array(np.array(table[name]), type=kind))
        self._waiting.append(self._pa.Table.from_arrays(arrays, schema=self._schema))
        self._n_waiting += len(chunk.index)
        while self._n_waiting >= ROW_GROUP:
            self._flush(ROW_GROUP)

    def _flush(self, n_rows: int) -> None:
        """Write a row group of the first n rows that wait."""
        table = self._pa.concat_tables(self._waiting)
        self._writer.write_table(table.slice(0, n_rows).combine_chunks(), row_group_size=ROW_GROUP)
        self._waiting = [table.slice(n_rows)]
        self._n_waiting -= n_rows

    def commit(self) -> None:
        """Complete the file and give it its name."""
        if self._n_waiting:
            self._flush(self._n_waiting)
        self._writer.close()
        self.file.commit()

    def abort(self) -> None:
        """Leave no file."""
        self._writer.is_open = False  # nothing is to be written when it is collected
        self.file.abort()


def _unicode(text: str) -> str:
    """The text with bytes that are not UTF-8 shown as escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
