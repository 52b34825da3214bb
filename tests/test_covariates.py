"""The covariate matrix: one-hot columns, GEMMA's rule for the intercept, and rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jamma.core.errors import InputError
from jamma.covariates import covariate_matrix, independent_columns, one_hot
from jamma.io.columns import NumberTable

N = 40
RNG = np.random.default_rng(1)
X = RNG.standard_normal((N, 3))
ONES = np.ones(N)


def matrix(*columns, labels=None):
    table = NumberTable(
        values=np.column_stack(columns), names=tuple(f"c{k}" for k in range(1, len(columns) + 1)), labels=labels or {}
    )
    return covariate_matrix(table, np.arange(N))


def test_no_covariates():
    w = covariate_matrix(None, np.arange(3))
    assert w.values.tolist() == [[1], [1], [1]]
    assert (w.names, w.notes, w.warnings) == (("intercept",), [], [])


def test_intercept_is_appended_last():
    w = matrix(X[:, 0], X[:, 1])
    np.testing.assert_array_equal(w.values, np.column_stack([X[:, :2], ONES]))
    assert w.names == ("c1", "c2", "intercept")
    assert w.notes == ["no covariate is constant: a column of ones was appended as the intercept"]


def test_constant_column_is_the_intercept_and_keeps_its_value():
    w = matrix(X[:, 0], 5 * ONES)
    np.testing.assert_array_equal(w.values, np.column_stack([X[:, 0], 5 * ONES]))
    assert w.notes == ["c2 is the intercept (constant 5)"]


def test_all_constant_leaves_the_first():
    w = matrix(5 * ONES, 7 * ONES)  # GEMMA 0.98.5 fits the same: its null beta is mean(y)/5
    assert w.values.tolist() == [[5.0]] * N
    assert w.warnings == ["c2 was dropped: it is constant"]


def test_constant_zero_is_no_intercept():
    w = matrix(0 * ONES, X[:, 0])  # GEMMA 0.98.5 ends in "matrix is singular"
    np.testing.assert_array_equal(w.values, np.column_stack([X[:, 0], ONES]))
    assert w.warnings == ["c1 was dropped: it is constant"]


def test_constant_over_the_analysed_only():
    x = np.where(np.arange(N) < 5, 3.0, X[:, 0])
    table = NumberTable(values=np.column_stack([x, X[:, 1]]), names=("a", "b"))
    assert covariate_matrix(table, np.arange(5)).notes == ["a is the intercept (constant 3)"]
    assert covariate_matrix(table, np.arange(N)).names == ("a", "b", "intercept")


def test_dependent_columns_are_dropped_and_named():
    w = matrix(ONES, X[:, 0], X[:, 1], X[:, 0] - 2 * X[:, 1] + 3, 2 * ONES, X[:, 2], X[:, 2])
    assert w.names == ("c1", "c2", "c3", "c6")
    assert w.warnings == [
        "c4 was dropped: it is a linear combination of c2, c3",
        "c5 was dropped: it is constant",
        "c7 was dropped: it is a linear combination of c6",
    ]


def test_dependent_to_the_digits_of_a_text_file():
    total = np.round(X[:, 0], 8) + np.round(X[:, 1], 8)
    assert matrix(ONES, X[:, 0], X[:, 1], total).names == ("c1", "c2", "c3")


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_rank_does_not_depend_on_scale_or_origin(scale):
    year = 2000.0 + np.arange(N) % 20
    w = matrix(scale * X[:, 0], year, year**2, 1e8 + X[:, 1])
    assert w.names == ("c1", "c2", "c3", "c4", "intercept")
    assert matrix(scale * X[:, 0], X[:, 1], -2 * scale * X[:, 0]).names == ("c1", "c2", "intercept")


def test_more_columns_than_individuals():
    kept, dropped = independent_columns(np.column_stack([np.ones(5), np.random.default_rng(2).random((5, 9))]), 0)
    assert (kept, len(dropped)) == ([0, 1, 2, 3, 4], 5)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), c=st.integers(1, 8), rank=st.integers(1, 8))
def test_rank_against_svd(seed, c, rank):
    rng = np.random.default_rng(seed)
    w = np.column_stack([np.ones(30), rng.standard_normal((30, rank)) @ rng.integers(-2, 3, (rank, c))])
    kept, dropped = independent_columns(w, 0)
    assert len(kept) == np.linalg.matrix_rank(w) == np.linalg.matrix_rank(w[:, kept])
    for k, others in dropped:
        span = w[:, [0, *others]]
        assert np.linalg.norm(w[:, k] - span @ np.linalg.lstsq(span, w[:, k], rcond=None)[0]) < 1e-9


# --- one-hot ----------------------------------------------------------------------------------------------------


def test_one_hot_of_numbers():
    notes = []
    columns = one_hot(["10", "2", "2.0", "10.0", "-1"], "site", notes)
    assert [(name, x.tolist()) for name, x in columns] == [("site=2", [0, 1, 1, 0, 0]), ("site=10", [1, 0, 0, 1, 0])]
    assert notes == ["site is categorical: 3 levels -1, 2, 10; -1 is the reference"]


def test_one_hot_of_text():
    columns = one_hot(["b", "a", "2", "b", "2"], "sex", [])
    assert [(name, x.tolist()) for name, x in columns] == [("sex=a", [0, 1, 0, 0, 0]), ("sex=b", [1, 0, 0, 1, 0])]
    assert one_hot(["a", "a"], "sex", []) == []


def test_one_hot_within_the_matrix():
    sites = [("x", "y", "z")[i % 3] for i in range(N)]
    w = matrix(np.full(N, np.nan), X[:, 0], labels={0: sites})
    assert w.names == ("c1=y", "c1=z", "c2", "intercept")
    assert w.values.sum(axis=0)[:2].tolist() == [13, 13]
    w = matrix(np.full(N, np.nan), [s == "y" for s in sites], labels={0: sites})
    assert w.warnings == ["c2 was dropped: it is a linear combination of c1=y"]


def test_one_hot_of_ids_is_refused():
    with pytest.raises(InputError, match=r"id: 3 levels for 3 individuals \(a, b, c\), expected a category"):
        one_hot(["a", "b", "c"], "id", [])
    with pytest.raises(InputError, match=r"1,001 levels for 2,002 individuals"):
        one_hot([str(i % 1001) for i in range(2002)], "id", [])
