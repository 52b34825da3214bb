"""Phenotype, covariate and weight files in .fam order: GEMMA's rules, and what is said of files that are wrong."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamma.core.errors import InputError
from jamma.io.columns import read_matrix

NA = np.nan


@pytest.mark.parametrize(
    "content", ["1 NA 3\n4 5 6\n", "1,NA,3\n4,5,6", "1\tNA , 3\r\n 4,,5 ,\t6\r\n\r\n", "1 NA 3\r4 5 6\r"]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_separators(write, content, pack):
    table = read_matrix(write("c.txt", pack(content.encode())), 2, kind="covariate")
    np.testing.assert_array_equal(table.values, [[1, NA, 3], [4, 5, 6]])
    assert table.names == ("covariate 1", "covariate 2", "covariate 3")
    assert table.warnings == ()


def test_some_columns_and_labels(write):
    path = write("c.txt", "1 a 3\n4 NA 6\n7 a .\n")
    table = read_matrix(path, 3, kind="phenotype", columns=[3, 1])
    np.testing.assert_array_equal(table.values, [[3, 1], [6, 4], [NA, 7]])
    table = read_matrix(path, 3, kind="covariate", text_columns=[2])
    np.testing.assert_array_equal(table.values, [[1, NA, 3], [4, NA, 6], [7, NA, NA]])
    assert table.labels == {1: ["a", "", "a"]}


def test_only_labels(write):
    table = read_matrix(write("c.txt", "a\nb\n"), 2, kind="covariate", text_columns=[1])
    assert table.labels == {0: ["a", "b"]}
    assert table.values.shape == (2, 1)


def test_minus_nine_and_foreign_missing_are_told(write):
    table = read_matrix(write("p.txt", "-9\n-9.0\nnan\n.\nNaN\nNA\n1\n"), 7, kind="phenotype")
    np.testing.assert_array_equal(table.values[:, 0], [-9, -9, NA, NA, NA, NA, 1])
    assert [w.split("p.txt: ")[1] for w in table.warnings] == [
        "3 values NaN, nan or '.' taken as missing (GEMMA takes them for nan or 0)",
        "2 values -9 taken as the number -9; write NA if missing is meant",
    ]


def test_everything_wrong_is_told_at_once(write, problems):
    path = write("c.txt", "1 x 3\n1 na 3\n\n1 2\n1 1,5 2\n0,05 1\n1 2 3\n9\n")
    by_id = "--pheno and --covar read tables with a header and IDs"
    assert problems(read_matrix, path, 6, kind="covariate") == [
        "c.txt:1:2: 'x', expected a number or NA; write NA where the value is missing",
        "c.txt:2:2: 'na', expected a number or NA; write NA where the value is missing",
        "c.txt:3: blank line, expected the values of an individual; write NA where they are missing",
        "c.txt:4: 2 columns, expected 3 as in the first row; write NA for missing values",
        "c.txt:5: 4 columns, expected 3 as in the first row; a comma separates columns: write decimal points, "
        "and NA for missing values",
        "c.txt:6: '0,05 1', expected columns between blanks or commas; write decimal points, not commas",
        f"c.txt: 8 rows, expected 6, one for each individual of the .fam, in its order; {by_id}",
    ]


@pytest.mark.parametrize("content", ["0,22\n1,05\n", "1,5\t2,5\n2,5\t3,5\n"])
def test_decimal_commas(write, problems, content):
    assert "write decimal points, not commas" in problems(read_matrix, write("p.txt", content), 2, kind="phenotype")[0]


def test_possible_decimal_commas_get_a_warning(write):
    table = read_matrix(write("p.txt", "1,5\n2,7\n"), 2, kind="phenotype")
    assert table.values.tolist() == [[1, 5], [2, 7]]
    assert "two whole numbers with a comma between on every row are read as two columns" in table.warnings[0]


@pytest.mark.parametrize("pack", ["age sex\n", "IID,age\n"])
def test_header(write, problems, pack):
    assert "a header (" in problems(read_matrix, write("c.txt", pack + "1 2\n3 4\n"), 2, kind="covariate")[0]
    assert problems(read_matrix, write("c.txt", pack + "1 2\n"), 2, kind="covariate")[0].startswith("c.txt:1:1: '")


def test_header_above_labels(write, problems):
    path = write("c.txt", "1 sex\n1 m\n1 f\n")
    assert "3 rows, expected 2" in problems(read_matrix, path, 2, kind="covariate", text_columns=[2])[0]
    path = write("c.txt", "sex\nm\nf\n")
    assert "a header (sex)" in problems(read_matrix, path, 2, kind="covariate", text_columns=[1])[0]


def test_number_of_rows(write, problems):
    for content, n in (("1\n" * 3, "3 rows"), ("1\n", "1 row"), ("", "0 rows")):
        assert problems(read_matrix, write("w.txt", content), 2, kind="weight")[0].startswith(f"w.txt: {n}, expected 2")


def test_columns_that_are_not_there(write, problems):
    path = write("p.txt", "1 2\n")
    assert problems(read_matrix, path, 1, kind="phenotype", columns=[3, 0, 1, 1]) == [
        "p.txt: phenotype column 3 was asked for, the file has 2 phenotype columns; columns are numbered from 1",
        "p.txt: phenotype column 0 was asked for, the file has 2 phenotype columns; columns are numbered from 1",
        "p.txt: phenotype column 1 was asked for 2 times; name each column once",
    ]
    assert "covariate column 4" in problems(read_matrix, path, 1, kind="covariate", text_columns=[4])[0]


def test_transposed(write, problems):
    assert problems(read_matrix, write("c.txt", "1 " * 1940 + "\n" + "2 " * 1940), 2, kind="covariate") == [
        "c.txt:1: 1,940 columns, expected fewer than the 2 individuals; is the table transposed, or a matrix?"
    ]


TOKENS = st.sampled_from(["1", "-9", "NA", "nan", "x", "1,5", "0,05", "", "1e999", '"', "é", "1_0"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(TOKENS, max_size=4), max_size=8),
    separator=st.sampled_from([" ", "\t", ",", ", "]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    n=st.integers(1, 8),
    labels=st.lists(st.integers(1, 4), max_size=2, unique=True),
)
def test_any_table(tmp_path, rows, separator, end, n, labels):
    path = tmp_path / "t.txt"
    path.write_bytes(end.join(separator.join(row) for row in rows).encode())
    try:
        table = read_matrix(path, n, kind="covariate", text_columns=labels)
    except InputError as error:
        found = error.problems
    else:
        found = ("none",)
        assert table.values.shape == (n, len(table.names))
        assert not np.isinf(table.values).any()
        assert all(len(tokens) == n for tokens in table.labels.values())
    assert 0 < len(found) <= 21
