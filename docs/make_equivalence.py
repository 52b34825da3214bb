"""Run jamma on the reference data, compare with GEMMA 0.98.5 and the oracle, and rewrite GEMMA_EQUIVALENCE.md.

usage: python docs/make_equivalence.py [DATA]

DATA is the folder of the reference data on mouse_hs1940 (default: JAMMA_TEST_DATA, else ../shared/data); without it the
small cohort in tests/data alone is compared. The options of every run are those of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from blocks import DOCS, table, write_block

ROOT = DOCS.parent
sys.path.insert(0, str(ROOT / "tests"))
from gemma import DATA, FIXTURES, differences, options, read_assoc, read_log, read_matrix  # noqa: E402
from test_validation_assoc import MOUSE, ORACLES  # noqa: E402

PAGE = DOCS / "GEMMA_EQUIVALENCE.md"
STATISTICS = ("beta", "se", "logl_H1", "l_remle", "l_mle", "p_wald", "p_lrt", "p_score")
NULL_MODEL = {
    "pve": "pve estimate in the null model", "se(pve)": "se(pve) in the null model",
    "vg": "vg estimate in the null model", "ve": "ve estimate in the null model",
    "REML logl": "REMLE log-likelihood in the null model", "ML logl": "MLE log-likelihood in the null model",
    "beta": "beta estimate in the null model",
}  # fmt: skip
# Kinships of mouse_hs1940; GEMMA's is kept whole or as every tenth row.
MOUSE_KINSHIPS = {
    "gk1": ("-gk 1", "gk1.cXX.txt.gz"),
    "gk2": ("-gk 2", "gk2.sXX.every10th_row.txt.gz"),
    "gk1_ksnps": ("-gk 1 -ksnps ksnps_4000.txt", "gk1_ksnps.cXX.every10th_row.txt.gz"),
    "gk1_nofilter": ("-gk 1 -maf 0 -miss 1", "gk1_nofilter.cXX.every10th_row.txt.gz"),
}
MOUSE_LOCO = ("lmm4_loco1", "lmm4_loco17", "lmm4_loco19")


def jamma(arguments: list[str], folder: Path, name: str) -> None:
    """Run the command line."""
    command = [sys.executable, "-P", "-m", "jamma", *arguments, "-o", name, "-outdir", str(folder), "--no-telemetry"]
    subprocess.run(command, check=True, capture_output=True)


def number(x: float | None) -> str:
    """Of a table of differences."""
    return "" if x is None else "0" if x == 0 else f"{x:.1e}"


def association_row(name: str, shown: str, worst: dict[str, float], reference: Path) -> list[str]:
    """One run of the table; the columns that are text or exact numbers are one cell."""
    rows = read_assoc(reference)[1]
    n_nan = sum("nan" in row.values() for row in rows)
    counts = f"{len(rows):,}" + (f" ({n_nan} nan)" if n_nan else "")
    exact = max(worst.get(c, 0.0) for c in ("chr", "rs", "ps", "n_miss", "allele1", "allele0"))
    text = "equal" if exact == 0 and worst["af"] <= 1e-12 else f"af {worst['af']:.0e}"
    return [name, f"`{shown}`", counts, text, *(number(worst.get(c)) for c in STATISTICS)]


def null_row(name: str, mine: Path, theirs: Path) -> list[str]:
    """Relative differences of the null model's numbers in two logs (six digits)."""
    a, b = read_log(mine), read_log(theirs)
    cells = []
    for line in NULL_MODEL.values():
        x, y = np.array(a[line]), np.array(b[line])
        scale = np.maximum(np.abs(y), np.array(b["se(beta)"]) if line.startswith("beta") else 1e-300)
        cells.append(number(float(np.max(np.abs(x - y) / scale))))
    return [name, *cells]


def kinship_row(name: str, shown: str, mine: Path, theirs: Path) -> list[str]:
    """Largest difference of two kinships relative to the largest entry."""
    a, b = np.load(mine), read_matrix(theirs)
    if len(b) < len(a):
        a = a[::10]
    return [name, f"`{shown}`", f"{len(b)} × {b.shape[1]}", number(float(np.abs(a - b).max() / np.abs(b).max()))]


def shown_options(arguments: list[str]) -> str:
    """Options without the folders of files."""
    return " ".join(Path(a).name if os.sep in a else a for a in arguments if a not in ("-bfile",)).replace(
        "cohort ", ""
    )


