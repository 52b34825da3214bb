"""Variant lists, regions and GEMMA's filters."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from jamma._core.genotypes import count_calls, pack_calls
from jamma.core.errors import UsageError
from jamma.io.plink import PlinkReader
from jamma.io.tables import read_bim
from jamma.lmm.schema import LmmConfig
from jamma.samples import select_samples
from jamma.variants import (
    R2,
    REASONS,
    allele_frequency,
    count_dosages,
    filter_counts,
    filter_dosages,
    r2_of_calls,
    r2_with_covariates,
    select_variants,
)


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
            reason[left[r2_of_calls(pack_calls(chunk.calls, left), basis) > config.r2]] = R2
        kept += [reader.bim.rs[i] for i in chunk.index[reason == 0]]
    with gzip.open(reference / f"{name}.assoc.txt.gz", "rt") as file:
        expected = [line.split("\t")[1] for line in file][1:]
    assert kept == expected


# --- lists and regions ------------------------------------------------------------------------------------------


@pytest.fixture
def bim(write):
    """Six variants on three chromosomes, interleaved; one ID twice."""
    rows = [("1", "a", 10), ("X", "b", 20), ("1", "c", 30), ("chr2", "a", 40), ("1", "e,f", 50), ("X", ".", 60)]
    return read_bim(write("t.bim", "".join(f"{c}\t{r}\t0\t{ps}\tA\tG\n" for c, r, ps in rows)))


def test_no_selection(bim):
    s = select_variants(bim)
    assert s.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert s.rows.dtype == np.int64
    assert (s.n_dropped, s.notes, s.warnings) == ({}, (), ())


def test_lists(bim, write):
    listed = write("l.txt", "a 1 2\ne,f x\nzz\na\n")
    s = select_variants(bim, snps_file=listed)
    assert s.rows.tolist() == [0, 3, 4]
    assert s.n_dropped == {"not in -snps": 3}
    assert s.notes[0].endswith("l.txt: 3 variant IDs, 3 variants matched")
    assert s.warnings[0].endswith("t.bim (zz)")
    assert "l.txt: 1 of 3 variant IDs not in" in s.warnings[0]
    assert select_variants(bim, ksnps_file=listed).n_dropped == {"not in -ksnps": 3}
    many = write("m.txt", "a b\nc\n")
    assert select_variants(bim, extract=many).rows.tolist() == [0, 1, 2, 3]
    assert select_variants(bim, exclude=many).rows.tolist() == [4, 5]


def test_first_reason_counts(bim, write):
    s = select_variants(
        bim,
        snps_file=write("s.txt", "a\nb\nc\n"),
        exclude=write("x.txt", "a\ne,f\n"),
        chromosomes=["1", "X"],
        region="1:",
    )
    assert s.rows.tolist() == [2]
    assert s.n_dropped == {"not in -snps": 2, "in --exclude": 2, "outside -region": 1}
    assert [REASONS[code] for code in s.reason] == [
        "in --exclude", "outside -region", "kept", "in --exclude", "not in -snps", "not in -snps",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("region", "rows"),
    [
        ("1:", [0, 2, 4]),
        ("1:30", [2]),
        ("1:11-50", [2, 4]),
        ("1:30-", [2, 4]),
        ("1:-30", [0, 2]),
        ("chr2:1-1,000", [3]),
    ],
)
def test_region(bim, region, rows):
    assert select_variants(bim, region=region).rows.tolist() == rows


def test_chromosome_names_with_colons(write):
    bim = read_bim(write("t.bim", "HLA:A a 0 5 A G\nHLA b 0 5 A G\n"))
    assert select_variants(bim, region="HLA:A:1-9").rows.tolist() == [0]


@pytest.mark.parametrize("region", ["10", "", "1", "1:x", "1:5-x", ":5", "1:9-5"])
def test_not_a_region(bim, region):
    with pytest.raises(UsageError, match="-region"):
        select_variants(bim, region=region)


def test_everything_that_matches_nothing_is_told(bim, write, problems):
    told = problems(
        select_variants, bim, snps_file=write("s.txt", "q\nr\n"), extract=write("e.txt", ""), chromosomes=["2", "Y"],
        region="1:60-70",
    )  # fmt: skip
    assert told == [
        "s.txt: none of 2 variant IDs (q, r) is in t.bim, which has IDs such as a, b, c, ...",
        "e.txt: empty, expected a variant ID on each line",
        "chromosome 2: not in t.bim, which has 1, X, chr2",
        "chromosome Y: not in t.bim, which has 1, X, chr2",
        "-region 1:60-70: no variant of t.bim; those of chromosome 1 are at 10 to 50",
    ]
    told = problems(select_variants, bim, snps_file=write("s.txt", "b\n"), chromosomes=["1"])
    assert told == ["t.bim: none of 6 variants is left (5 not in -snps, 1 other chromosome)"]


# --- filters ----------------------------------------------------------------------------------------------------


def reasons(rows, **options):
    return [REASONS[code] for code in filter_counts(np.array(rows, np.int32).reshape(-1, 4), LmmConfig(**options))]


def test_order_and_bounds():
    rows = [
        (95, 0, 0, 5),  # missing 0.05 is kept by that filter
        (90, 4, 0, 6),
        (98, 2, 0, 0),  # frequency 0.01 is kept
        (99, 1, 0, 0),
        (0, 2, 98, 0),  # 0.99, likewise
        (0, 1, 99, 0),
        (0, 100, 0, 0),
        (50, 0, 50, 0),
        (0, 0, 0, 100),
    ]
    assert reasons(rows) == [
        "allele frequency", "missing calls", "kept", "allele frequency", "kept", "allele frequency", "monomorphic",
        "kept", "missing calls",
    ]  # fmt: skip
    assert reasons(rows, notsnp=True) == [
        "monomorphic", "missing calls", "kept", "kept", "kept", "kept", "monomorphic", "kept", "missing calls",
    ]  # fmt: skip
    assert reasons(rows, maf=0, miss=1) == [
        "monomorphic", "kept", "kept", "kept", "kept", "kept", "monomorphic", "kept", "monomorphic",
    ]  # fmt: skip


def test_hwe_filters():
    rows = [(25, 50, 25, 0), (50, 0, 50, 0), (30, 40, 30, 0)]
    assert reasons(rows, hwe=0.04) == ["kept", "Hardy-Weinberg (chi-square)", "kept"]
    assert reasons(rows, hwe=0.05) == ["kept", "Hardy-Weinberg (chi-square)", "Hardy-Weinberg (chi-square)"]
    assert reasons(rows, hwe_exact=0.0468) == ["kept", "Hardy-Weinberg (exact)", "kept"]
    assert reasons(rows, hwe_exact=0.0469) == ["kept", "Hardy-Weinberg (exact)", "Hardy-Weinberg (exact)"]
    assert reasons(rows, hwe=0.5, hwe_exact=0.5, notsnp=True) == ["kept"] * 3
    assert reasons([], hwe=0.5, hwe_exact=0.5) == []


def test_frequency_is_of_allele1_and_not_folded():
    af = allele_frequency(np.array([[1, 0, 9, 5], [0, 0, 0, 3], [4, 0, 0, 0]], np.int32))
    np.testing.assert_array_equal(af, [0.9, np.nan, 0])


def test_dosages_that_are_calls_are_filtered_alike():
    rng = np.random.default_rng(4)
    x = rng.binomial(2, rng.random((300, 1)) * 0.4, (300, 50)).astype(float)
    x[rng.random(x.shape) < 0.04] = np.nan
    x[:3] = [[1.0], [np.nan], [2.0]]
    counts = count_dosages(x)
    for options in ({}, {"hwe": 0.1}, {"hwe_exact": 0.1}, {"notsnp": True}, {"maf": 0, "miss": 1}):
        config = LmmConfig(**options)
        np.testing.assert_array_equal(filter_dosages(x, config), filter_counts(counts, config))


def test_dosages():
    x = np.array([[0.3, 0.3, 0.3], [0.3, 0.3, 0.30001], [0.0, 0.4, 1.4], [0.5, 1.5, 0.2]])
    assert [REASONS[c] for c in filter_dosages(x, LmmConfig())] == ["monomorphic", "kept", "kept", "kept"]
    assert count_dosages(x)[3].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_r2_with_covariates(dtype):
    rng = np.random.default_rng(5)
    calls = rng.choice(np.array([0, 1, 2, -127], np.int8), (700, 30))
    calls[0], calls[1], calls[2] = 0, 2, -127
    x = np.where(calls < 0, np.nan, calls)
    w = np.column_stack([np.full(30, 5.0), rng.standard_normal((30, 2))])
    basis = np.linalg.qr(w)[0]

    def r2_of(rows):
        return r2_of_calls(pack_calls(calls, rows), basis) if dtype is np.int8 else r2_with_covariates(x[rows], basis)

    everyone = np.arange(700)
    r2 = r2_of(everyone)
    assert r2[0] == 0
    assert r2[1] == pytest.approx(1, abs=1e-14)
    for v in range(3, 700):
        xv = np.where(np.isnan(x[v]), np.nanmean(x[v]), x[v])
        assert r2[v] == pytest.approx(xv @ w @ np.linalg.solve(w.T @ w, w.T @ xv) / (xv @ xv), rel=1e-12)
    np.testing.assert_array_equal(r2[3:], np.concatenate([r2_of(everyone[v : v + 1]) for v in range(3, 700)]))
    if dtype is np.float64:
        assert np.isnan(r2[2])
        np.testing.assert_array_equal(r2, r2_with_covariates(x, basis, block=7))
