"""Who is analysed."""

from __future__ import annotations

import numpy as np
import pytest

from jamma.core.errors import UsageError
from jamma.io.tables import read_fam
from jamma.samples import select_samples

FAM = (
    "f1 a 0 0 1 1.5 NA\nf2 b 0 0 1 NA 1\nf3 c 0 0 1 2.5 2\nf4 d 0 0 1 0.5 3\n"
    "f5 e 0 0 1 -9 4\nf6 f 0 0 1 4 5\nf7 g 0 0 1 3 7\nf8 h 0 0 1 2.0 9\n"
)


@pytest.fixture
def fam(write):
    return read_fam(write("t.fam", FAM))


def test_phenotype_columns(fam):
    s = select_samples(fam)
    assert s.index.tolist() == [0, 2, 3, 5, 6, 7]
    assert s.index.dtype == np.int64
    assert s.mask.tolist() == [True, False, True, True, False, True, True, True]
    assert s.iid == ["a", "c", "d", "f", "g", "h"]
    assert s.phenotypes.tolist() == [[1.5], [2.5], [0.5], [4], [3], [2]]
    assert s.covariates.tolist() == [[1]] * 6
    assert (s.n_samples, s.n_total, s.n_cvt, s.excluded) == (6, 8, 1, {"phenotype missing": 2})
    assert (s.weights, s.notes, s.warnings, s.phenotype_names) == (None, (), (), ("1",))
    both = select_samples(fam, phenotype_columns=(2, 1))
    assert both.iid == ["c", "d", "f", "g", "h"]
    assert both.phenotypes[0].tolist() == [2, 2.5]
    assert both.excluded == {"phenotype missing": 3}


def test_everything_together(fam, write):
    s = select_samples(
        fam,
        phenotype_file=write("p.txt", "1\n2\n-9\n4\n7\nNA\n7\n2\n"),
        covariate_file=write("c.txt", "1 5\n1 6\n1 5\n1 7\nNA 3\n1 7\n1 6\n1 5\n"),
        categorical=(2,),
        weights_file=write("w.txt", "1\n2\n.5\n1\n1\n1\nNA\n3\n"),
        remove=write("r.txt", "b\n"),
    )
    assert s.excluded == {"in --remove": 1, "phenotype missing": 1, "covariate missing": 1, "weight missing": 1}
    assert s.iid == ["a", "c", "d", "h"]
    assert s.phenotypes.ravel().tolist() == [1, -9, 4, 2]
    assert s.weights.tolist() == [1, 0.5, 1, 3]
    assert s.covariate_names == ("covariate 1", "covariate 2=7")
    assert s.covariates.tolist() == [[1, 0], [1, 0], [1, 1], [1, 0]]
    assert "covariate 2 is categorical: 2 levels 5, 7; 5 is the reference" in s.notes
    assert s.warnings[0].endswith("p.txt: 1 value -9 taken as the number -9; write NA if missing is meant")


def test_keep_and_remove(fam, write):
    keep = write("k.txt", "a\nb\nc\nd\nf\nnobody\n")
    s = select_samples(fam, keep=keep, remove=write("r.txt", "f4 d\n"))
    assert s.iid == ["a", "c", "f"]
    assert s.excluded == {"not in --keep": 3, "in --remove": 1, "phenotype missing": 1}
    assert s.warnings[0].endswith("k.txt: 1 of 6 lines name no individual (nobody)")


def test_tables_by_id(fam, write):
    table = write("t.tsv", "IID\tsex\tbmi\tage\n" + "".join(f"{i}\t{'mf'[k % 2]}\t{k}\t{k * k}\n" for k, i in
                                                            enumerate("hgfedcb")))  # fmt: skip
    s = select_samples(
        fam, pheno_table=table, pheno_names=["bmi"], covar_table=table, covar_names=["age", "sex"], categorical=["sex"]
    )
    assert s.iid == list("bcdefgh")
    assert s.phenotypes.ravel().tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert s.covariate_names == ("age", "sex=m", "intercept")
    assert s.phenotype_names == ("bmi",)
    assert s.excluded == {"phenotype missing": 1}


def test_no_phenotype_for_kinship(write, problems):
    for content in ("f a 0 0 1 -9\nf b 0 0 1 NA\n", "f a 0 0 1\nf b 0 0 1\n"):
        fam = read_fam(write("n.fam", content))
        s = select_samples(fam, phenotype_required=False)
        assert s.iid == ["a", "b"]
        assert s.notes == ("no individual has a phenotype: all individuals are used",)
    fam = read_fam(write("n.fam", "f a 0 0 1 -9\nf b 0 0 1 NA\n"))
    assert problems(select_samples, fam) == ["n.fam: none of 2 individuals is left (2 phenotype missing)"]


