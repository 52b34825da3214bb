"""The extensions of `jamma._core` and `jamma._blas` in plain NumPy: what runs where nothing compiled can be imported.

Each module has the name, functions and results of an extension, as far as Python code calls it; the documentation is
the extension's. `jamma.core.extensions` puts them in place. Numbers agree to rounding error, not to the bit.
"""
