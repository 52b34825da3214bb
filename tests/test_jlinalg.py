"""Checked linear algebra, over each library that this machine has and over none."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import jamma
from jamma import jlinalg
from jamma._blas import blas, discovery
from jamma._blas.config import select
from jamma._core import kinship
from jamma._core.levels import INSTRUCTIONS, LEVELLED, kernel_levels
from jamma.core.errors import InsufficientMemoryError, JammaError, NumericalError

from .blas_libraries import choices, selected, sources_without_files

scipy_linalg = pytest.importorskip("scipy.linalg")

ORTHOGONALITY = {"evd": 2e-14, "evr": 1e-12}


@pytest.fixture(params=choices())
def library(request):
    """Each library of this machine in turn, in use."""
    with selected(request.param) as choice:
        yield choice


@pytest.fixture
def no_library(monkeypatch):
    """As where no BLAS with 64-bit integers is installed."""
    monkeypatch.setattr(discovery, "SOURCES", sources_without_files())
    monkeypatch.delenv("JAMMA_BLAS", raising=False)
    select()
    assert not blas.is_loaded()
    yield
    monkeypatch.undo()
    select()


def kinship_like(n, rank, seed=0):
    """A centred positive semidefinite matrix."""
    x = np.random.default_rng(seed).standard_normal((n, rank))
    x -= x.mean(axis=0)
    return x @ x.T / rank


def check_decomposition(a, w, v, orthogonality=2e-14):
    """The bound for DSYEVR is wider: two vectors of a cluster are orthogonal to n eps / gaptol, gaptol = 1e-3."""
    n = a.shape[0]
    scale = np.abs(a).max() * n
    assert np.all(np.diff(w) >= 0)
    assert v.flags.f_contiguous
    np.testing.assert_allclose(v.T @ v, np.eye(n), rtol=0, atol=orthogonality)
    np.testing.assert_allclose((v * w) @ v.T, a, rtol=0, atol=1e-15 * scale + 1e-14)


@pytest.mark.parametrize("driver", ["evd", "evr"])
@pytest.mark.parametrize("n", [1, 2, 3, 40, 150])
def test_eigh_agrees_with_scipy(library, driver, n):
    a = kinship_like(n, max(1, n // 2)) + np.diag(np.arange(n) * 0.01)
    w, v = jlinalg.eigh(a, driver=driver)
    check_decomposition(a, w, v, ORTHOGONALITY[driver])
    np.testing.assert_allclose(w, scipy_linalg.eigh(a, eigvals_only=True), rtol=0, atol=1e-13 * max(1, w[-1]))


def test_drivers_agree(library):
    a = kinship_like(200, 300)
    w_evd, v_evd = jlinalg.eigh(a, driver="evd")
    w_evr, v_evr = jlinalg.eigh(a, driver="evr")
    np.testing.assert_allclose(w_evd, w_evr, rtol=0, atol=1e-13)
    # The spectrum is simple (but for the one 0), so the vectors agree up to sign and the gaps' conditioning.
    np.testing.assert_allclose(np.abs(np.sum(v_evd * v_evr, axis=0)), 1.0, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("driver", ["evd", "evr"])
def test_eigh_reads_the_lower_triangle_and_may_overwrite(library, driver, order):
    a = kinship_like(60, 90)
    given = np.array(np.where(np.tri(60, dtype=bool), a, np.pi), order=order)
    kept = given.copy()
    w, v = jlinalg.eigh(given, driver=driver)
    check_decomposition(a, w, v, ORTHOGONALITY[driver])
    np.testing.assert_array_equal(given, kept)
    given.flags.writeable = False
    jlinalg.eigh(given, driver=driver, overwrite=True)
    np.testing.assert_array_equal(given, kept)
    given.flags.writeable = True
    w2, v2 = jlinalg.eigh(given, driver=driver, overwrite=True)
    check_decomposition(a, w2, v2, ORTHOGONALITY[driver])
    assert np.shares_memory(v2, given) == (driver == "evd")


def test_eigh_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="square"):
        jlinalg.eigh(np.ones((2, 3)))
    with pytest.raises(ValueError, match="driver"):
        jlinalg.eigh(np.eye(2), driver="ev")
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="not finite"):
            jlinalg.eigh(np.diag([1.0, bad]))
    w, v = jlinalg.eigh(np.empty((0, 0)))
    assert w.shape == (0,)
    assert v.shape == (0, 0)


@pytest.mark.parametrize(("driver", "routine"), [("evd", "dsyevd"), ("evr", "dsyevr")])
def test_no_convergence_is_an_error(library, monkeypatch, driver, routine):
    real = getattr(blas, routine)

    def fails(uplo, a, w, *rest):
        result = real(uplo, a, w, *rest)
        if rest[-2].size == 1:  # the question for the workspace
            return result
        return 3 if routine == "dsyevd" else (3, 0)

    monkeypatch.setattr(blas, routine, fails)
    with pytest.raises(NumericalError, match=rf"{routine.upper()}.*info = 3"):
        jlinalg.eigh(np.eye(5), driver=driver)


def test_evr_stands_in_where_the_workspace_of_evd_cannot_be_had(library, monkeypatch):
    real = jlinalg.workspace

    def small(size, dtype=np.float64):
        if size > 2 * 50 * 50:
            raise InsufficientMemoryError("no")
        return real(size, dtype)

    monkeypatch.setattr(jlinalg, "workspace", small)
    a = kinship_like(50, 50)
    check_decomposition(a, *jlinalg.eigh(a), ORTHOGONALITY["evr"])
    with pytest.raises(InsufficientMemoryError):
        jlinalg.eigh(a, driver="evd")


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_gemm(library, beta):
    rng = np.random.default_rng(3)
    a, b, c = rng.standard_normal((6, 20)), rng.standard_normal((20, 5)), rng.standard_normal((6, 5))
    for order in "CF":
        out = np.array(c, order=order)
        assert jlinalg.gemm(a, b, out, alpha=2.0, beta=beta) is out
        np.testing.assert_allclose(out, 2.0 * (a @ b) + beta * c, rtol=0, atol=1e-13)
    np.testing.assert_allclose(jlinalg.gemm(b.T, a.T), (a @ b).T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(jlinalg.gemm(a[::2, ::3], b[::3]), a[::2, ::3] @ b[::3], rtol=0, atol=1e-13)
    np.testing.assert_allclose(jlinalg.gemm(a[:, ::-1], b), a[:, ::-1] @ b, rtol=0, atol=1e-13)
    repeated = np.broadcast_to(rng.standard_normal(20), (6, 20))
    np.testing.assert_allclose(jlinalg.gemm(repeated, b), repeated @ b, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(jlinalg.gemm(np.empty((2, 0)), np.empty((0, 3))), np.zeros((2, 3)))
    nan = np.full((6, 5), np.nan)
    np.testing.assert_allclose(jlinalg.gemm(a, b, nan), a @ b, rtol=0, atol=1e-13)


def test_gemm_refuses_what_does_not_fit():
    a = np.ones((2, 3))
    with pytest.raises(ValueError, match="columns"):
        jlinalg.gemm(a, a)
    with pytest.raises(ValueError, match="beta"):
        jlinalg.gemm(a, a.T, beta=1.0)
    with pytest.raises(ValueError, match="dimensions"):
        jlinalg.gemm(a, np.ones(3))
    for out in (np.ones((3, 3)), np.ones((2, 2), np.float32), np.ones((4, 4))[::2, ::2]):
        with pytest.raises(ValueError, match="out must"):
            jlinalg.gemm(a, a.T, out)


@pytest.mark.parametrize("n", [1, 7, 600])
def test_syrk_and_symmetrize(library, n):
    rng = np.random.default_rng(4)
    a, c = rng.standard_normal((n, 9)), rng.standard_normal((n, n))
    out = c.copy()
    assert jlinalg.syrk(a, out, alpha=0.5, beta=2.0) is out
    np.testing.assert_array_equal(np.triu(out, 1), np.triu(c, 1))
    expected = 0.5 * (a @ a.T) + 2.0 * c
    np.testing.assert_allclose(np.tril(out), np.tril(expected), rtol=0, atol=1e-13)
    assert jlinalg.symmetrize(out) is out
    np.testing.assert_array_equal(out, out.T)
    np.testing.assert_allclose(np.tril(out), np.tril(expected), rtol=0, atol=1e-13)
    other = np.zeros((9, 9))
    jlinalg.syrk(a.T, other, beta=0.0)
    np.testing.assert_allclose(np.tril(other), np.tril(a.T @ a), rtol=0, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_syrk_by_blocks_of_rows(library, monkeypatch, beta):
    """More rows than one call of DSYRK is given: the same triangle, and nothing above it."""
    monkeypatch.setattr(jlinalg, "SYRK_ROWS", 32)
    rng = np.random.default_rng(6)
    for n in (31, 32, 33, 100):
        a, c = rng.standard_normal((n, 5)), rng.standard_normal((n, n))
        for given in (a, np.asfortranarray(a)):
            out = c.copy()
            jlinalg.syrk(given, out, alpha=0.5, beta=beta)
            np.testing.assert_allclose(
                out, np.where(np.tri(n, dtype=bool), 0.5 * (a @ a.T) + beta * c, c), rtol=0, atol=1e-13
            )


def test_numpy_stands_in_below_the_limit(no_library):
    a = kinship_like(70, 30)
    check_decomposition(a, *jlinalg.eigh(a))
    rng = np.random.default_rng(5)
    x, c = rng.standard_normal((700, 6)), rng.standard_normal((700, 700))
    out = c.copy()
    jlinalg.syrk(x, out, alpha=0.5, beta=2.0)
    np.testing.assert_allclose(out, np.where(np.tri(700, dtype=bool), 0.5 * x @ x.T + 2 * c, c), rtol=0, atol=1e-13)
    for beta in (0.0, 2.0):
        out = c.copy()
        jlinalg.gemm(x, x.T, out, alpha=0.5, beta=beta)
        np.testing.assert_allclose(out, 0.5 * x @ x.T + beta * c, rtol=0, atol=1e-13)
    used = jlinalg.config()
    assert used.int_bits == 32
    assert "46,340" in used.reason


def test_above_the_limit_the_refusal_says_what_to_install(no_library):
    # 46,341 rows that share one row's memory: the size is refused before anything is read.
    a = np.broadcast_to(np.zeros(jlinalg.MAX_LP64_ROWS + 1), (jlinalg.MAX_LP64_ROWS + 1,) * 2)
    with pytest.raises(JammaError, match=r"46,341 rows need a BLAS with 64-bit integers.*pip install"):
        jlinalg.eigh(a)


def test_config_says_what_is_used(library):
    used = jlinalg.config()
    assert used.int_bits == 64
    assert used.file == library.found["file"]
    assert used.reason
    assert used.name in ("OpenBLAS", "Intel MKL", "Apple Accelerate") or used.file.endswith(used.name)
    text = io.StringIO()
    jamma.show_config(text)
    for part in (used.name, used.version, used.file, "64 bits", used.reason):
        assert part in text.getvalue()


def test_config_names_the_level_of_every_kernel():
    """Also where an extension was set to another level; extensions with levels are those that include levels.pxi."""
    sources = Path(__file__).parents[1] / "jamma" / "_core"
    assert sorted(LEVELLED) == sorted(p.stem for p in sources.glob("*.pyx") if 'include "levels.pxi"' in p.read_text())
    levels = kernel_levels()
    assert set(levels) == set(LEVELLED)
    assert set(levels.values()) <= {"baseline", *INSTRUCTIONS}
    kinship.set_level("baseline")
    try:
        assert kernel_levels() == levels | {"kinship": "baseline"}
        text = io.StringIO()
        jamma.show_config(text)
    finally:
        kinship.set_level(None)
    assert "baseline: kinship" in text.getvalue()
    assert text.getvalue().splitlines()[-1].startswith("kernels:   ")


def test_show_config_prints(capsys):
    jamma.show_config()
    assert "integers:" in capsys.readouterr().out
