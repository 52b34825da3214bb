"""ILP64 BLAS and LAPACK, found at run time. Private: `jamma.jlinalg` is the checked interface."""

import jamma._core  # decides whether jamma._blas.blas is the compiled one  # noqa: F401
