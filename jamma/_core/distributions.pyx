"""Tail probabilities of the F and chi-square distributions, and their logarithms."""
from libc.math cimport erfc, sqrt


def chi2_1_sf(double x):
    """Upper tail of the chi-square distribution with one degree of freedom: erfc(sqrt(x/2))."""
    return erfc(sqrt(0.5 * x))
