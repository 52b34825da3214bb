"""The bases against the definition of their sums, aᵀ(λK + I)⁻¹b."""

from __future__ import annotations

import numpy as np
import pytest

from jamma._core import genotypes
from jamma.lmm.basis import EigenBasis
from jamma.lmm.eigen import center_kinship, eigendecompose_kinship

LAMBDAS = np.array([1e-5, 1e-3, 0.1, 0.7, 1.0, 3.0, 50.0, 1e3, 1e5])


def make_kinship(n: int, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(3 * n, n))
    return center_kinship(x.T @ x / len(x))


def make_calls(k: int, n: int, miss: float = 0.02, seed: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    calls = rng.binomial(2, rng.uniform(0.05, 0.5, (k, 1)), (k, n)).astype(np.int8)
    calls[rng.random((k, n)) < miss] = -127
    return calls


def dense_sums(kinship: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """aᵀ(λK + I)⁻¹b for each λ: shape (L, columns of a, columns of b)."""
    n = len(kinship)
    return np.stack([a.T @ np.linalg.solve(lam * kinship + np.eye(n), b) for lam in LAMBDAS])


@pytest.fixture(params=["eigen"])
def case(request):
    n = 150
    kinship = make_kinship(n)
    basis = {"eigen": lambda: EigenBasis(*eigendecompose_kinship(kinship))}[request.param]()
    vectors = np.random.default_rng(7).normal(size=(n, 3))
    return kinship, basis, vectors


def test_gram(case):
    kinship, basis, vectors = case
    np.testing.assert_allclose(basis.gram(vectors, LAMBDAS), dense_sums(kinship, vectors, vectors), rtol=1e-9)


def test_node_columns(case):
    kinship, basis, vectors = case
    columns = basis.node_columns(vectors, LAMBDAS)
    assert columns.shape == (3, len(LAMBDAS), 150)
    expected = dense_sums(kinship, np.eye(150), vectors)
    np.testing.assert_allclose(columns, expected.transpose(2, 0, 1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("miss", [0.0, 0.02, 0.5])
def test_sums(case, miss):
    kinship, basis, vectors = case
    packed = genotypes.pack_calls(make_calls(20, 150, miss))
    x = packed.decode()
    columns = basis.node_columns(vectors, LAMBDAS).reshape(-1, 150)
    expected = np.diagonal(dense_sums(kinship, x.T, x.T), axis1=1, axis2=2).T
    for xx, xz in (basis.sums(packed, columns, LAMBDAS, 2), basis.dosage_sums(x, columns, LAMBDAS, 2)):
        np.testing.assert_allclose(xx, expected, rtol=1e-9)
        np.testing.assert_allclose(xz, x @ columns.T, rtol=0, atol=1e-11)


def test_row_scaled_vectors():
    """With weights U has scaled rows, and all sums are those of scaled vectors."""
    kinship, scale = make_kinship(40), np.random.default_rng(1).uniform(0.5, 2, 40)
    d, u = eigendecompose_kinship(kinship)
    plain, scaled = EigenBasis(d, u), EigenBasis(d, u * scale[:, None])
    v = np.random.default_rng(2).normal(size=(40, 2))
    np.testing.assert_allclose(scaled.gram(v, LAMBDAS), plain.gram(v * scale[:, None], LAMBDAS), rtol=1e-12)
    z = scaled.node_columns(v, LAMBDAS)
    np.testing.assert_allclose(np.einsum("qrn,np->rpq", z, v), scaled.gram(v, LAMBDAS), rtol=1e-10, atol=1e-10)


def test_dosages_do_not_depend_on_chunk_or_threads(case):
    _, basis, vectors = case
    dosages = np.random.default_rng(5).uniform(0, 2, (600, 150))
    columns = basis.node_columns(vectors[:, :1], LAMBDAS)[0]
    whole = basis.dosage_sums(dosages, columns, LAMBDAS, 1)
    np.testing.assert_allclose(whole[0], basis.reference_sums(dosages, columns, LAMBDAS)[0], rtol=1e-12)
    for ours, expected in zip(basis.dosage_sums(dosages, columns, LAMBDAS, 3), whole, strict=True):
        np.testing.assert_array_equal(ours, expected)
    for part in (slice(0, 1), slice(5, 300), slice(599, 600), slice(256, 513)):
        for ours, expected in zip(basis.dosage_sums(dosages[part], columns, LAMBDAS, 2), whole, strict=True):
            np.testing.assert_array_equal(ours, expected[part])
