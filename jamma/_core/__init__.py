"""Compiled kernels: no input or output, no validation, status codes out. Private; see the modules that call them.

Where they cannot be imported, or JAMMA_NO_EXT is set, the NumPy modules of `jamma._plain` have their names.
"""

from jamma.core.extensions import use_compiled

#: Whether the kernels are the compiled ones.
IS_COMPILED = use_compiled()