def test_kinship_needs_no_fit(write):
    fam = read_fam(write("n.fam", "f a 0 0 1 1\nf b 0 0 1 NA\n"))
    s = select_samples(fam, phenotype_required=False)
    assert (s.iid, s.excluded) == (["a"], {"phenotype missing": 1})


def test_all_files_are_reported_together(fam, write, problems):
    told = problems(
        select_samples,
        fam,
        phenotype_columns=(9,),
        covariate_file=write("c.txt", "x\n" * 8),
        weights_file=write("w.txt", "1\n0\n-2\n1\n1\n1\n1\n1\n"),
        keep=write("k.txt", "nobody\n"),
        remove=write("r.txt", "") ,
    )  # fmt: skip
    assert [line.split(",")[0] for line in told] == [
        "t.fam: phenotype column 9 was asked for",
        *(f"c.txt:{k}:1: 'x'" for k in (2, 3, 4, 5, 6, 7, 8, 1)),
        "w.txt:2:1: 0",
        "w.txt:3:1: -2",
        "k.txt: 1 line",
        "r.txt: empty",
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([2] * 4, "2 for all 4 analysed individuals (all are cases, coded 2); nothing can be tested"),
        (
            [1] * 4,
            "1 for all 4 analysed individuals (all are controls coded 1, or cases coded 1); nothing can be tested",
        ),
        ([0.25] * 4, "0.25 for all 4 analysed individuals; nothing can be tested"),
    ],
)
def test_constant_phenotype(write, problems, values, said):
    fam = read_fam(write("t.fam", "".join(f"f i{k} 0 0 1 {v}\n" for k, v in enumerate([*values, "NA"]))))
    assert problems(select_samples, fam) == [f"phenotype 1: {said}"]


def test_too_few_individuals(write, problems):
    fam = read_fam(write("t.fam", "f a 0 0 1 1\nf b 0 0 1 2\nf c 0 0 1 NA\n"))
    assert problems(select_samples, fam) == [
        "2 individuals analysed, expected at least 3 for 1 covariate (intercept), a variant and the error variance"
    ]


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_phenotype_in_the_span_of_the_covariates(write, problems, scale):
    y = scale * np.array([1.0, 2, 4, 8, 3])
    fam = read_fam(write("t.fam", "".join(f"f i{k} 0 0 1 {v!r}\n" for k, v in enumerate(y.tolist()))))
    covariates = write("c.txt", "".join(f"{v!r}\n" for v in (y / scale).tolist()))
    assert problems(select_samples, fam, covariate_file=covariates) == [
        "phenotype 1: a linear combination of the covariates (covariate 1, intercept)"
    ]


def test_plink_coding_of_missing_gets_a_warning(write):
    fam = read_fam(write("t.fam", "".join(f"f i{k} 0 0 1 {k % 3}\n" for k in range(9))))
    assert select_samples(fam).warnings == (
        "phenotype 1: 0, 1 and 2 taken as numbers (3 zeros); write NA if 0 means missing, as in PLINK's case-control "
        "coding",
    )


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"phenotype_file": "p", "pheno_table": "q"}, "-p and --pheno"),
        ({"covariate_file": "p", "covar_table": "q"}, "-c and --covar"),
        ({"pheno_names": ["x"]}, "--pheno-name"),
        ({"covar_names": ["x"]}, "--covar-name"),
        ({"categorical": [1]}, "-cat"),
    ],
)
def test_contradictions(fam, sources, said):
    with pytest.raises(UsageError, match=said):
        select_samples(fam, **sources)


def test_name_where_there_is_no_header(fam, write, problems):
    covariates = write("c.txt", "1\n" * 8)
    assert problems(select_samples, fam, covariate_file=covariates, categorical=["sex"]) == [
        "c.txt: -cat sex, expected the number of a column (there is no header)"
    ]


def test_reference_data(shared_data):
    fam = read_fam(shared_data / "mouse_hs1940" / "mouse_hs1940.fam")
    assert (fam.n_samples, fam.n_phenotypes, fam.warnings) == (1940, 6, ())
    folder = shared_data / "gemma_reference"
    for sources, n in (
        ({}, 1410),
        ({"covariate_file": folder / "covariates_na.txt"}, 1368),
        ({"weights_file": folder / "weights.txt"}, 1410),
    ):
        assert select_samples(fam, **sources).n_samples == n
