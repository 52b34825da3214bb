"""Options that cannot be meant together, and values that no run can use."""

from __future__ import annotations

import pytest

from jamma.config import RunRequest, backend_in_force
from jamma.core.errors import UsageError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(lmm_mode=None), "nothing to do"),
        (dict(eigenvalue_file="d"), "-d and -u go together"),
        (dict(eigenvalue_file="d", eigenvector_file="u", kinship_file="k"), "-d/-u with -k"),
        (dict(loco=True, kinship_file="k"), "-loco with -k"),
        (dict(loco=True, eigenvalue_file="d", eigenvector_file="u"), "-loco with -d/-u"),
        (dict(loco=True, kinship_mode=2), "-loco with -gk 2"),
        (dict(loco=True, phenotype_columns=(1, 2)), "-loco with several phenotypes"),
        (dict(loco=True, hwe=0.01), "-hwe with -loco"),
        (dict(loco=True, hwe_exact=0.01), "-hwe with -loco"),
        (dict(loco=True, weight_file="w"), "-widv with -loco"),
        (dict(kinship_mode=1, kinship_file="k"), "-gk with -k"),
        (dict(lmm_mode=None, kinship_mode=1, kinship_file="k"), "belong to a test"),
        (dict(eigen_dir="e"), "add -loco"),
        (dict(resume=True), "add -loco"),
        (dict(lmm_mode=None, kinship_mode=1, write_eigen=True), "-eigen belongs to a test"),
        (dict(loco=True, write_eigen=True), "--eigen-dir"),
        (dict(phenotype_file="p", pheno_table="t"), "-p with --pheno"),
        (dict(covariate_file="p", covar_table="t"), "-c with --covar"),
        (dict(pheno_names=("A",)), "add --pheno"),
        (dict(covar_names=("A",)), "add --covar"),
        (dict(categorical_columns=(1,)), "-cat names"),
        (dict(hwe=0.1, hwe_exact=0.1), "-hwe with --hwe-exact"),
        (dict(weight_file="w", residual_weight_file="v"), "two ways to weight"),
        (dict(kinship_mode=3), "-gk 3"),
        (dict(lmm_mode=5), "-lmm 5"),
        (dict(kinship_format=3), "-km 3"),
        (dict(phenotype_columns=(0,)), "columns count from 1"),
        (dict(phenotype_columns=(2, 2)), "named twice"),
        (dict(backend="gpu"), "--backend gpu"),
        (dict(out_format="vcf"), "--out-format vcf"),
        (dict(extra_columns=("z",)), "--cols z"),
        (dict(mem_budget=0.0), "--mem-budget"),
        (dict(n_threads=0), "--threads 0"),
        (dict(chunk_size=0), "--chunk-size 0"),
        (dict(output_prefix="a/b"), "-outdir"),
    ],
)
def test_refused(options, message):
    with pytest.raises(UsageError, match=message):
        RunRequest(bfile="x", **options)


def test_everything_wrong_is_told_at_once():
    with pytest.raises(UsageError) as error:
        RunRequest(bfile="x", loco=True, kinship_file="k", lmm_mode=7, n_threads=0)
    assert len(str(error.value).splitlines()) == 3


def test_backend_variable_wins(monkeypatch):
    monkeypatch.setenv("JAMMA_BACKEND", "numpy")
    assert backend_in_force("numpy-streaming") == "numpy"
    monkeypatch.setenv("JAMMA_BACKEND", "fast")
    with pytest.raises(UsageError, match="JAMMA_BACKEND=fast"):
        backend_in_force("auto")
    monkeypatch.delenv("JAMMA_BACKEND")
    assert backend_in_force("numpy-streaming") == "numpy-streaming"
