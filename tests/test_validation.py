"""Null model, log, kinship and eigen files against GEMMA 0.98.5."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gemma import DATA, options, read_log, read_matrix
from test_validation_assoc import ASSOCIATIONS, run

SUMMARY = [
    "number of total individuals",
    "number of analyzed individuals",
    "number of covariates",
    "number of phenotypes",
    "number of total SNPs/var",
    "number of analyzed SNPs/var",
]
# name: tolerance; GEMMA's null lambda is as far off as the others.
NULL_MODEL = {
    "REMLE log-likelihood in the null model": 2e-6,
    "MLE log-likelihood in the null model": 2e-6,
    "pve estimate in the null model": 2e-5,
    "se(pve) in the null model": 1e-4,
    "vg estimate in the null model": 2e-5,
    "ve estimate in the null model": 2e-5,
    "beta estimate in the null model": 1e-4,
    "se(beta)": 1e-4,
}


@pytest.mark.parametrize("name", ASSOCIATIONS)
def test_log(name, tmp_path):
    run(options(name), tmp_path, name)
    mine, gemma = read_log(tmp_path / f"{name}.log.txt"), read_log(DATA / f"{name}.log.txt")
    for line in SUMMARY:
        assert mine[line] == gemma[line], line
    for line, tolerance in NULL_MODEL.items():
        np.testing.assert_allclose(mine[line], gemma[line], rtol=tolerance, atol=1e-6, err_msg=line)
    record = json.loads((tmp_path / f"{name}.log.json").read_text())
    assert record["n_analyzed"] == gemma["number of analyzed individuals"][0]
    assert record["n_variants_total"] - sum(record["filtered"].values()) == record["n_variants_analyzed"]
    assert record["n_total"] - sum(record["excluded"].values()) == record["n_analyzed"]


def test_legacy_text_kinship_is_gemmas(tmp_path):
    with pytest.raises(SystemExit) as end:
        from jamma.cli import main

        main([*options("gk1"), "-o", "k", "-outdir", str(tmp_path), "--legacy-text"])
    assert end.value.code == 0
    lines = (tmp_path / "k.cXX.txt").read_text().splitlines()
    expected = read_matrix(DATA / "gk1.cXX.txt.gz")
    assert len(lines) == len(expected)
    assert all(len(line.split("\t")) == len(expected) and not line.endswith("\t") for line in lines)
    np.testing.assert_allclose(np.loadtxt(lines), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_eigen_files(tmp_path):
    run([*options("eigen"), "--legacy-text"], tmp_path, "eigen")
    values, vectors = np.loadtxt(tmp_path / "eigen.eigenD.txt"), np.loadtxt(tmp_path / "eigen.eigenU.txt")
    expected = read_matrix(DATA / "eigen.eigenD.txt.gz")[:, 0]
    np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-9)
    theirs = read_matrix(DATA / "eigen.eigenU.txt.gz")
    # Eigenvectors are defined up to sign, within an eigenspace up to a rotation: compare what they decompose.
    np.testing.assert_allclose((vectors * values) @ vectors.T, (theirs * expected) @ theirs.T, atol=1e-7)
