"""Whole runs through `jamma.gwas`: the analyses, that they agree with each other, and what they leave behind."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
from pathlib import Path

import numpy as np
import pytest
from gemma import DATA, assert_close

from jamma import gwas
from jamma.config import RunRequest
from jamma.core.errors import InputError, UsageError

COHORT = DATA / "cohort"
CENTRED = DATA / "gk1.cXX.txt.gz"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`gwas` on the small cohort, all outputs below tmp_path, under a name."""
    monkeypatch.setenv("JAMMA_NO_TELEMETRY", "1")

    def call(name: str, **options):
        return gwas(options.pop("bfile", COHORT), output_dir=tmp_path, output_prefix=name, **options)

    return call


def content(result) -> bytes:
    return result.assoc_path.read_bytes()


def test_result(run):
    result = run("x", kinship_file=CENTRED, lmm_mode=4)
    assert (result.n_samples, result.n_snps_tested) == (115, len(result.associations()))
    assert sum(result.n_filtered.values()) + result.n_snps_tested == 600
    for phase in ("total_s", "load_s", "eigendecomp_s", "rotation_s", "lmm_s"):
        assert result.timing[phase] >= 0
    assert 0 < result.pve_estimate < 1
    assert result.pve_se > 0
    assert result.vg > 0
    assert result.lambda_null == pytest.approx(result.vg / result.ve)
    rows = result.associations()
    assert rows.dtype.names[:7] == ("chr", "rs", "ps", "n_miss", "allele1", "allele0", "af")
    assert np.isfinite(rows["p_wald"]).all()
    with pytest.raises(AttributeError):
        result.n_samples = 1


def test_arguments_are_the_fields_of_a_request():
    """The same names and defaults; the command itself is no argument, and two names are for convenience."""
    parameters = inspect.signature(gwas).parameters
    defaults = {f.name: f.default for f in dataclasses.fields(RunRequest) if f.name not in ("command", "bfile")}
    defaults |= {"phenotype_column": None, "phenotype_columns": None, "save_kinship": False}
    assert {name: p.default for name, p in parameters.items() if name != "bfile"} == defaults


def test_unknown_argument_is_named():
    with pytest.raises(TypeError, match="covariates_file"):
        gwas(COHORT, covariates_file="x")


def test_gwas_ssf_says_what_was_analysed(run, tmp_path):
    """Trait, covariates and cases in its metadata; what the format does not hold is a warning of the run."""
    yaml = pytest.importorskip("yaml")
    bim = [line.split("\t") for line in Path(f"{COHORT}.bim").read_text().splitlines()]
    for row in bim[-30:]:
        row[0] = "scaffold_1"
    for ending in (".bed", ".fam"):
        shutil.copy(f"{COHORT}{ending}", tmp_path / f"s{ending}")
    (tmp_path / "s.bim").write_text("".join("\t".join(row) + "\n" for row in bim))
    fam = Path(f"{COHORT}.fam").read_text().splitlines()
    table = ["IID case", *(f"{line.split()[1]} {k % 3 == 0:d}" for k, line in enumerate(fam))]
    (tmp_path / "cases.txt").write_text("\n".join(table) + "\n")
    options = {"bfile": tmp_path / "s", "kinship_file": CENTRED, "out_format": "gwas-ssf"}
    result = run("a", covariate_file=DATA / "covariates.txt", **options)
    meta = yaml.safe_load(Path(f"{result.assoc_path}-meta.yaml").read_text())
    assert meta["trait_description"] == ["phenotype 1"]
    assert meta["adjusted_covariates"] == ["covariate 2", "covariate 3", "covariate 4"]
    assert meta["samples"][0]["sample_size"] == result.n_samples
    assert not meta["samples"][0]["case_control_study"]
    assert any("GWAS-SSF has no number for" in text for text in result.warnings)
    result = run("b", pheno_table=tmp_path / "cases.txt", pheno_names=("case",), **options)
    meta = yaml.safe_load(Path(f"{result.assoc_path}-meta.yaml").read_text())
    assert meta["trait_description"] == ["case"]
    assert "adjusted_covariates" not in meta
    assert meta["samples"][0] == {
        "sample_ancestry_category": ["NR"], "sample_size": 120, "case_control_study": True, "case_count": 40,
        "control_count": 80,
    }  # fmt: skip


