"""Reduction to tridiagonal form, Q from its reflectors, and eigenvalues alone, over each library of this machine."""

from __future__ import annotations

import numpy as np
import pytest

from jamma import jlinalg
from jamma._blas import blas, reductions
from jamma._blas.config import select
from jamma._core import reflectors
from jamma.core.errors import JammaError, NumericalError

from .blas_libraries import choices, selected

scipy_linalg = pytest.importorskip("scipy.linalg")


@pytest.fixture(params=choices())
def library(request):
    """Each library of this machine in turn, in use."""
    with selected(request.param) as choice:
        yield choice


def symmetric(n, rank=None, seed=0):
    """A symmetric matrix with entries of order 1; of low rank where asked."""
    x = np.random.default_rng(seed).standard_normal((n, rank or n + 5))
    a = x @ x.T / x.shape[1]
    return (a + a.T) / 2


def slow_q(reflectors, tau, shift):
    """Q = H_1 H_2 …, one reflector at a time."""
    n = reflectors.shape[0]
    q = np.eye(n)
    for j in range(n - shift):
        v = np.zeros(n)
        v[j + shift] = 1.0
        v[j + shift + 1 :] = reflectors[j + shift + 1 :, j]
        q -= tau[j] * np.outer(q @ v, v)
    return q


@pytest.mark.parametrize("block_size", [1, 2, 7, 64])
@pytest.mark.parametrize(("n", "shift"), [(1, 1), (2, 1), (3, 1), (20, 1), (20, 8), (9, 8), (8, 8), (5, 8), (65, 3)])
def test_form_q_is_the_product_of_the_reflectors(n, shift, block_size):
    select()
    rng = np.random.default_rng(6)
    a = np.asfortranarray(rng.standard_normal((n, n)))
    tau = np.zeros(max(n - shift, 1))
    for j in range(n - shift):  # orthogonal for any vector, if tau fits it; a zero tau is the identity
        tau[j] = 2.0 / (1.0 + np.sum(a[j + shift + 1 :, j] ** 2)) if j % 3 != 1 else 0.0
    expected = slow_q(a, tau, shift)
    work = np.full(reflectors.form_q_work(n, block_size), np.nan)
    assert reflectors.form_q(a, tau, shift, block_size, work) == 0
    np.testing.assert_allclose(a, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n", "rank"), [(1, 1), (2, 2), (3, 3), (50, 10), (150, None), (300, None)])
def test_tridiagonalize(library, n, rank, order):
    a = np.array(symmetric(n, rank), order=order)
    kept = a.copy()
    d, e, q = jlinalg.tridiagonalize(a)
    np.testing.assert_array_equal(a, kept)
    assert q.flags.f_contiguous
    t = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    np.testing.assert_allclose(q.T @ q, np.eye(n), rtol=0, atol=1e-14)
    np.testing.assert_allclose(q @ t @ q.T, a, rtol=0, atol=2e-14)
    w = jlinalg.eigvals_tridiagonal(d, e)
    np.testing.assert_allclose(w, scipy_linalg.eigh(a, eigvals_only=True), rtol=0, atol=2e-14)
    _, _, in_place = jlinalg.tridiagonalize(a, overwrite=True)
    assert np.shares_memory(in_place, a)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_tridiagonalize_on_threads(library, n_threads):
    a = symmetric(260)
    d, e, q = jlinalg.tridiagonalize(a, n_threads=n_threads)
    np.testing.assert_allclose(q @ (np.diag(d) + np.diag(e, 1) + np.diag(e, -1)) @ q.T, a, rtol=0, atol=2e-14)


@pytest.mark.parametrize("kd", [0, 1, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 5, 9, 60])
def test_eigvals_banded(library, n, kd):
    rng = np.random.default_rng(7)
    given = rng.standard_normal((kd + 1, n))
    dense = np.zeros((n, n))
    for k in range(min(kd, n - 1) + 1):
        dense += np.diag(given[k, : n - k], -k)
    dense = np.tril(dense) + np.tril(dense, -1).T
    for k in range(1, kd + 1):
        given[k, max(n - k, 0) :] = np.nan  # not read
    kept = given.copy()
    np.testing.assert_allclose(jlinalg.eigvals_banded(given), np.linalg.eigvalsh(dense), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(given, kept)


def test_empty_matrices(library):
    d, e, q = jlinalg.tridiagonalize(np.empty((0, 0)))
    assert (d.shape, e.shape, q.shape) == ((0,), (0,), (0, 0))
    assert jlinalg.eigvals_tridiagonal(d, e).shape == (0,)
    assert jlinalg.eigvals_banded(np.empty((9, 0))).shape == (0,)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="square"):
        jlinalg.tridiagonalize(np.ones((2, 3)))
    with pytest.raises(ValueError, match="not finite"):
        jlinalg.tridiagonalize(np.diag([1.0, np.nan]))
    with pytest.raises(ValueError, match="do not fit"):
        jlinalg.eigvals_tridiagonal(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="not finite"):
        jlinalg.eigvals_tridiagonal(np.ones(3), np.array([1.0, np.inf]))
    with pytest.raises(ValueError, match="not finite"):
        jlinalg.eigvals_banded(np.array([[1.0, np.nan, 2.0]]))


def test_no_convergence_is_an_error(library, monkeypatch):
    monkeypatch.setattr(blas, "dsterf", lambda d, e: 2)
    with pytest.raises(NumericalError, match=r"DSTERF.*info = 2"):
        jlinalg.eigvals_tridiagonal(np.ones(3), np.ones(2))


def test_without_a_library_the_refusal_names_the_way_out(monkeypatch):
    monkeypatch.setattr(reductions, "ilp64", lambda: False)
    with pytest.raises(JammaError, match="eigendecomposition"):
        jlinalg.tridiagonalize(np.eye(3))
    with pytest.raises(JammaError, match="eigendecomposition"):
        jlinalg.eigvals_tridiagonal(np.ones(3), np.ones(2))
