"""Make the small cohort of the parity tests and run GEMMA 0.98.5 on it; everything else in this folder comes from here.

    python tests/data/make_fixtures.py        (needs numpy, bed-reader and the `gemma` of Debian or Ubuntu)

The cohort (120 samples, 600 variants) has what real files have: families, missing calls, rare, monomorphic, all
heterozygous and all missing variants, chromosomes that are out of order and interleaved, indels, two phenotypes with
``NA`` and ``-9``, covariates with ``NA``, unequal weights. `FIXTURES` says which options made which files;
``fixtures.json`` is the same for the tests, with the options under which jamma is to give the same numbers.
Files are gzipped without a time stamp; of GEMMA's logs the lines that depend on the machine are left out.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from bed_reader import to_bed

HERE = Path(__file__).resolve().parent
SEED = 9850
N_FAMILIES, FAMILY_SIZE = 30, 4
CHROMOSOMES = {"2": 170, "1": 150, "10": 150, "X": 115, "1 again": 15}  # in file order
MISSING_CALL = -127
# Variants (row of the .bim) made special on purpose.
NO_COPY, TWO_COPIES, ALL_HETEROZYGOUS, ALL_MISSING, RARE, TENTH_MISSING, EXCESS_HETEROZYGOUS, NEAR_COVARIATE = (
    7, 20, 33, 46, (60, 61, 62, 63), (80, 81, 82), (100, 101), 120,
)  # fmt: skip


@dataclass(frozen=True)
class Fixture:
    """GEMMA's options (`gemma`), jamma's where they differ (`jamma`), and the files that came out."""

    gemma: list[str]
    jamma: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def options(line: str) -> list[str]:
    """The option list of a command line on the cohort."""
    return ["-bfile", "cohort", *line.split()]


def gk(line: str, jamma: str | None = None) -> Fixture:
    """A kinship run."""
    suffix = "sXX" if "-gk 2" in line else "cXX"
    return Fixture(options(line), options(jamma or line), [f"{suffix}.txt.gz", "log.txt"])


def lmm(line: str, jamma: str | None = None) -> Fixture:
    """An association run."""
    return Fixture(options(line), options(jamma or line), ["assoc.txt.gz", "log.txt"])


K1 = "-k gk1.cXX.txt.gz"
FIXTURES: dict[str, Fixture] = {
    "gk1": gk("-gk 1"),
    "gk2": gk("-gk 2"),
    "gk1_n2": gk("-gk 1 -n 2"),
    "gk1_nofilter": gk("-gk 1 -maf 0 -miss 1"),
    "gk1_ksnps": gk("-gk 1 -snps ksnps.txt", "-gk 1 -ksnps ksnps.txt"),
    "gk1_not1": gk("-gk 1 -snps not_chr1.txt", "-gk 1 -ksnps not_chr1.txt"),
    "gk1_notX": gk("-gk 1 -snps not_chrX.txt", "-gk 1 -ksnps not_chrX.txt"),
    "lmm1": lmm(f"-lmm 1 {K1}"),
    "lmm2": lmm(f"-lmm 2 {K1}"),
    "lmm3": lmm(f"-lmm 3 {K1}"),
    "lmm4": lmm(f"-lmm 4 {K1}"),
    "lmm4_n2": lmm(f"-lmm 4 {K1} -n 2"),
    "lmm4_gk2": lmm("-lmm 4 -k gk2.sXX.txt.gz"),
    "lmm4_ksnps": lmm("-lmm 4 -k gk1_ksnps.cXX.txt.gz"),
    "lmm1_cov": lmm(f"-lmm 1 {K1} -c covariates.txt"),
    "lmm4_cov": lmm(f"-lmm 4 {K1} -c covariates.txt"),
    "lmm4_covna": lmm(f"-lmm 4 {K1} -c covariates_na.txt"),
    "lmm4_covnoint": lmm(f"-lmm 4 {K1} -c covariates_no_intercept.txt"),
    "lmm4_snps": lmm(f"-lmm 4 {K1} -snps snps.txt"),
    "lmm4_lbounds": lmm(f"-lmm 4 {K1} -lmin 0.1 -lmax 10"),
    "lmm4_region": lmm(f"-lmm 4 {K1} -region 20"),
    "lmm4_mafmiss": lmm(f"-lmm 4 {K1} -maf 0.1 -miss 0.02"),
    "lmm4_nofilter": lmm(f"-lmm 4 {K1} -maf 0 -miss 1"),
    "lmm4_hwe": lmm(f"-lmm 4 {K1} -hwe 0.05", f"-lmm 4 {K1} --hwe-exact 0.05"),
    "lmm4_notsnp": lmm(f"-lmm 4 {K1} -notsnp"),
    "lmm4_r2": lmm(f"-lmm 4 {K1} -c covariates.txt -r2 0.7"),
    "lmm4_widv": lmm(f"-lmm 4 {K1} -widv weights.txt"),
    "lmm4_p": lmm(f"-lmm 4 {K1} -p phenotypes.txt"),
    "lmm4_p2": lmm(f"-lmm 4 {K1} -p phenotypes.txt -n 2"),
    "lmm4_km2": lmm("-lmm 4 -k kinship_list.txt.gz -km 2"),
    "lmm4_loco1": lmm("-lmm 4 -k gk1_not1.cXX.txt.gz -snps chr1.txt"),
    "lmm4_locoX": lmm("-lmm 4 -k gk1_notX.cXX.txt.gz -snps chrX.txt"),
    "eigen": Fixture(
        options(f"{K1} -eigen"), options(f"-lmm 1 {K1} -eigen"), ["eigenD.txt.gz", "eigenU.txt.gz", "log.txt"]
    ),
    "lmm4_du": lmm("-lmm 4 -d eigen.eigenD.txt.gz -u eigen.eigenU.txt.gz"),
}
# Lines of a log that depend on the machine or the hour.
LOG_NOISE = (
    "OpenBLAS",
    "arch",
    "threads",
    "parallel",
    "GCC",
    "GSL",
    "Build",
    "Date",
    "min ",
    "omputation time",
    "omputation Time",
)


def simulate_genotypes(rng: np.random.Generator) -> np.ndarray:
    """Calls (120, 600): families of two parents and two children, linkage from eight ancestral haplotypes."""
    p = sum(CHROMOSOMES.values())
    ancestors = (rng.random((8, p)) < rng.beta(0.8, 1.0, p).clip(0.05, 0.95)).astype(np.int8)

    def copy(sources: np.ndarray, switch_rate: float) -> np.ndarray:
        segment = np.cumsum(rng.random(p) < switch_rate)
        return sources[rng.integers(0, len(sources), segment[-1] + 1)[segment], np.arange(p)]

    samples = []
    for _ in range(N_FAMILIES):
        parents = [np.array([copy(ancestors, 0.1) for _ in range(2)]) for _ in range(2)]
        parents = [pair ^ (rng.random(pair.shape) < 0.01) for pair in parents]
        samples += [pair.sum(axis=0) for pair in parents]
        samples += [sum(copy(pair, 1 / 100) for pair in parents) for _ in range(FAMILY_SIZE - 2)]
    g = np.array(samples, dtype=np.int8)
    g[rng.random(g.shape) < 0.012] = MISSING_CALL
    return make_special(g, rng)


def make_special(g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Overwrite the variants that test a filter."""
    n = len(g)
    g[:, NO_COPY], g[:, TWO_COPIES], g[:, ALL_HETEROZYGOUS], g[:, ALL_MISSING] = 0, 2, 1, MISSING_CALL
    g[5, NO_COPY] = g[6, ALL_HETEROZYGOUS] = MISSING_CALL
    for carriers, v in enumerate(RARE, start=1):
        g[:, v] = 0
        g[rng.choice(n, carriers, replace=False), v] = 1
    for v in TENTH_MISSING:
        g[rng.choice(n, n // 10, replace=False), v] = MISSING_CALL
    for v in EXCESS_HETEROZYGOUS:
        g[:, v] = rng.choice([0, 1, 2], n, p=[0.1, 0.85, 0.05])
    return g


def simulate_tables(g: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Phenotypes, covariates and weights from the calls; `extremes` is a phenotype of noise and one of genes alone."""
    n, p = g.shape
    x = np.where(g == MISSING_CALL, 0, g).astype(float)
    x -= x.mean(axis=0)
    age, sex = rng.integers(20, 70, n), rng.integers(0, 2, n)
    near = np.round(x[:, NEAR_COVARIATE] + 0.4 * rng.standard_normal(n), 3)
    y = []
    for h2 in (0.6, 0.3):
        polygenic = x[:, rng.choice(p, 80, replace=False)] @ rng.standard_normal(80)
        noise = rng.standard_normal(n)
        y.append(10 + np.sqrt(h2) * polygenic / polygenic.std() + np.sqrt(1 - h2) * noise + 0.01 * age + 0.3 * sex)
    return {
        "phenotypes": np.array(y).T,
        "covariates": np.column_stack([np.ones(n), age, sex, near]),
        "extremes": np.array([rng.standard_normal(n), 50 + x @ rng.standard_normal(p) / np.sqrt(p)]).T,
        "weights": np.round(rng.uniform(0.5, 2.0, n), 3),
    }


def with_missing(column: np.ndarray, rows: np.ndarray, token: str, digits: int) -> list[str]:
    """Numbers as text, `token` at `rows`."""
    text = [f"{v:.{digits}f}" if digits else f"{v:g}" for v in column]
    return [token if i in set(rows.tolist()) else t for i, t in enumerate(text)]


def write_lines(path: Path, rows: list) -> None:
    """One line per row; a row is a string or a list of fields."""
    path.write_text("".join((r if isinstance(r, str) else " ".join(r)) + "\n" for r in rows), newline="\n")


def write_inputs(folder: Path) -> None:
    """Every input file of the runs, except the kinships."""
    rng = np.random.default_rng(SEED)
    g = simulate_genotypes(rng)
    tables = simulate_tables(g, rng)
    n, p = g.shape
    to_bed(folder / "cohort.bed", g, num_threads=1)

    y = tables["phenotypes"]
    first = with_missing(y[:, 0], rng.choice(n, 5, replace=False), "NA", 6)
    second = with_missing(y[:, 1], rng.choice(n, 4, replace=False), "-9", 6)
    second[17] = "NA"
    iid = [f"id{i + 1:03d}" for i in range(n)]
    write_lines(folder / "cohort.fam", [
        [f"f{i // FAMILY_SIZE + 1}", iid[i], "0", "0", str(1 + i % 2), first[i], second[i]] for i in range(n)
    ])  # fmt: skip
    columns = [with_missing(tables["extremes"][:, k], rng.choice(n, 6, replace=False), "NA", 5) for k in (0, 1)]
    write_lines(folder / "phenotypes.txt", [list(r) for r in zip(*columns, strict=True)])

    chromosome = np.repeat([c.split()[0] for c in CHROMOSOMES], list(CHROMOSOMES.values()))
    rs = [f"rs{v + 1:04d}" for v in range(p)]
    alleles = [("A", "G"), ("T", "C"), ("C", "A"), ("GATT", "G"), ("T", "TAA")]
    position = 1000 + np.cumsum(rng.integers(100, 50_000, p))
    write_lines(folder / "cohort.bim", [
        "\t".join([chromosome[v], rs[v], "0", str(position[v]), *alleles[v % len(alleles)]]) for v in range(p)
    ])  # fmt: skip
    for c in ("1", "X"):
        write_lines(folder / f"chr{c}.txt", [r for r, k in zip(rs, chromosome, strict=True) if k == c])
        write_lines(folder / f"not_chr{c}.txt", [r for r, k in zip(rs, chromosome, strict=True) if k != c])
    write_lines(folder / "snps.txt", [rs[v] for v in rng.choice(p, 200, replace=False)])
    write_lines(folder / "ksnps.txt", [rs[v] for v in rng.choice(p, 300, replace=False)])

    w = [[f"{v:g}" for v in row] for row in tables["covariates"]]
    write_lines(folder / "covariates.txt", w)
    write_lines(folder / "covariates_no_intercept.txt", [row[1:] for row in w])
    for k, i in enumerate(rng.choice(n, 5, replace=False)):
        w[i][1 + k % 3] = "NA"
    write_lines(folder / "covariates_na.txt", w)
    write_lines(folder / "weights.txt", [f"{v:g}" for v in tables["weights"]])


def write_kinship_list(folder: Path) -> None:
    """The ``-km 2`` form of gk1: one line "id id value" a pair, small values and one stranger's line left in."""
    kinship = np.loadtxt(folder / "gk1.cXX.txt.gz")
    iid = [line.split()[1] for line in (folder / "cohort.fam").read_text().splitlines()]
    lines = [f"{iid[i]} {iid[j]} {kinship[i, j]:.10g}" for i in range(len(iid)) for j in range(i + 1)]
    store(folder / "kinship_list.txt.gz", "\n".join([*lines, "stranger id001 0.5"]) + "\n")


def store(path: Path, text: str) -> None:
    """Write text, gzipped without a time stamp where the name ends in .gz."""
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def run_gemma(folder: Path, name: str, fixture: Fixture) -> None:
    """Run one fixture in `folder` and put its outputs there under their stored names."""
    command = ["gemma", *fixture.gemma, "-o", name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    for output in fixture.outputs:
        text = (folder / "output" / f"{name}.{output.removesuffix('.gz')}").read_text()
        if output == "log.txt":
            text = "".join(
                line for line in text.splitlines(keepends=True) if not any(word in line for word in LOG_NOISE)
            )
        store(folder / f"{name}.{output}", text)


def main() -> None:
    """Make everything in a scratch folder, then move it beside this script."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_inputs(folder)
        for name, fixture in FIXTURES.items():
            if name == "lmm4_km2":
                write_kinship_list(folder)
            run_gemma(folder, name, fixture)
        table = {
            name: asdict(f) | {"outputs": [f"{name}.{o}" for o in f.outputs]} for name, f in FIXTURES.items()
        }  # fmt: skip
        (folder / "fixtures.json").write_text(json.dumps(table, indent=1) + "\n", newline="\n")
        shutil.rmtree(folder / "output")
        for old in HERE.iterdir():
            if old.is_file() and old.name not in (Path(__file__).name, "README.md"):
                old.unlink()
        for new in sorted(folder.iterdir()):
            shutil.move(new, HERE / new.name)


if __name__ == "__main__":
    main()