# --- LOCO ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chromosome", ["1", "X"])
def test_loco_kinship_serves_gemmas_loco_by_hand(run, tmp_path, chromosome):
    """GEMMA's K covers all samples, ours of -loco the analysed ones; -gk 1 -loco writes GEMMA's."""
    run("k", loco=True, kinship_mode=1, lmm_mode=None)
    kinship = tmp_path / f"k.loco.{chromosome}.cXX.npy"
    result = run("x", kinship_file=kinship, snps_file=DATA / f"chr{chromosome}.txt", lmm_mode=4)
    assert_close(result.assoc_path, DATA / f"lmm4_loco{chromosome}.assoc.txt.gz")


def test_loco_is_the_kinship_of_the_other_chromosomes(run, tmp_path):
    """Each chromosome's rows are those of an ordinary run with K of the others."""
    loco = run("loco", loco=True).associations()
    bim = [line.split() for line in (DATA / "cohort.bim").read_text().splitlines()]
    (tmp_path / "others.txt").write_text("".join(f"{b[1]}\n" for b in bim if b[0] != "2"))
    (tmp_path / "two.txt").write_text("".join(f"{b[1]}\n" for b in bim if b[0] == "2"))
    two = run("two", ksnps_file=tmp_path / "others.txt", snps_file=tmp_path / "two.txt").associations()
    mine = loco[loco["chr"] == "2"]
    assert list(mine["rs"]) == list(two["rs"])
    for column in ("beta", "se", "logl_H1", "l_remle", "p_wald"):
        np.testing.assert_allclose(mine[column], two[column], rtol=1e-6, atol=0)


def test_loco_workers_do_not_matter(run, monkeypatch):
    one = content(run("one", loco=True))
    monkeypatch.setenv("JAMMA_LOCO_WORKERS", "3")
    assert content(run("three", loco=True)) == one
    monkeypatch.setenv("JAMMA_LOCO_WORKERS", "zero")
    with pytest.raises(UsageError, match="JAMMA_LOCO_WORKERS=zero"):
        run("bad", loco=True)


def interleaved(folder) -> None:
    """The cohort with its variants in another order, chromosomes mixed, one with a strange name."""
    from bed_reader import open_bed, to_bed

    bim = [line.split() for line in (DATA / "cohort.bim").read_text().splitlines()]
    order = np.random.default_rng(1).permutation(len(bim))
    calls = open_bed(DATA / "cohort.bed").read(dtype="int8")[:, order]
    to_bed(folder / "mixed.bed", calls)
    rows = [[{"X": "chr/X .."}.get(bim[k][0], bim[k][0]).replace(" ", "_"), *bim[k][1:]] for k in order]
    (folder / "mixed.bim").write_text("".join("\t".join(r) + "\n" for r in rows))
    shutil.copy(DATA / "cohort.fam", folder / "mixed.fam")


def test_interleaved_chromosomes_of_any_name(run, tmp_path):
    interleaved(tmp_path)
    mixed = run("mixed", bfile=tmp_path / "mixed", loco=True).associations()
    plain = run("plain", loco=True).associations()
    names = [line.split()[1] for line in (tmp_path / "mixed.bim").read_text().splitlines()]
    tested = set(plain["rs"])
    assert list(mixed["rs"]) == [name for name in names if name in tested]
    by_name = {r["rs"]: r for r in plain}
    for row in mixed:
        assert row["p_wald"] == pytest.approx(by_name[row["rs"]]["p_wald"], rel=1e-5)


