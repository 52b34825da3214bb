"""ILP64 BLAS and LAPACK, found at run time. Private: `jamma.jlinalg` is the checked interface."""
