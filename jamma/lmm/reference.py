"""The statistics of all tests in plain NumPy: the oracle of the tests, and the fallback without `jamma._core`.

Everything is rotated by the eigenvectors U of the kinship, K = U diag(d) U'. With t = ln(lambda),
h_i(t) = 1/(lambda d_i + 1) and <a, b> = sum h_i a_i b_i, a model with the q columns X = [W, x] has

    l_R(t) = df/2 (ln df - ln 2 pi - 1) + 1/2 sum ln h_i - 1/2 (ln|X'HX| - ln|X'X|) - df/2 ln(y'Py),   df = n - q
    l_M(t) = n/2 (ln n - ln 2 pi - 1) + 1/2 sum ln h_i - n/2 ln(y'Py)

(Zhou & Stephens 2012, Nature Genetics 44, 821, equations of their supplement). ln|X'HX| and y'Py are the pivots of
the Gram matrix <[W, x, y], [W, x, y]> when its columns are eliminated in order. Each entry is carried as a *jet*
(value, first and second derivative in t), with

    h' = -lambda d h^2,      h'' = lambda d h^2 (2 lambda d h - 1),

so that elimination gives the derivatives of both likelihoods without finite differences.

The maximum over [l_min, l_max] is sought as GEMMA does: derivative signs at the 11 ends of 10 equal intervals of t;
in each interval where the sign turns from + to - the maximum is polished by Newton's method inside its bracket; the
best of these and of both bounds wins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jamma.core.errors import NumericalError
from jamma.lmm.null_model import PERFECT_FIT, Scaling, assemble_null_model
from jamma.lmm.schema import F64, STATISTICS, LmmConfig, NullModel
from jamma.lmm.search import (
    FLAT,
    REASON_COLLINEAR,
    REASON_NOT_FINITE,
    REASON_OK,
    REASON_PERFECT_FIT,
    Likelihood,
    maximise,
)  # fmt: skip
from jamma.lmm.tails import LN_10, chi2_1_tail, f_tail

# x'Px below this share of x'x: x lies in the span of the covariates to working precision.
COLLINEAR = 1e-11

# In ln(lambda): 4 points integrate a slope over less to rounding error.
NEAR = 0.2
_BLOCK = 128  # variants at a time: a few (n, _BLOCK) temporaries stay in the outer cache


@dataclass(frozen=True)
class Model:
    """The rotated, scaled problem without a variant.

    Attributes
    ----------
    d : ndarray, shape (n,)
        Eigenvalues.
    q : ndarray, shape (n, c)
        Orthonormal basis of U' times the covariates.
    y : ndarray, shape (n,)
        U' times the centred phenotype of unit standard deviation.
    scaling : Scaling
        The way back to the phenotype and covariates as given.
    """

    d: F64
    q: F64
    y: F64
    scaling: Scaling


def make_model(eigenvalues: F64, u: F64, w: F64, y: F64) -> Model:
    """Centre and scale the phenotype, orthonormalise the covariates, and rotate both.

    Parameters
    ----------
    eigenvalues : ndarray, shape (n,)
    u : ndarray, shape (n, n)
        Columns are the eigenvectors.
    w : ndarray, shape (n, c)
        Covariates of full column rank, n > c + 1.
    y : ndarray, shape (n,)
        Phenotype.
    """
    ones = np.linalg.lstsq(w, np.ones(len(y)), rcond=None)[0]
    constant = bool(np.max(np.abs(w @ ones - 1.0)) < 1e-9)
    mean = float(np.mean(y)) if constant else 0.0
    centred = y - mean
    scale = float(np.std(centred)) or 1.0
    q, r = np.linalg.qr(u.T @ w)  # after U', which is not orthogonal where samples are weighted
    scaling = Scaling(len(y), w.shape[1], mean, scale, r, np.where(constant, ones, 0.0))
    return Model(eigenvalues, q, u.T @ (centred / scale), scaling)


def _h_jets(d: F64, t: F64) -> tuple[F64, F64, F64]:
    """h and its two derivatives in t; shape (n, len(t))."""
    s = np.exp(t)[None, :] * d[:, None]
    h = 1.0 / (s + 1.0)
    sh = s * h
    return h, -sh * h, sh * h * (2.0 * sh - 1.0)


def gram_jets(model: Model, x: F64 | None, t: F64) -> tuple[F64, F64]:
    """Jets of the Gram matrices of [Q, x, y], and of sum ln h.

    Parameters
    ----------
    model : Model
    x : ndarray, shape (n, k), or None
        Rotated variants; None: the model without a variant.
    t : ndarray, shape (k,) or (1,)
        ln(lambda) of each variant, or one for all.

    Returns
    -------
    gram : ndarray, shape (3, k, c + 2, c + 2) (c + 1 for the null model)
    log_h : ndarray, shape (3, len(t))
    """
    c = model.scaling.n_cvt
    k, size = (len(t), c + 1) if x is None else (x.shape[1], c + 2)
    fixed = np.column_stack([model.q, model.y])
    pairs = [(i, j) for i in range(c + 1) for j in range(i, c + 1)]
    products = np.column_stack([fixed[:, i] * fixed[:, j] for i, j in pairs])
    place = [*range(c), size - 1]
    h = _h_jets(model.d, t)
    gram = np.empty((3, k, size, size))
    for order in range(3):
        sums = h[order].T @ products
        for (i, j), column in zip(pairs, sums.T, strict=True):
            gram[order, :, place[i], place[j]] = gram[order, :, place[j], place[i]] = column
        if x is not None:
            hx = h[order] * x
            cross = hx.T @ fixed
            gram[order][:, place, c] = gram[order][:, c, place] = cross
            gram[order, :, c, c] = np.einsum("ij,ij->j", hx, x)
    s = np.exp(t)[None, :] * model.d[:, None]
    log_h = np.stack([np.log(h[0]).sum(0), -(s * h[0]).sum(0), h[1].sum(0)])
    return gram, log_h


def eliminate(gram: F64, q: int) -> tuple[F64, F64]:
    """Schur complement of the first `q` columns of each Gram matrix, and ln|determinant| of that block, as jets.

    Parameters
    ----------
    gram : ndarray, shape (3, k, size, size)
    q : int

    Returns
    -------
    rest : ndarray, shape (3, k, size - q, size - q)
    log_det : ndarray, shape (3, k)
    """
    g = gram
    log_det = np.zeros(g.shape[:2])
    for _ in range(q):
        p, p1, p2 = g[0, :, 0, 0], g[1, :, 0, 0], g[2, :, 0, 0]
        a1, a2 = p1 / p, p2 / p
        log_det += np.stack([np.log(p), a1, a2 - a1 * a1])
        b, b1, b2 = (g[order, :, 0, 1:] for order in range(3))
        # r = b/p and its derivatives, then (r b')', by the product rule
        r = b / p[:, None]
        r1 = b1 / p[:, None] - r * a1[:, None]
        r2 = b2 / p[:, None] - 2 * r1 * a1[:, None] - r * a2[:, None]
        out = lambda u, v: u[:, :, None] * v[:, None, :]  # noqa: E731
        g = np.stack(
            [
                g[0, :, 1:, 1:] - out(r, b),
                g[1, :, 1:, 1:] - out(r1, b) - out(r, b1),
                g[2, :, 1:, 1:] - out(r2, b) - 2 * out(r1, b1) - out(r, b2),
            ]
        )
    return g, log_det


def log_likelihood(model: Model, x: F64 | None, restricted: bool) -> Likelihood:
    """The function (t, which variants) -> log-likelihood of the phenotype as given, and two derivatives in t."""
    n = model.scaling.n_samples
    q = model.scaling.n_cvt + (x is not None)
    df = n - q if restricted else n
    constant = 0.5 * df * (math.log(df / (2 * math.pi)) - 1.0) - df * math.log(model.scaling.scale)
    log_det_0 = np.zeros(1)
    if restricted and x is not None:
        log_det_0 = np.log(np.einsum("ij,ij->j", x, x) - np.einsum("ij,ij->j", model.q.T @ x, model.q.T @ x))

    def evaluate(t: F64, which: np.ndarray) -> tuple[F64, F64, F64]:
        gram, log_h = gram_jets(model, None if x is None else x[:, which], t)
        rest, log_det = eliminate(gram, q)
        p, p1, p2 = (rest[order, :, 0, 0] for order in range(3))
        slope = p1 / p
        jets = 0.5 * log_h - 0.5 * df * np.stack([np.log(p), slope, p2 / p - slope * slope])
        if restricted:
            jets = jets - 0.5 * log_det
            jets[0] += 0.5 * log_det_0[which]
        return jets[0] + constant, jets[1], jets[2]

    return evaluate


def fit_null(eigenvalues: F64, u: F64, w: F64, y: F64, config: LmmConfig) -> NullModel:
    """The model without a variant. Arguments as for `associate`."""
    return fit_null_of(make_model(eigenvalues, u, w, y), config)


def fit_null_of(model: Model, config: LmmConfig) -> NullModel:
    """The model without a variant, of a problem that is already rotated.

    Raises
    ------
    NumericalError
        If the covariates explain the phenotype perfectly.
    """
    c, one = model.scaling.n_cvt, np.arange(1)
    squares = model.y @ model.y
    if not squares - np.sum((model.q.T @ model.y) ** 2) > PERFECT_FIT * squares:
        raise NumericalError("the covariates explain the phenotype perfectly: no variance is left to model")
    restricted = log_likelihood(model, None, True)
    flat = FLAT * model.scaling.n_samples
    lambda_r, logl_r = maximise(restricted, 1, config.l_min, config.l_max, flat, config.n_region)
    lambda_m, logl_m = maximise(
        log_likelihood(model, None, False), 1, config.l_min, config.l_max, flat, config.n_region
    )
    t_r = np.log(lambda_r)
    _, slope, curvature = restricted(t_r, one)
    gram = gram_jets(model, None, t_r)[0][0, 0]
    effects = np.linalg.solve(gram[:c, :c], gram[:c, c])
    residual = float(eliminate(gram[None, None].repeat(3, 0), c)[0][0, 0, 0, 0])
    return assemble_null_model(
        model.scaling, lambdas=(float(lambda_r[0]), float(lambda_m[0])), logls=(float(logl_r[0]), float(logl_m[0])),
        curvature=float((curvature[0] - slope[0]) / lambda_r[0] ** 2), residual=residual, effects=effects,
        covariance=np.linalg.inv(gram[:c, :c]), trace_g=float(np.mean(model.d)), d_max=float(model.d.max()),
    )  # fmt: skip


def _wald(model: Model, x: F64, t: F64) -> dict[str, F64]:
    """Effect, standard error, F of Wald's and of the score test at the given t (each variant's, or one for all)."""
    c = model.scaling.n_cvt
    rest = eliminate(gram_jets(model, x, t)[0], c)[0][0]
    xx, xy, yy = rest[:, 0, 0], rest[:, 0, 1], rest[:, 1, 1]
    df = model.scaling.n_samples - c - 1
    explained = xy * xy / xx
    return {
        "beta": xy / xx * model.scaling.scale,
        "se": np.sqrt((yy - explained) / df / xx) * model.scaling.scale,
        "f_wald": explained * df / (yy - explained),
        "f_score": model.scaling.n_samples * explained / yy,
    }


def _likelihood_ratio(model: Model, x: F64, t: F64, logl: F64, null: NullModel) -> F64:
    """2 (l_M(t) - l_M of the null model), not negative.

    Where t is near the null model's optimum t0, the difference of the two values would leave 1e-15 n of rounding error,
    which matters for p near 1. Then it is the sum of what x explains at t0, -n ln(1 - (x'Py)^2/(x'Px y'Py)), and of
    what is gained from t0 to t, the integral of the slope by 4 points of Gauss and Legendre.
    """
    t0 = math.log(null.lambda_mle)
    rest = eliminate(gram_jets(model, x, np.array([t0]))[0], model.scaling.n_cvt)[0][0]
    explained = rest[:, 0, 1] ** 2 / (rest[:, 0, 0] * rest[:, 1, 1])
    points, weights = np.polynomial.legendre.leggauss(4)
    slope, everyone = log_likelihood(model, x, False), np.arange(len(t))
    half = 0.5 * (t - t0)
    gained = half * sum(w * slope(t0 + half * (1.0 + p), everyone)[1] for p, w in zip(points, weights, strict=True))
    near = 2.0 * gained - model.scaling.n_samples * np.log1p(-explained)
    return np.maximum(np.where(np.abs(t - t0) < NEAR, near, 2.0 * (logl - null.logl_mle)), 0.0)


def _block(model: Model, null: NullModel, x: F64, config: LmmConfig) -> dict[str, F64]:
    """All statistics that the mode asks for, of a block of rotated, testable variants."""
    flat = FLAT * model.scaling.n_samples
    mode, df, k = config.lmm_mode, model.scaling.n_samples - model.scaling.n_cvt - 1, x.shape[1]
    out: dict[str, F64] = {}
    if mode in (1, 4):
        lambda_, logl = maximise(log_likelihood(model, x, True), k, config.l_min, config.l_max, flat, config.n_region)
        wald = _wald(model, x, np.log(lambda_))
        p, log_p = f_tail(wald["f_wald"], df)
        out |= {"beta": wald["beta"], "se": wald["se"], "logl_H1": logl, "l_remle": lambda_, "p_wald": p}
        out |= {"logl_remle": logl, "neg_log10_p": 0.0 - log_p / LN_10}
    if mode in (2, 4):
        lambda_, logl = maximise(log_likelihood(model, x, False), k, config.l_min, config.l_max, flat, config.n_region)
        p, log_p = chi2_1_tail(_likelihood_ratio(model, x, np.log(lambda_), logl, null))
        out |= {"logl_H1": logl, "l_mle": lambda_, "p_lrt": p, "logl_mle": logl}
        out.setdefault("neg_log10_p", 0.0 - log_p / LN_10)
    if mode in (3, 4):
        score = _wald(model, x, np.array([math.log(null.lambda_mle)]))
        p, log_p = f_tail(score["f_score"], df)
        out |= {"p_score": p}
        for name, value in (("beta", score["beta"]), ("se", score["se"]), ("neg_log10_p", 0.0 - log_p / LN_10)):
            out.setdefault(name, value)
    return out


def _reasons(model: Model, x: F64) -> np.ndarray:
    """Why a rotated variant cannot be tested, from its plain (lambda = 0) sums; 0 where it can."""
    t = np.array([-np.inf])
    gram = gram_jets(model, x, t)[0]
    xx = gram[0, :, model.scaling.n_cvt, model.scaling.n_cvt]
    rest = eliminate(gram, model.scaling.n_cvt)[0][0]
    reason = np.zeros(x.shape[1], np.uint8)
    left = rest[:, 1, 1] - rest[:, 0, 1] ** 2 / np.where(rest[:, 0, 0] > 0, rest[:, 0, 0], 1.0)
    reason[left <= PERFECT_FIT * rest[:, 1, 1]] = REASON_PERFECT_FIT
    reason[~(rest[:, 0, 0] > COLLINEAR * xx)] = REASON_COLLINEAR
    reason[~np.isfinite(xx)] = REASON_NOT_FINITE
    return reason


def associate(eigenvalues: F64, u: F64, w: F64, y: F64, x: F64, config: LmmConfig) -> dict[str, F64]:
    """Test variants one by one against the phenotype.

    Parameters
    ----------
    eigenvalues : ndarray of float64, shape (n,)
        Of the kinship, none negative.
    u : ndarray of float64, shape (n, n)
        Columns are the eigenvectors.
    w : ndarray of float64, shape (n, c)
        Covariates with the intercept, of full rank.
    y : ndarray of float64, shape (n,)
        Phenotype.
    x : ndarray of float64, shape (n, k)
        Dosages without NaN.
    config : LmmConfig
        `lmm_mode`, `l_min` and `l_max` are used.

    Returns
    -------
    dict of ndarray, shape (k,)
        The mode's statistics (`jamma.lmm.schema.STATISTICS`), `logl_remle` and `logl_mle` where they were computed,
        `neg_log10_p` of the mode's first test, and `reason` (uint8, see `REASONS`): statistics are nan where it is
        not 0.
    """
    model = make_model(eigenvalues, u, w, y)
    return associate_rotated(model, fit_null_of(model, config), rotate(model, u, x), config)


def rotate(model: Model, u: F64, x: F64) -> F64:
    """U'x, of variants centred where the covariates hold the constant (which changes no statistic)."""
    return u.T @ (x - x.mean(0) if np.any(model.scaling.ones) else x)


def associate_rotated(model: Model, null: NullModel, x: F64, config: LmmConfig) -> dict[str, F64]:
    """`associate` for variants that are already rotated, shape (n, k)."""
    k = x.shape[1]
    reason = np.zeros(k, np.uint8)
    extra = {1: ("logl_remle",), 2: ("logl_mle",), 3: (), 4: ("logl_remle", "logl_mle")}[config.lmm_mode]
    out = {name: np.full(k, np.nan) for name in (*STATISTICS[config.lmm_mode], *extra, "neg_log10_p")}
    for start in range(0, k, _BLOCK):
        block = x[:, start : start + _BLOCK]
        reason[start : start + _BLOCK] = _reasons(model, block)
        good = np.flatnonzero(reason[start : start + _BLOCK] == REASON_OK)
        if good.size:
            for name, value in _block(model, null, block[:, good], config).items():
                out[name][start + good] = value
    bad = (reason == REASON_OK) & ~np.all([np.isfinite(v) for v in out.values()], axis=0)
    reason[bad] = REASON_NOT_FINITE
    for value in out.values():
        value[bad] = np.nan
    return {**out, "reason": reason}
