"""What a run was asked to do: one frozen record that the command line and `jamma.gwas` both fill in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from jamma.core.errors import UsageError

BACKENDS = ("auto", "numpy", "numpy-streaming")
OUT_FORMATS = ("gemma", "tsv.gz", "parquet", "gwas-ssf")
EXTRA_COLUMNS = ("n", "neg_log10_p", "stat", "n_obs")


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Every option of a run, under the names of `jamma.gwas`; the flag stands behind each.

    Relations between options are checked here, values of the model by `jamma.lmm.schema.LmmConfig`, files when they
    are read.
    """

    bfile: str | os.PathLike[str]  # -bfile
    lmm_mode: int | None = 1  # -lmm; None: only a kinship
    kinship_mode: int | None = None  # -gk: 1 centred, 2 standardised
    kinship_file: str | os.PathLike[str] | None = None  # -k
    kinship_format: int = 1  # -km: 1 matrix, 2 list of pairs
    eigenvalue_file: str | os.PathLike[str] | None = None  # -d
    eigenvector_file: str | os.PathLike[str] | None = None  # -u
    write_eigen: bool = False  # -eigen
    loco: bool = False  # -loco
    eigen_dir: str | os.PathLike[str] | None = None  # --eigen-dir
    resume: bool = False  # --resume
    phenotype_columns: tuple[int, ...] = (1,)  # -n
    phenotype_file: str | os.PathLike[str] | None = None  # -p
    covariate_file: str | os.PathLike[str] | None = None  # -c
    categorical_columns: tuple[int, ...] = ()  # -cat
    weight_file: str | os.PathLike[str] | None = None  # -widv
    residual_weight_file: str | os.PathLike[str] | None = None  # --residual-weights
    pheno_table: str | os.PathLike[str] | None = None  # --pheno
    pheno_names: tuple[str, ...] = ()  # --pheno-name
    covar_table: str | os.PathLike[str] | None = None  # --covar
    covar_names: tuple[str, ...] = ()  # --covar-name
    keep_file: str | os.PathLike[str] | None = None  # --keep
    remove_file: str | os.PathLike[str] | None = None  # --remove
    extract_file: str | os.PathLike[str] | None = None  # --extract
    exclude_file: str | os.PathLike[str] | None = None  # --exclude
    snps_file: str | os.PathLike[str] | None = None  # -snps
    ksnps_file: str | os.PathLike[str] | None = None  # -ksnps
    region: str | None = None  # -region
    maf: float = 0.01  # -maf
    miss: float = 0.05  # -miss
    hwe: float = 0.0  # -hwe
    hwe_exact: float = 0.0  # --hwe-exact
    r2: float = 0.9999  # -r2
    notsnp: bool = False  # -notsnp
    l_min: float = 1e-5  # -lmin
    l_max: float = 1e5  # -lmax
    legacy_text: bool = False  # --legacy-text
    output_dir: str | os.PathLike[str] = "output"  # -outdir
    output_prefix: str = "result"  # -o
    out_format: str = "gemma"  # --out-format
    extra_columns: tuple[str, ...] = ()  # --cols
    dropped_file: str | os.PathLike[str] | None = None  # --dropped
    plot: bool = False  # --plot
    backend: str = "auto"  # --backend
    n_threads: int | None = None  # --threads
    chunk_size: int | None = None  # --chunk-size
    mem_budget: float | None = None  # --mem-budget, GB
    check_memory: bool = True  # --no-check-memory
    telemetry: bool = True  # --no-telemetry
    show_progress: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        problems = [*self._contradictions(), *self._out_of_range()]
        if problems:
            raise UsageError("\n".join(problems))

    @property
    def output_stem(self) -> Path:
        """Folder and prefix of every output file."""
        return Path(self.output_dir) / self.output_prefix

    def _contradictions(self) -> list[str]:
        """Pairs of options that cannot be meant together, each with its reason."""
        eigen_files = self.eigenvalue_file is not None or self.eigenvector_file is not None
        rules = [
            (self.lmm_mode is None and self.kinship_mode is None, "nothing to do: give -gk, -lmm or both"),
            ((self.eigenvalue_file is None) != (self.eigenvector_file is None),
             "-d and -u go together: eigenvalues and eigenvectors of one decomposition"),
            (eigen_files and self.kinship_file is not None,
             "-d/-u with -k: both say where the kinship comes from; give one of them"),
            (self.loco and self.kinship_file is not None,
             "-loco with -k: the kinships of LOCO are computed from the genotypes, one a chromosome; leave -k out"),
            (self.loco and eigen_files,
             "-loco with -d/-u: LOCO has one decomposition for each chromosome; keep and reuse them with --eigen-dir"),
            (self.loco and self.kinship_mode == 2,
             "-loco with -gk 2: subtracting a chromosome needs one divisor for every variant, which the standardised "
             "kinship does not have; use -gk 1"),
            (self.loco and len(self._phenotypes()) > 1,
             "-loco with several phenotypes: run each phenotype separately with -loco"),
            (self.loco and (self.hwe > 0 or self.hwe_exact > 0),
             "-hwe with -loco: the filter would change each chromosome's kinship; filter first (plink --hwe)"),
            (self.loco and self.weight_file is not None,
             "-widv with -loco: GEMMA's weighting is not defined for LOCO; leave one of them out"),
            (self.kinship_mode is not None and (self.kinship_file is not None or eigen_files),
             "-gk with -k or -d/-u: compute a kinship or read one, not both"),
            (self.lmm_mode is None and (self.kinship_file is not None or eigen_files),
             "-k and -d/-u belong to a test: add -lmm"),
            (self.eigen_dir is not None and not self.loco, "--eigen-dir holds LOCO's decompositions: add -loco"),
            (self.resume and not self.loco, "--resume continues a LOCO run: add -loco"),
            (self.write_eigen and self.lmm_mode is None, "-eigen belongs to a test: add -lmm"),
            (self.loco and self.write_eigen and self.eigen_dir is None,
             "-eigen with -loco writes one pair of files for each chromosome: say where with --eigen-dir DIR"),
            (self.weight_file is not None and self.residual_weight_file is not None,
             "-widv with --residual-weights: two ways to weight; give one"),
            (self.phenotype_file is not None and self.pheno_table is not None, "-p with --pheno: give one of them"),
            (self.covariate_file is not None and self.covar_table is not None, "-c with --covar: give one of them"),
            (bool(self.pheno_names) and self.pheno_table is None, "--pheno-name names columns of a table: add --pheno"),
            (bool(self.covar_names) and self.covar_table is None, "--covar-name names columns of a table: add --covar"),
            (bool(self.categorical_columns) and self.covariate_file is None and self.covar_table is None,
             "-cat names covariate columns: add -c or --covar"),
            (self.hwe > 0 and self.hwe_exact > 0, "-hwe with --hwe-exact: two tests of one thing; give one"),
            (self.plot and self.lmm_mode is None, "--plot draws the results of a test: add -lmm"),
        ]  # fmt: skip
        return [text for wrong, text in rules if wrong]

    def _out_of_range(self) -> list[str]:
        """Values that no run can use."""
        rules = [
            (self.kinship_mode not in (None, 1, 2), f"-gk {self.kinship_mode}: expected 1 (centred) or 2 (standard)"),
            (self.lmm_mode not in (None, 1, 2, 3, 4),
             f"-lmm {self.lmm_mode}: expected 1 (Wald), 2 (LRT), 3 (score) or 4 (all)"),
            (self.kinship_format not in (1, 2), f"-km {self.kinship_format}: expected 1 (matrix) or 2 (list of pairs)"),
            (any(k < 1 for k in self.phenotype_columns), f"-n {_listed(self.phenotype_columns)}: columns count from 1"),
            (len(set(self.phenotype_columns)) < len(self.phenotype_columns),
             f"-n {_listed(self.phenotype_columns)}: a column is named twice"),
            (any(k < 1 for k in self.categorical_columns),
             f"-cat {_listed(self.categorical_columns)}: columns count from 1"),
            (self.backend not in BACKENDS, f"--backend {self.backend}: expected {', '.join(BACKENDS)}"),
            (self.out_format not in OUT_FORMATS, f"--out-format {self.out_format}: expected " + ", ".join(OUT_FORMATS)),
            (bool(set(self.extra_columns) - set(EXTRA_COLUMNS)),
             f"--cols {_listed(self.extra_columns)}: expected some of {', '.join(EXTRA_COLUMNS)}"),
            (self.mem_budget is not None and not self.mem_budget > 0,
             f"--mem-budget {self.mem_budget}: expected gigabytes above 0"),
            (self.n_threads is not None and self.n_threads < 1, f"--threads {self.n_threads}: expected at least 1"),
            (self.chunk_size is not None and self.chunk_size < 1,
             f"--chunk-size {self.chunk_size}: expected at least 1"),
            (Path(self.output_prefix or ".").name != self.output_prefix,
             f"-o {self.output_prefix!r}: expected a file name without a folder; name the folder with -outdir"),
        ]  # fmt: skip
        return [text for wrong, text in rules if wrong]

    def _phenotypes(self) -> tuple[object, ...]:
        return self.pheno_names if self.pheno_table is not None and self.pheno_names else self.phenotype_columns


def _listed(values: tuple[object, ...]) -> str:
    return ",".join(map(str, values))


def backend_in_force(requested: str) -> str:
    """The backend to use: JAMMA_BACKEND wins over the flag."""
    value = os.environ.get("JAMMA_BACKEND", "")
    if value and value not in BACKENDS:
        raise UsageError(f"JAMMA_BACKEND={value}: expected {', '.join(BACKENDS)}")
    return value or requested
