"""The model without a variant: lambda, log-likelihoods, PVE, variances and covariate effects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from jamma.core.errors import NumericalError
from jamma.core.threads import blas_threads
from jamma.lmm.interpolation import chebyshev_matrix, interval_points
from jamma.lmm.schema import F64, NullModel
from jamma.lmm.search import FLAT, Likelihood, maximise

if TYPE_CHECKING:
    from jamma.lmm.nodes import PhenotypeTables

# y'Py below this share of y'y: the rest is rounding error.
PERFECT_FIT = 1e-12
# A curvature per sample, on the scale on which h changes, that is rounding error.
FLAT_CURVATURE = 1e-10


@dataclass(frozen=True)
class Scaling:
    """How the phenotype and the covariates as given become the internal ones, and back.

    Attributes
    ----------
    n_samples, n_cvt : int
    mean, scale : float
        Internal phenotype = (phenotype - mean) / scale.
    r : ndarray of float64, shape (n_cvt, n_cvt)
        Covariates W = Q r with Q the internal, orthonormal ones.
    ones : ndarray of float64, shape (n_cvt,)
        W ones = 1; zeros where the constant is not in the span of W (then mean is 0).
    """

    n_samples: int
    n_cvt: int
    mean: float
    scale: float
    r: F64
    ones: F64


def assemble_null_model(
    scaling: Scaling, *, lambdas: tuple[float, float], logls: tuple[float, float], curvature: float, residual: float,
    effects: F64, covariance: F64, trace_g: float, d_max: float,
) -> NullModel:  # fmt: skip
    """Turn the internal estimates into a `NullModel` on the scale of the phenotype.

    With s the mean eigenvalue and lambda the REML estimate, PVE = s lambda/(s lambda + 1), its standard error is
    s/(s lambda + 1)^2 sqrt(-1/l''(lambda)), ve = y'Py/(n - c), vg = lambda ve.

    Parameters
    ----------
    scaling : Scaling
    lambdas, logls : pairs of float
        Of REML and ML; the log-likelihoods on the scale of the phenotype as given.
    curvature : float
        Second derivative in lambda of the restricted log-likelihood at its maximum.
    residual : float
        y'Py of the internal phenotype.
    effects, covariance : ndarray of float64, shapes (c,) and (c, c)
        Of the internal covariates on the internal phenotype, at unit residual variance.
    trace_g, d_max : float
        Mean and largest eigenvalue of the kinship.
    """
    lambda_ = lambdas[0]
    ve = residual / (scaling.n_samples - scaling.n_cvt) * scaling.scale**2
    denominator = trace_g * lambda_ + 1.0
    concave = d_max > 0 and -curvature * (lambda_ + 1.0 / d_max) ** 2 > FLAT_CURVATURE * scaling.n_samples
    pve_se = trace_g / denominator**2 * math.sqrt(-1.0 / curvature) if concave else None
    inverse = np.linalg.inv(scaling.r)
    variances = np.einsum("ij,jk,ik->i", inverse, covariance, inverse) * ve
    return NullModel(
        lambda_remle=lambda_, logl_remle=logls[0], lambda_mle=lambdas[1], logl_mle=logls[1],
        pve=trace_g * lambda_ / denominator, pve_se=pve_se, vg=lambda_ * ve, ve=ve,
        beta=inverse @ effects * scaling.scale + scaling.ones * scaling.mean, se_beta=np.sqrt(variances),
        trace_g=trace_g,
    )  # fmt: skip


@blas_threads(1)
def fit_null_model(tables: PhenotypeTables) -> NullModel:
    """The model without a variant, from the tables alone.

    Both likelihoods are Chebyshev series of exactly computed values, right to rounding error with their derivatives;
    effects and variances come from a Gram matrix at the REML lambda itself.

    Raises
    ------
    NumericalError
        If the covariates explain the phenotype perfectly, or a likelihood is not finite.
    """
    scaling, c = tables.scaling, tables.scaling.n_cvt
    at_zero = tables.gram(np.zeros(1))[0]
    if not _residual(at_zero, c) > PERFECT_FIT * at_zero[c, c]:
        raise NumericalError("the covariates explain the phenotype perfectly: no variance is left to model")
    l_min, l_max = tables.nodes.l_min, tables.nodes.l_max
    restricted, full = null_likelihood(tables, True), null_likelihood(tables, False)
    flat = FLAT * scaling.n_samples
    lambda_r, logl_r = maximise(restricted, 1, l_min, l_max, flat, len(tables.nodes.ends) - 1)
    lambda_m, logl_m = maximise(full, 1, l_min, l_max, flat, len(tables.nodes.ends) - 1)
    if not (np.isfinite(logl_r[0]) and np.isfinite(logl_m[0])):
        raise NumericalError("the likelihood of the model without a variant is not finite")
    gram = tables.gram(lambda_r)[0]
    return assemble_null_model(
        scaling, lambdas=(float(lambda_r[0]), float(lambda_m[0])), logls=(float(logl_r[0]), float(logl_m[0])),
        curvature=_curvature(tables, float(lambda_r[0])), residual=_residual(gram, c),
        effects=np.linalg.solve(gram[:c, :c], gram[:c, c]), covariance=np.linalg.inv(gram[:c, :c]),
        trace_g=float(np.mean(tables.nodes.eigenvalues)), d_max=float(tables.nodes.eigenvalues.max()),
    )  # fmt: skip


def _curvature(tables: PhenotypeTables, lambda_: float) -> float:
    """Second derivative of REML in lambda itself, from a polynomial through exact values around `lambda_`.

    The derivatives in ln(lambda) would leave only rounding error of it where lambda is small. The poles nearest to
    lambda are at -1/d_max, so an interval of half that distance on both sides has a series in powers of 1/3.7.
    """
    d, c = tables.nodes.eigenvalues, tables.scaling.n_cvt
    if not d.max() > 0:
        return 0.0
    half_width, terms = 0.5 * (lambda_ + 1.0 / d.max()), 28
    domain = np.array([lambda_ - half_width, lambda_ + half_width])
    at = interval_points(domain, terms)[0]
    gram = tables.gram(at)
    values = -0.5 * np.log1p(np.outer(at, d)).sum(axis=1) - 0.5 * np.linalg.slogdet(gram[:, :c, :c])[1]
    values -= 0.5 * (tables.scaling.n_samples - c) * np.log([_residual(g, c) for g in gram])
    return float(chebyshev.Chebyshev(values @ chebyshev_matrix(terms), domain=domain).deriv(2)(lambda_))


def _residual(gram: F64, c: int) -> float:
    """y'Py from the Gram matrix of [Q, y]."""
    return float(gram[c, c] - gram[:c, c] @ np.linalg.solve(gram[:c, :c], gram[:c, c]))


