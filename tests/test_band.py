"""The reduction to a band of 8 at every CPU level, and over each library of this machine."""

from __future__ import annotations

import numpy as np
import pytest

from jamma import jlinalg
from jamma._core import band as kernels
from jamma._core import reflectors
from jamma.core import threads

from .blas_libraries import choices, selected

BAND = 8
# Whole panels and outer blocks (64 columns), one row more and less, and a last panel of every width.
SIZES = [*range(9, 26), 40, 71, 72, 73, 74, 80, 81, 137]


@pytest.fixture(params=choices())
def library(request):
    """Each library of this machine in turn, in use."""
    with selected(request.param) as choice:
        yield choice


@pytest.fixture(params=kernels.available_levels())
def level(request):
    with selected(None):
        kernels.set_level(request.param)
        yield request.param
        kernels.set_level(None)


def symmetric(n, rank=None, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, rank or n + 5))
    a = x @ x.T / x.shape[1]
    return (a + a.T) / 2


def dense(band):
    n = band.shape[1]
    b = np.zeros((n, n))
    for k in range(min(n, band.shape[0])):
        b += np.diag(band[k, : n - k], -k)
        assert not band[k, n - k :].any()
    return np.tril(b) + np.tril(b, -1).T


def slow_band(a):
    """The same reduction one reflector at a time, each applied to the whole matrix."""
    a = a.copy()
    n = a.shape[0]
    q = np.eye(n)
    for j in range(n - BAND - 1):
        x = a[j + BAND :, j].copy()
        beta = -np.copysign(np.linalg.norm(x), x[0])
        v = np.zeros(n)
        v[j + BAND :] = x
        v[j + BAND] -= beta
        if v.any():
            v /= np.linalg.norm(v)
            a -= 2.0 * np.outer(v, v @ a)
            a -= 2.0 * np.outer(a @ v, v)
            q -= 2.0 * np.outer(q @ v, v)
    return np.array([np.pad(np.diagonal(a, -k), (0, k)) for k in range(BAND + 1)]), q


def reduce(a, n_threads=1, poison=np.nan):
    """The kernel alone: band, and Q from its reflectors."""
    n = a.shape[0]
    matrix = np.array(np.where(np.tri(n, dtype=bool), a, np.nan), order="F")  # the upper triangle is not read
    tau, band = np.full(n - BAND, np.nan), np.full((BAND + 1, n), np.nan, order="F")
    work = np.full(kernels.reduce_to_band_work(n), poison)
    with threads.blas_threads(1):
        assert kernels.reduce_to_band(matrix, tau, band, n_threads, work) == 0
        assert reflectors.form_q(matrix, tau, BAND, 32, np.empty(reflectors.form_q_work(n, 32))) == 0
    return band, matrix


@pytest.mark.parametrize("n", SIZES)
def test_kernel_against_the_slow_form(level, n):
    a = symmetric(n)
    band, q = reduce(a)
    slow, slow_q = slow_band(a)
    # Householder's signs are fixed by beta = −sign(alpha)‖x‖, so the two forms agree, not only their products.
    np.testing.assert_allclose(band, slow, rtol=0, atol=1e-12)
    np.testing.assert_allclose(q, slow_q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(q.T @ q, np.eye(n), rtol=0, atol=1e-14)
    np.testing.assert_allclose(q @ dense(band) @ q.T, a, rtol=0, atol=2e-14)


@pytest.mark.parametrize("n", [12, 90, 330])
def test_threads_change_nothing(level, n):
    a = symmetric(n)
    band, q = reduce(a, 1)
    for n_threads in (2, 4):
        other, other_q = reduce(a, n_threads, poison=1e300)
        np.testing.assert_array_equal(band, other)
        np.testing.assert_array_equal(q, other_q)


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((30, 30)),
        np.eye(30),
        np.diag(np.arange(30.0)),
        symmetric(30, 1),
        symmetric(100, 5),
        np.kron(np.eye(10), np.ones((3, 3))),
        np.ones((20, 20)),
    ],
    ids=["zero", "identity", "diagonal", "rank 1", "rank 5", "families", "constant"],
)
def test_degenerate_matrices(level, a):
    band, q = reduce(a)
    n = a.shape[0]
    np.testing.assert_allclose(q.T @ q, np.eye(n), rtol=0, atol=1e-14)
    np.testing.assert_allclose(q @ dense(band) @ q.T, a, rtol=0, atol=5e-15 * max(1.0, np.linalg.norm(a, 2)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [0, 1, 2, 8, 9, 10, 150])
def test_band_reduce(library, n, order):
    a = np.array(symmetric(n), order=order)
    kept = a.copy()
    band, q = jlinalg.band_reduce(a)
    np.testing.assert_array_equal(a, kept)
    assert band.shape == (BAND + 1, n)
    assert band.flags.f_contiguous
    assert q.flags.f_contiguous
    np.testing.assert_allclose(q.T @ q, np.eye(n), rtol=0, atol=1e-14)
    np.testing.assert_allclose(q @ dense(band) @ q.T, a, rtol=0, atol=2e-14)
    np.testing.assert_allclose(jlinalg.eigvals_banded(band), np.linalg.eigvalsh(a), rtol=0, atol=2e-14)
    in_place = jlinalg.band_reduce(a, overwrite=True)[1]
    assert n == 0 or np.shares_memory(in_place, a)


@pytest.mark.parametrize("exponent", [-1000, -300, -100, 100, 300, 1000])
def test_extreme_scales(exponent):
    a = np.ldexp(symmetric(40), exponent)
    expected, expected_q = jlinalg.band_reduce(symmetric(40))
    band, q = jlinalg.band_reduce(a)
    np.testing.assert_allclose(np.ldexp(band, -exponent), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(q, expected_q, rtol=0, atol=1e-13)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="square"):
        jlinalg.band_reduce(np.ones((20, 30)))
    with pytest.raises(ValueError, match="not finite"):
        jlinalg.band_reduce(np.diag(np.full(20, np.inf)))
