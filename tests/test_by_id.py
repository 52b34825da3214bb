"""Lists of individuals, and tables with a header, matched to the .fam by ID."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamma.core.errors import InputError
from jamma.io.by_id import match_individuals, read_table_by_id
from jamma.io.tables import read_fam

NA = np.nan


@pytest.fixture
def fam(write):
    """Four individuals, two of which share an IID."""
    return read_fam(write("t.fam", "f1 a 0 0 1 1\nf1 b 0 0 1 1\nf2 c 0 0 1 1\nf3 c 0 0 1 1\n"))


# --- lists ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "mask"),
    [
        ("f1 a\nf3\tc extra\n", [1, 0, 0, 1]),
        ("a\r\nc\r\n\r\n", [1, 0, 1, 1]),
        ("#FID IID\nf1 b\n", [0, 1, 0, 0]),
        ("#IID\nb\n", [0, 1, 0, 0]),
        ("b\nf2 c\n", [0, 1, 1, 0]),
    ],
)
def test_list_of_individuals(write, fam, content, mask):
    found, warnings = match_individuals(write("keep.txt", content), fam)
    assert found.tolist() == [bool(m) for m in mask]
    assert warnings == []


def test_list_that_names_strangers(write, fam, problems):
    path = write("keep.txt", "f1 a\nf1 x\ny\nf2 a\nz\n")
    assert [w.split("keep.txt: ")[1] for w in match_individuals(path, fam)[1]] == [
        "4 of 5 lines name no individual (f1 x, y, f2 a, ...)"
    ]
    assert problems(match_individuals, write("keep.txt", "x\nf9 a\n"), fam) == [
        "keep.txt: 2 lines, none names an individual (x, f9 a); expected FID and IID, or IID, of t.fam, such as f1 a"
    ]
    assert problems(match_individuals, write("keep.txt", "\n"), fam)[0].startswith("keep.txt: empty, expected FID")


# --- tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "FID\tIID\tage\tsite\nf3\tc\t4\tx\nf1\ta\t1\ty\nf2\tc\t\tz\n",
        "site,IID,age,FID\nx,c,4,f3\r\ny,a,1,f1\r\nz,c,NA,f2\r\n\r\n",
        '#FID IID  age "site"\nf3 c 4   x\n"f1" "a" 1 y\nf2 c nan z\n',
    ],
)
def test_table_by_both_ids(write, fam, content):
    path = write("t.tsv", content)
    table = read_table_by_id(path, fam, ["age"], option="--covar")
    np.testing.assert_array_equal(table.values[:, 0], [1, NA, NA, 4])
    assert table.names == ("age",)
    assert table.notes[0].endswith("t.tsv: 3 of 4 individuals matched by FID and IID")
    assert [w.split("t.tsv: ")[1] for w in table.warnings] == ["1 individual of the .fam not in the table (f1 b)"]
    table = read_table_by_id(path, fam, ["site", "age"], option="--covar", text_columns=["site"])
    assert table.labels == {0: ["y", "", "z", "x"]}
    np.testing.assert_array_equal(table.values[:, 1], [1, NA, NA, 4])


def test_table_by_iid_with_spaces_in_ids(write):
    fam = read_fam(write("t.fam", "0\tJ Doe\t0\t0\t1\t1\n0\tA Roe\t0\t0\t1\t1\n"))
    table = read_table_by_id(write("t.csv", 'IID,x\n"A Roe",2\nJ Doe,1\nN Obody,3\n'), fam, option="--pheno")
    assert table.values.tolist() == [[1], [2]]
    assert table.warnings[0].endswith("t.csv: 1 of 3 rows of the table not in the .fam (N Obody)")


def test_columns_by_number(write, fam):
    path = write("t.txt", "y1 IID FID y2\n1 a f1 2\n")
    assert read_table_by_id(path, fam, option="--pheno", columns=[2]).names == ("y2",)
    assert read_table_by_id(path, fam, option="--covar").names == ("y1", "y2")
    labels = read_table_by_id(path, fam, option="--covar", text_columns=[2]).labels
    assert labels == {1: ["2", "", "", ""]}


def test_minus_nine(write, fam):
    path = write("t.txt", "FID IID y\nf1 a -9\nf1 b -9.0\nf2 c 1\n")
    missing = read_table_by_id(path, fam, option="--pheno", minus_nine_missing=True)
    np.testing.assert_array_equal(missing.values[:, 0], [NA, NA, 1, NA])
    number = read_table_by_id(path, fam, option="--covar")
    np.testing.assert_array_equal(number.values[:, 0], [-9, -9, 1, NA])
    assert number.warnings[-1].endswith("t.txt: 2 values -9 taken as the number -9; write NA if missing is meant")


def test_header_problems(write, fam, problems):
    def told(content, names=(), **options):
        return problems(read_table_by_id, write("t.txt", content), fam, names, option="--covar", **options)

    assert told("a b\nf1 1\n") == [
        "t.txt:1: 'a b', expected a header with IID, or FID and IID, and the names of the columns"
    ]
    assert told("IID;age\na;1\n")[0].endswith("separated by tabs, commas or spaces, not semicolons")
    assert told("") == ["t.txt:1: '', expected a header with IID, or FID and IID, and the names of the columns"]
    assert told("FID IID\nf1 a\n") == ["t.txt:1: no column but the IDs, expected at least one"]
    assert told("IID IID x\na b 1\n") == ["t.txt:1: 2 columns named IID, expected one"]
    assert told("IID age x x\na 1 1 1\n", ["agee", "x", "weight"]) == [
        "t.txt:1: no column 'agee' (--covar-name); did you mean 'age'?",
        "t.txt:1: 2 columns named 'x' (--covar-name), expected one",
        "t.txt:1: no column 'weight' (--covar-name); it has age, x, x",
    ]
    assert told("IID " + "x " * 1001 + "\n") == [
        "t.txt:1: 1,001 columns, expected at most 1,000; name those that you want by --covar-name"
    ]
    assert told("IID x y\na 1 1\n", columns=[3]) == ["t.txt:1: column 3 was asked for, the table has 2 (x, y)"]
    assert told("IID x y\na 1 1\n", text_columns=["z"]) == [
        "t.txt:1: -cat z: no such column is read; expected 1 to 2, or x, y"
    ]


def test_row_problems_all_told(write, fam, problems):
    path = write("t.txt", "IID\tx\na\t1\na\t2\nb\tfoo\nc\t1\na\nnobody\tbar\nb\t1,5\n")
    assert problems(read_table_by_id, path, fam, option="--covar") == [
        "t.txt:3: 'a', expected one row for each individual, but row 2 is of the same; delete one",
        "t.txt:4:2: 'foo', expected a number or NA; write NA where the value is missing",
        "t.txt:5: 'c', expected an ID of one individual, but rows 3 and 4 of t.fam have it; "
        "give FID and IID in the table",
        "t.txt:6: 1 field, expected 2 as in the header; write NA for missing values",
        "t.txt:8: 'b', expected one row for each individual, but row 4 is of the same; delete one",
    ]


def test_nobody_matched(write, fam, problems):
    def told(content):
        return problems(read_table_by_id, write("t.txt", content), fam, option="--covar")

    assert told("FID IID x\n0 a 1\n0 b 2\n") == [
        "t.txt: none of 2 rows is of an individual (0 a, 0 b), expected FID and IID as in t.fam, such as 'f1 a'; "
        "without its FID column it would match by IID alone"
    ]
    assert told("IID x\nz 1\n") == [
        "t.txt: none of 1 row is of an individual (z), expected IID as in t.fam, such as 'a'"
    ]
    assert told("IID x\n") == ["t.txt: no rows below the header"]


def test_individuals_of_one_id_do_no_harm_unless_named(write, problems):
    fam = read_fam(write("t.fam", "f a 0 0 1 1\nf a 0 0 1 1\nf b 0 0 1 1\n"))
    table = read_table_by_id(write("t.txt", "FID IID x\nf b 1\n"), fam, option="--covar")
    np.testing.assert_array_equal(table.values[:, 0], [NA, NA, 1])
    told = problems(read_table_by_id, write("t.txt", "FID IID x\nf a 1\n"), fam, option="--covar")
    assert told[0].endswith("rows 1 and 2 of t.fam have it; rows of the same ID cannot be told apart")


FIELDS = st.sampled_from(["a", "b", "c", "f1", "1", "-9", "NA", "", '"', '"a"', "1,5", "IID", "é", "x" * 50])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=st.sampled_from(["IID{0}x{0}y", "FID{0}IID{0}x", "x{0}IID", '"IID"{0}x', "x{0}y", ""]),
    rows=st.lists(st.lists(FIELDS, max_size=4), max_size=8),
    separator=st.sampled_from([" ", "\t", ","]),
)
def test_any_table(tmp_path, write, header, rows, separator):
    fam = read_fam(write("t.fam", "f1 a 0 0 1 1\nf1 b 0 0 1 1\nf2 c 0 0 1 1\n"))
    path = tmp_path / "t.txt"
    path.write_bytes("\n".join([header.format(separator), *(separator.join(row) for row in rows)]).encode())
    try:
        table = read_table_by_id(path, fam, option="--covar", text_columns=[1])
    except InputError as error:
        found = error.problems
    else:
        found = ("none",)
        assert table.values.shape == (3, len(table.names))
        assert len(table.labels[0]) == 3
    assert 0 < len(found) <= 21
    try:
        assert match_individuals(path, fam)[0].any()
    except InputError as error:
        found = error.problems
    assert len(found) >= 1