def null_likelihood(tables: PhenotypeTables, restricted: bool) -> Likelihood:
    """The null model's REML or ML function, of the phenotype as given, with its derivatives in ln(lambda)."""
    scaling, nodes = tables.scaling, tables.nodes
    df = scaling.n_samples - scaling.n_cvt if restricted else scaling.n_samples
    constant = 0.5 * df * (math.log(df / (2 * math.pi)) - 1.0) - df * math.log(scaling.scale)
    log_part, log_slope = tables.null_log_part(restricted)
    per_t = 2.0 / (nodes.ends[1] - nodes.ends[0])

    def evaluate(t: F64, which: NDArray[np.int64]) -> tuple[F64, F64, F64]:
        j, u = nodes.locate(float(t[0]))
        rss = float(chebyshev.chebval(u, tables.residual[j]))
        rss_slope = float(chebyshev.chebval(u, tables.residual_slope[j])) / rss
        second = [
            per_t * float(chebyshev.chebval(u, chebyshev.chebder(series[j])))
            for series in (log_slope, tables.residual_slope)
        ]
        value = constant + float(chebyshev.chebval(u, log_part[j])) - 0.5 * df * math.log(rss)
        first = float(chebyshev.chebval(u, log_slope[j])) - 0.5 * df * rss_slope
        curvature = second[0] - 0.5 * df * (second[1] / rss - rss_slope * (rss_slope - nodes.decays[j]))
        return np.array([value]), np.array([first]), np.array([curvature])

    return evaluate
