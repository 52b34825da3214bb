"""Compiled kernels: no input or output, no validation, status codes out. Private; see the modules that call them."""
