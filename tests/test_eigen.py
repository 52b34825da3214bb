"""Checks, centring and decomposition of the kinship."""

from __future__ import annotations

import numpy as np
import pytest

from jamma.core.errors import InputError
from jamma.lmm import eigen


def make_kinship(n: int, p: int | None = None, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(2 * n if p is None else p, n))
    return x.T @ x / len(x)


def test_reconstruction():
    kinship = make_kinship(300)
    d, u = eigen.eigendecompose_kinship(kinship)
    assert u.flags.f_contiguous
    np.testing.assert_allclose(u * d @ u.T, kinship, rtol=0, atol=1e-13 * np.abs(kinship).max())
    np.testing.assert_allclose(u.T @ u, np.eye(300), rtol=0, atol=1e-13)
    assert (np.diff(d) >= 0).all()


@pytest.mark.parametrize("n", [2, 3, 255, 256, 257])
def test_centring(n):
    kinship = make_kinship(n) + 3.0
    center = np.eye(n) - 1 / n
    expected = center @ kinship @ center
    given = kinship.copy()
    result = eigen.eigendecompose_kinship(kinship, center=True)
    np.testing.assert_array_equal(kinship, given)
    np.testing.assert_allclose(eigen.center_kinship(kinship), expected, rtol=0, atol=1e-13 * np.abs(given).max())
    np.testing.assert_allclose(kinship.sum(axis=0), 0, atol=1e-12 * n)
    assert result.n_zero == 1
    assert result.n_negative == 0
    assert result.eigenvalues[0] == 0


def test_overwrite_centres_in_place():
    kinship = make_kinship(50)
    assert eigen.prepare_kinship(kinship, center=True, overwrite=True) is kinship
    np.testing.assert_allclose(kinship.sum(axis=0), 0, atol=1e-12)


def test_low_rank_and_negative_eigenvalues():
    kinship = make_kinship(40, p=10)
    result = eigen.eigendecompose_kinship(kinship)
    assert (result.n_zero, result.n_negative) == (30, 0)
    d, u = np.linalg.eigh(make_kinship(40))
    d[:3] = [-0.5, -1e-8, 0.9e-10]
    result = eigen.eigendecompose_kinship(u * d @ u.T)
    assert (result.n_zero, result.n_negative) == (3, 2)
    assert result.smallest == pytest.approx(-0.5)
    np.testing.assert_array_equal(result.eigenvalues[:3], 0)


def test_weights_as_gemma_applies_them():
    rng = np.random.default_rng(3)
    kinship, w = make_kinship(30), rng.uniform(0.5, 3, 30)
    kinship_scale, row_scale = eigen.gemma_weight_scales(w)
    d, u = eigen.eigendecompose_kinship(kinship, center=True, kinship_scale=kinship_scale, row_scale=row_scale)
    centred = eigen.center_kinship(kinship.copy())
    plain = u / np.sqrt(w)[:, None]
    np.testing.assert_allclose(plain.T @ plain, np.eye(30), atol=1e-13)
    np.testing.assert_allclose(plain * d @ plain.T, centred / np.sqrt(np.outer(w, w)), atol=1e-12)


def test_weights_that_are_not_positive_count_as_zero():
    kinship_scale, row_scale = eigen.gemma_weight_scales(np.array([4.0, 0.0, -1.0]))
    np.testing.assert_array_equal(kinship_scale, [0.5, 0, 0])
    np.testing.assert_array_equal(row_scale, [2, 0, 0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda k: k[:, :-1], "shape \\(300, 299\\), expected a square matrix"),
        (lambda k: np.where(np.arange(300) == 280, np.nan, k), "kinship\\[0, 280\\]: nan, expected a finite number"),
        (lambda k: k + np.triu(np.ones((300, 300)), 299), "expected a symmetric matrix"),
        (lambda k: k[:1, :1], "1 samples, expected at least 2"),
    ],
)
def test_what_is_not_a_kinship(spoil, message):
    with pytest.raises(InputError, match=message):
        eigen.eigendecompose_kinship(spoil(make_kinship(300)))


def test_single_precision_symmetry_is_enough():
    kinship = make_kinship(60).astype(np.float32)
    kinship[3, 5] *= 1 + 2e-7
    eigen.check_kinship(kinship.astype(np.float64))