def test_loco_kinship_files(run, tmp_path):
    result = run("k", loco=True, kinship_mode=1, lmm_mode=None)
    assert (tmp_path / "k.loco.X.cXX.npy") in result.kinship_paths
    expected = run("others", lmm_mode=None, kinship_mode=1, ksnps_file=DATA / "not_chrX.txt")
    np.testing.assert_allclose(
        np.load(tmp_path / "k.loco.X.cXX.npy"), np.load(expected.kinship_path), rtol=0, atol=1e-12
    )


def test_eigen_dir_is_reused_and_checked(run, tmp_path):
    first = run("first", loco=True, write_eigen=True, eigen_dir=tmp_path / "eigen")
    assert first.eigen_paths
    again = run("again", loco=True, eigen_dir=tmp_path / "eigen")
    assert content(again) == content(first)
    assert "kinship_s" not in again.timing
    other = run("other", loco=True, eigen_dir=tmp_path / "eigen", phenotype_column=2)
    assert any("other samples" in w for w in other.warnings)
    assert content(other) == content(run("fresh", loco=True, phenotype_column=2))


def test_loco_resumes(run, tmp_path, monkeypatch):
    import jamma.loco

    whole = content(run("whole", loco=True))
    done = []
    one = jamma.loco._one_chromosome

    def stop_at_third(*arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(arguments[1])
        one(*arguments)

    monkeypatch.setattr(jamma.loco, "_one_chromosome", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        run("x", loco=True)
    assert not (tmp_path / "x.assoc.txt").exists()
    monkeypatch.setattr(jamma.loco, "_one_chromosome", lambda *a: (done.append(a[1]), one(*a)))
    result = run("x", loco=True, resume=True)
    assert content(result) == whole
    assert len(done) == len(set(done))
    assert not (tmp_path / "x.loco_parts").exists()


def test_loco_needs_two_chromosomes(run, tmp_path):
    with pytest.raises(InputError, match="one chromosome"):
        run("x", loco=True, ksnps_file=DATA / "chr1.txt")
    assert list(tmp_path.iterdir()) == []


# --- phenotypes, eigen files, kinship ---------------------------------------------------------------------------------


def test_several_phenotypes_share_their_samples(run, tmp_path):
    both = run("both", kinship_file=CENTRED, phenotype_columns=(1, 2), lmm_mode=4)
    assert [p.name for p in both.assoc_paths] == ["both.pheno1.assoc.txt", "both.pheno2.assoc.txt"]
    fam = [line.split() for line in (DATA / "cohort.fam").read_text().splitlines()]
    (tmp_path / "keep.txt").write_text("".join(f"{f[0]} {f[1]}\n" for f in fam if not {"NA", "-9"} & set(f[5:7])))
    for column in (1, 2):
        alone = run("alone", kinship_file=CENTRED, phenotype_column=column, lmm_mode=4, keep_file=tmp_path / "keep.txt")
        assert both.assoc_paths[column - 1].read_bytes() == content(alone)


@pytest.mark.parametrize("text", [False, True])
def test_eigen_files_give_the_same_bytes(run, tmp_path, text):
    first = run("first", kinship_file=CENTRED, write_eigen=True, legacy_text=text, lmm_mode=4)
    ending = "txt" if text else "npy"
    again = run(
        "again", eigenvalue_file=tmp_path / f"first.eigenD.{ending}",
        eigenvector_file=tmp_path / f"first.eigenU.{ending}", lmm_mode=4,
    )  # fmt: skip
    assert content(again) == content(first)


def test_eigen_files_of_other_samples_are_refused(run, tmp_path):
    run("first", kinship_file=CENTRED, write_eigen=True)
    with pytest.raises(InputError):
        run(
            "again", eigenvalue_file=tmp_path / "first.eigenD.npy", eigenvector_file=tmp_path / "first.eigenU.npy",
            phenotype_column=2,
        )  # fmt: skip


def test_kinship_in_the_same_command(run, tmp_path):
    with_gk = run("k", save_kinship=True)
    assert with_gk.kinship_path == tmp_path / "k.cXX.npy"
    assert np.load(with_gk.kinship_path).shape == (115, 115)
    assert content(run("none")) == content(with_gk)
    assert content(run("read", kinship_file=with_gk.kinship_path)) == content(with_gk)


def test_kinship_of_all_samples_serves_a_subset_and_order_is_put_right(run, tmp_path):
    whole = run("whole", lmm_mode=None, kinship_mode=1).kinship_path
    expected = content(run("plain", kinship_file=whole))
    order = np.random.default_rng(1).permutation(120)
    np.save(tmp_path / "mixed.cXX.npy", np.load(whole)[np.ix_(order, order)])
    lines = (tmp_path / "whole.cXX.id.txt").read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    body = [line for line in lines if not line.startswith("#")]
    (tmp_path / "mixed.cXX.id.txt").write_text("\n".join([*head, *(body[k] for k in order)]) + "\n")
    assert content(run("mixed", kinship_file=tmp_path / "mixed.cXX.npy")) == expected


# --- what must not matter -----------------------------------------------------------------------------------------


@pytest.fixture
def eigen(run, tmp_path):
    """Options that read one decomposition, whose last bits would depend on the BLAS's threads."""
    run("eigen", kinship_file=CENTRED, write_eigen=True)
    return {"eigenvalue_file": tmp_path / "eigen.eigenD.npy", "eigenvector_file": tmp_path / "eigen.eigenU.npy"}


@pytest.mark.parametrize("mode", [1, 4])
def test_threads_chunks_and_backends_do_not_matter(run, eigen, mode):
    expected = content(run("x", **eigen, lmm_mode=mode))
    for options in (
        {"n_threads": 1},
        {"n_threads": 2},
        {"n_threads": 8},
        {"chunk_size": 1},
        {"chunk_size": 7},
        {"chunk_size": 1000},
        {"backend": "numpy"},
        {"backend": "numpy-streaming"},
        {"backend": "numpy", "chunk_size": 7, "n_threads": 2},
    ):
        assert content(run("y", **eigen, lmm_mode=mode, **options)) == expected, options


def test_covariates_chunks(run, eigen):
    options = {"covariate_file": DATA / "covariates.txt", "r2": 0.7, "lmm_mode": 4}
    expected = content(run("x", kinship_file=CENTRED, **options))
    assert content(run("y", kinship_file=CENTRED, chunk_size=13, **options)) == expected


def shifted_fam(folder, scale: float, shift: float) -> None:
    for ending in ("bed", "bim"):
        shutil.copy(DATA / f"cohort.{ending}", folder / f"other.{ending}")
    lines = []
    for line in (DATA / "cohort.fam").read_text().splitlines():
        f = line.split()
        lines.append(" ".join([*f[:5], f[5] if f[5] == "NA" else repr(float(f[5]) * scale + shift)]))
    (folder / "other.fam").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("scale", "shift", "tolerance"), [(1.0, 1e8, 1e-5), (1e-12, 0.0, 1e-9), (1e12, 0.0, 1e-9)])
def test_units_of_the_phenotype_do_not_matter(run, tmp_path, scale, shift, tolerance):
    shifted_fam(tmp_path, scale, shift)
    plain = run("x", kinship_file=CENTRED, lmm_mode=4).associations()
    other = run("y", bfile=tmp_path / "other", kinship_file=CENTRED, lmm_mode=4).associations()
    for column in ("l_remle", "l_mle", "p_wald", "p_lrt", "p_score"):
        np.testing.assert_allclose(other[column], plain[column], rtol=max(tolerance, 2e-6))
    np.testing.assert_allclose(other["beta"] / scale, plain["beta"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(other["se"] / scale, plain["se"], rtol=max(tolerance, 2e-6))


def test_nothing_is_left_after_an_error(run, tmp_path, monkeypatch):
    import jamma.io.writers

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jamma.io.writers.AssocWriter, "write", full)
    with pytest.raises(OSError, match="No space left"):
        run("x", kinship_file=CENTRED)
    assert list(tmp_path.iterdir()) == []