def small(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Rows of the small cohort: (which table, row)."""
    for name in FIXTURES:
        shown = shown_options(options(name))
        if name.startswith("lmm"):
            jamma(options(name), folder, name)
            worst = differences(folder / f"{name}.assoc.txt", DATA / f"{name}.assoc.txt.gz")
            yield "small-association", association_row(name, shown, worst, DATA / f"{name}.assoc.txt.gz")
            yield "small-null", null_row(name, folder / f"{name}.log.txt", DATA / f"{name}.log.txt")
        elif name.startswith("gk"):
            jamma(options(name), folder, name)
            (mine,) = folder.glob(f"{name}.*XX.npy")
            kind = mine.name.split(".")[-2]
            yield "small-kinship", kinship_row(name, shown, mine, DATA / f"{name}.{kind}.txt.gz")


def mouse(data: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Rows of mouse_hs1940."""
    reference = data / "gemma_reference"
    bfile = ["-bfile", str(data / "mouse_hs1940" / "mouse_hs1940")]

    def arguments(words: str) -> list[str]:
        return bfile + [str(reference / w) if (reference / w).is_file() else w for w in words.split()]

    for name, words in MOUSE.items():
        jamma(arguments(words), folder, name)
        worst = differences(folder / f"{name}.assoc.txt", reference / f"{name}.assoc.txt.gz")
        yield "mouse-association", association_row(name, words, worst, reference / f"{name}.assoc.txt.gz")
        yield "mouse-null", null_row(name, folder / f"{name}.log.txt", reference / f"{name}.log.txt")
    for name, file in ORACLES.items():
        worst = differences(folder / f"{name}.assoc.txt", data / "oracle" / file, oracle=True)
        theirs = differences(reference / f"{name}.assoc.txt.gz", data / "oracle" / file, oracle=True)
        for who, values in (("jamma", worst), ("GEMMA", theirs)):
            yield "oracle", [name, who, *(number(values.get(c)) for c in STATISTICS if c != "logl_H1")]
    jamma([*bfile, "-lmm", "4", "-loco"], folder, "loco")
    for name in MOUSE_LOCO:
        worst = loco_differences(name, folder, reference)
        yield "mouse-association", association_row(name, "-lmm 4 -loco", worst, reference / f"{name}.assoc.txt.gz")
    for name, (words, file) in MOUSE_KINSHIPS.items():
        jamma(arguments(words), folder, name)
        (mine,) = folder.glob(f"{name}.*XX.npy")
        yield "mouse-kinship", kinship_row(name, words, mine, reference / file)


def loco_differences(name: str, folder: Path, reference: Path) -> dict[str, float]:
    """One chromosome of jamma's single LOCO run against GEMMA's run by hand."""
    header, *lines = (folder / "loco.assoc.txt").read_text().splitlines()
    own = folder / f"{name}.assoc.txt"
    chromosome = name.removeprefix("lmm4_loco")
    own.write_text("\n".join([header, *(line for line in lines if line.split("\t", 1)[0] == chromosome)]) + "\n")
    return differences(own, reference / f"{name}.assoc.txt.gz")


HEADERS = {
    "association": ["run", "options", "rows", "text, `n_miss`, `af`", *(f"`{c}`" for c in STATISTICS)],
    "null": ["run", *NULL_MODEL],
    "kinship": ["run", "options", "compared", "difference"],
    "oracle": ["run", "program", *(f"`{c}`" for c in STATISTICS if c != "logl_H1")],
}


def main() -> None:
    """Run everything and rewrite the page's tables."""
    default = os.environ.get("JAMMA_TEST_DATA") or ROOT.parent / "shared" / "data"
    data = Path(sys.argv[1] if len(sys.argv) > 1 else default)
    tables: dict[str, list[list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = [small(Path(folder) / "small")]
        if (data / "mouse_hs1940").is_dir():
            runs.append(mouse(data, Path(folder) / "mouse"))
        for rows in runs:
            for name, row in rows:
                print(name, *row)
                tables.setdefault(name, []).append(row)
    for name, rows in tables.items():
        write_block(PAGE, name, table(HEADERS[name.rsplit("-", 1)[-1]], rows))


if __name__ == "__main__":
    main()
