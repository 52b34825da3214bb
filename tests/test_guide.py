"""The Python examples of the user guide, as written, on the example cohort."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with data/my_study.{bed,bim,fam} and the files that the examples name; the working folder of each."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "data").mkdir()
    for ending in ("bed", "bim", "fam"):
        shutil.copy(EXAMPLES / f"cohort.{ending}", folder / "data" / f"my_study.{ending}")
    shutil.copy(EXAMPLES / "covariates.txt", folder / "covars.txt")
    names = [line.split()[1] for line in (EXAMPLES / "cohort.bim").read_text().splitlines()]
    (folder / "snps.txt").write_text("\n".join(names[:500]) + "\n")
    return folder


@pytest.fixture
def here(study, monkeypatch):
    monkeypatch.chdir(study)
    monkeypatch.setenv("JAMMA_NO_TELEMETRY", "1")
    return study


def test_one_call(here):
    from jamma import gwas

    result = gwas("data/my_study", save_kinship=True, output_dir="output")
    assert result.kinship_path == Path("output/result.cXX.npy")
    np.savetxt("k.txt", np.load(result.kinship_path), fmt="%.10g", delimiter="\t")
    shutil.copy("output/result.cXX.id.txt", "k.id.txt")

    result = gwas("data/my_study", kinship_file="k.txt")
    assert f"Tested {result.n_snps_tested} SNPs in {result.timing['total_s']:.1f}s".startswith("Tested 8")
    assert 0 < result.pve_estimate < 1
    assert result.pve_se > 0

    result = gwas("data/my_study", kinship_file="k.txt", covariate_file="covars.txt", lmm_mode=2)
    assert result.associations().dtype.names[-3:] == ("logl_H1", "l_mle", "p_lrt")

    result = gwas("data/my_study", kinship_file="k.txt", snps_file="snps.txt", hwe=0.001)
    assert 0 < result.n_snps_tested < 500


def test_eigen_reuse(here):
    from jamma import gwas

    fam = [line.split() for line in Path("data/my_study.fam").read_text().splitlines()]
    both = "".join(f"{f[0]} {f[1]}\n" for f in fam if not {"NA", "-9"} & set(f[5:7]))
    Path("both.txt").write_text(both)
    gwas("data/my_study", write_eigen=True, phenotype_column=1, keep_file="both.txt")
    result = gwas(
        "data/my_study",
        eigenvalue_file="output/result.eigenD.npy",
        eigenvector_file="output/result.eigenU.npy",
        phenotype_column=2,
        keep_file="both.txt",
    )
    assert result.n_samples == both.count("\n")


def test_loco(here):
    from jamma import gwas

    result = gwas("data/my_study", loco=True)
    assert len(result.null_models) == 20


def test_arrays(here):
    from jamma.io import load_plink_binary
    from jamma.kinship import compute_centered_kinship
    from jamma.lmm import run_lmm_association_numpy
    from jamma.lmm.eigen import eigendecompose_kinship
    from jamma.lmm.schema import LmmConfig

    data = load_plink_binary("data/my_study")
    phenotypes = data.phenotypes[:, 0]
    present = ~np.isnan(phenotypes)
    genotypes, phenotypes = data.genotypes[present], phenotypes[present]
    snp_info = data.snp_info()
    assert set(snp_info[0]) == {"chr", "rs", "pos", "a1", "a0"}

    K = compute_centered_kinship(genotypes)
    eigenvalues, eigenvectors = eigendecompose_kinship(K)
    run_result = run_lmm_association_numpy(
        genotypes=genotypes,
        phenotypes=phenotypes,
        kinship=None,
        snp_info=snp_info,
        eigenvalues=eigenvalues,
        eigenvectors=eigenvectors,
        config=LmmConfig(lmm_mode=1),
    )
    results = run_result.associations
    best = min(results, key=lambda r: r.p_wald)
    assert best.p_wald < 5e-8
    assert 0 < run_result.pve < 1
    assert run_result.pve_se > 0
    assert len(results) == run_result.n_snps_tested


def test_memory_estimates():
    from jamma.core.memory import estimate_lmm_memory, estimate_workflow_memory

    full = estimate_workflow_memory(n_samples=200_000, n_snps=95_000)
    assert full.total_gb > full.eigendecomp_workspace_gb > 0
    assert full.available_gb > 0
    assert not full.sufficient
    lmm = estimate_lmm_memory(n_samples=200_000, n_snps=95_000)
    assert lmm.total_gb < full.total_gb


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_any_kind_give_the_same(dtype, order):
    from jamma.kinship import compute_centered_kinship
    from jamma.lmm import run_lmm_association_numpy
    from jamma.lmm.reference import associate
    from jamma.lmm.schema import LmmConfig

    rng = np.random.default_rng(1)
    calls = rng.binomial(2, rng.uniform(0.1, 0.9, 60), (80, 60)).astype(np.int8)
    y = calls[:, 3] + rng.standard_normal(80)
    kinship = compute_centered_kinship(calls)
    missing = rng.random(calls.shape) < 0.02
    genotypes = np.array(calls, dtype=dtype, order=order)
    genotypes[missing] = np.nan if np.dtype(dtype).kind == "f" else -127
    genotypes.flags.writeable = False
    config = LmmConfig(lmm_mode=4)
    rows = run_lmm_association_numpy(genotypes, y, kinship, config=config).associations
    x = np.where(missing, np.nan, calls.astype(float))
    x = np.where(missing, np.nanmean(x, axis=0), x)[:, [int(r.rs) for r in rows]]
    d, u = np.linalg.eigh(kinship)
    expected = associate(np.where(d < 1e-10, 0, d), u, np.ones((80, 1)), y, x, config)
    for name in ("beta", "se", "l_remle", "l_mle", "p_wald", "p_lrt", "p_score"):
        np.testing.assert_allclose([getattr(r, name) for r in rows], expected[name], rtol=1e-8, err_msg=name)


def test_dosages_are_rotated_as_they_are():
    from jamma.kinship import compute_centered_kinship
    from jamma.lmm import run_lmm_association_numpy
    from jamma.lmm.reference import associate
    from jamma.lmm.schema import LmmConfig

    rng = np.random.default_rng(2)
    x = rng.uniform(0, 2, (60, 40))
    y = x[:, 5] + rng.standard_normal(60)
    kinship = compute_centered_kinship(x)
    rows = run_lmm_association_numpy(x, y, kinship).associations
    d, u = np.linalg.eigh(kinship)
    expected = associate(np.where(d < 1e-10, 0, d), u, np.ones((60, 1)), y, x, LmmConfig())
    np.testing.assert_allclose([r.p_wald for r in rows], expected["p_wald"], rtol=1e-8)
