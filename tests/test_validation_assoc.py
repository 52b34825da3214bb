"""Every column of every mode against GEMMA 0.98.5 and against the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from gemma import DATA, FIXTURES, assert_close, differences, options, read_assoc

from jamma.cli import main

ASSOCIATIONS = [name for name in FIXTURES if name.startswith("lmm")]

# Options of each run on mouse_hs1940; file names are in the folder of the reference.
MOUSE = {
    "lmm1": "-lmm 1 -k gk1.cXX.txt.gz",
    "lmm2": "-lmm 2 -k gk1.cXX.txt.gz",
    "lmm3": "-lmm 3 -k gk1.cXX.txt.gz",
    "lmm4": "-lmm 4 -k gk1.cXX.txt.gz",
    "lmm4_n2": "-lmm 4 -k gk1.cXX.txt.gz -n 2",
    "lmm4_n6": "-lmm 4 -k gk1.cXX.txt.gz -n 6",
    "lmm4_cov": "-lmm 4 -k gk1.cXX.txt.gz -c covariates.txt",
    "lmm4_covna": "-lmm 4 -k gk1.cXX.txt.gz -c covariates_na.txt",
    "lmm4_snps": "-lmm 4 -k gk1.cXX.txt.gz -snps snps_500.txt",
    "lmm4_lbounds": "-lmm 4 -k gk1.cXX.txt.gz -lmin 0.01 -lmax 2",
    "lmm4_mafmiss": "-lmm 4 -k gk1.cXX.txt.gz -maf 0.1 -miss 0.005",
    "lmm4_hwe": "-lmm 4 -k gk1.cXX.txt.gz --hwe-exact 0.001",
    "lmm4_widv": "-lmm 4 -k gk1.cXX.txt.gz -widv weights.txt",
}
# GEMMA's row-scaled eigenvectors make its own optimum less exact.
MOUSE_TOLERANCE = {"lmm4_widv": 2e-4}
ORACLES = {"lmm4": "lmm4.tsv", "lmm4_cov": "lmm4_cov.tsv", "lmm4_n6": "lmm4_n6.tsv"}


# A phenotype of genes alone: the likelihood is flat beyond lambda = 1000, and GEMMA's Newton steps end early. For
# rs0160 the root is 4015.44973 (30-digit arithmetic), jamma prints 4.015449e+03, GEMMA 4.013891e+03.
SMALL_LAMBDA_TOLERANCE = {"lmm4_p2": 5e-4}


def run(arguments: list[str], folder: Path, name: str) -> Path:
    """Run the command line; the file of results."""
    with pytest.raises(SystemExit) as end:
        main([*arguments, "-o", name, "-outdir", str(folder), "--no-telemetry"])
    assert end.value.code == 0
    return folder / f"{name}.assoc.txt"


@pytest.mark.parametrize("name", ASSOCIATIONS)
@pytest.mark.filterwarnings("default")
def test_small_cohort(name, tmp_path):
    mine = run(options(name), tmp_path, name)
    assert_close(mine, DATA / f"{name}.assoc.txt.gz", tolerance_lambda=SMALL_LAMBDA_TOLERANCE.get(name, 2e-5))


def test_small_cohort_root(tmp_path):
    """Where GEMMA is not at the root, jamma is: against a root found in 30-digit arithmetic."""
    _, rows = read_assoc(run(options("lmm4_p2"), tmp_path, "p2"))
    (row,) = [r for r in rows if r["rs"] == "rs0160"]
    assert float(row["l_remle"]) == pytest.approx(4015.44973005869, rel=5e-7)


@pytest.fixture(scope="module")
def mouse(shared_data, tmp_path_factory):
    """Runs one of MOUSE; the file of results."""
    reference = shared_data / "gemma_reference"
    folder = tmp_path_factory.mktemp("mouse")
    bfile = ["-bfile", str(shared_data / "mouse_hs1940" / "mouse_hs1940")]

    def once(name: str, more: str | None = None) -> Path:
        done = folder / f"{name}.assoc.txt"
        if done.exists():
            return done
        words = (more or MOUSE[name]).split()
        return run(bfile + [str(reference / w) if (reference / w).is_file() else w for w in words], folder, name)

    return once


@pytest.mark.parametrize("name", MOUSE)
def test_mouse(mouse, shared_data, name):
    assert_close(mouse(name), shared_data / "gemma_reference" / f"{name}.assoc.txt.gz", MOUSE_TOLERANCE.get(name, 1e-4))


@pytest.mark.parametrize("name", ORACLES)
def test_mouse_oracle(mouse, shared_data, name):
    """Right to the last printed digit."""
    worst = differences(mouse(name), shared_data / "oracle" / ORACLES[name], oracle=True)
    assert worst.pop("af") <= 5.1e-4
    assert max(worst.values()) <= 6e-7, worst


@pytest.fixture(scope="module")
def mouse_loco(mouse):
    return mouse("loco", "-lmm 4 -loco")


@pytest.mark.parametrize("chromosome", ["1", "17", "19"])
def test_mouse_loco(mouse_loco, shared_data, tmp_path, chromosome):
    """One run of ours against three of GEMMA's by hand."""
    header, rows = read_assoc(mouse_loco)
    part = tmp_path / "part.txt"
    lines = ["\t".join(r.values()) for r in rows if r["chr"] == chromosome]
    part.write_text("\n".join(["\t".join(header), *lines]) + "\n")
    assert_close(part, shared_data / "gemma_reference" / f"lmm4_loco{chromosome}.assoc.txt.gz")


@pytest.mark.parametrize(
    ("name", "kinship"), [("lmm4_gk2", "-gk 2"), ("lmm4_ksnps", "-gk 1 -ksnps ksnps_4000.txt")]
)  # fmt: skip
def test_mouse_with_our_kinship(mouse, shared_data, tmp_path, name, kinship):
    """The kinship that GEMMA used is not kept whole: ours of the same options takes its place."""
    reference = shared_data / "gemma_reference"
    words = [str(reference / w) if (reference / w).is_file() else w for w in kinship.split()]
    bfile = ["-bfile", str(shared_data / "mouse_hs1940" / "mouse_hs1940")]
    run([*bfile, *words], tmp_path, "k")
    (matrix,) = tmp_path.glob("k.*XX.npy")
    assert_close(mouse(name, f"-lmm 4 -k {matrix}"), reference / f"{name}.assoc.txt.gz")
