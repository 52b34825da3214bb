"""The model without a variant: lambda, log-likelihoods, PVE, variances and covariate effects."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jamma.lmm.schema import F64, NullModel


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
    effects: F64, covariance: F64, trace_g: float,
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
        lambda^2 times the second derivative in lambda of the restricted log-likelihood.
    residual : float
        y'Py of the internal phenotype.
    effects, covariance : ndarray of float64, shapes (c,) and (c, c)
        Of the internal covariates on the internal phenotype, at unit residual variance.
    trace_g : float
        Mean eigenvalue of the kinship.
    """
    lambda_ = lambdas[0]
    ve = residual / (scaling.n_samples - scaling.n_cvt) * scaling.scale**2
    denominator = trace_g * lambda_ + 1.0
    pve_se = trace_g * lambda_ / denominator**2 * math.sqrt(-1.0 / curvature) if curvature < 0 else None
    inverse = np.linalg.inv(scaling.r)
    variances = np.einsum("ij,jk,ik->i", inverse, covariance, inverse) * ve
    return NullModel(
        lambda_remle=lambda_, logl_remle=logls[0], lambda_mle=lambdas[1], logl_mle=logls[1],
        pve=trace_g * lambda_ / denominator, pve_se=pve_se, vg=lambda_ * ve, ve=ve,
        beta=inverse @ effects * scaling.scale + scaling.ones * scaling.mean, se_beta=np.sqrt(variances),
        trace_g=trace_g,
    )  # fmt: skip
