"""Variant lists, regions and GEMMA's filters."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from jamma._core.genotypes import count_calls
from jamma.io.plink import PlinkReader
from jamma.lmm.schema import LmmConfig
from jamma.samples import select_samples
from jamma.variants import R2, filter_counts, r2_with_covariates


@pytest.mark.parametrize(
    ("name", "options", "columns", "covariates"),
    [
        ("lmm4", {}, (1,), None),
        ("lmm4_n6", {}, (6,), None),
        ("lmm4_hwe", {"hwe_exact": 0.001}, (1,), None),
        ("lmm4_mafmiss", {"maf": 0.1, "miss": 0.005}, (1,), None),
        ("lmm4_cov", {}, (1,), "covariates.txt"),
        ("lmm4_covna", {}, (1,), "covariates_na.txt"),
    ],
)
def test_same_variants_as_gemma(shared_data, name, options, columns, covariates):
    prefix, reference = shared_data / "mouse_hs1940" / "mouse_hs1940", shared_data / "gemma_reference"
    reader = PlinkReader(prefix)
    people = select_samples(reader.fam, phenotype_columns=columns, covariate_file=covariates and reference / covariates)
    reader = PlinkReader(prefix, people.index, fam=reader.fam, bim=reader.bim)
    basis = np.linalg.qr(people.covariates)[0]
    config = LmmConfig(**options)
    kept = []
    for chunk in reader.chunks(2000):
        reason = filter_counts(count_calls(chunk.calls), config)
        if people.n_cvt > 1:
            left = np.flatnonzero(reason == 0)
            reason[left[r2_with_covariates(chunk.calls[left], basis) > config.r2]] = R2
        kept += [reader.bim.rs[i] for i in chunk.index[reason == 0]]
    with gzip.open(reference / f"{name}.assoc.txt.gz", "rt") as file:
        expected = [line.split("\t")[1] for line in file][1:]
    assert kept == expected
