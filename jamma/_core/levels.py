"""Which CPU level each extension's kernels run at, in one line for `show_config` and the log."""

from __future__ import annotations

from importlib import import_module

import jamma._core

#: Extensions whose kernels are compiled once per CPU level.
LEVELLED = ("band", "genotypes", "kinship", "likelihood", "rotate")
#: Instruction sets of the levels.
INSTRUCTIONS = {
    "avx2": "AVX2, FMA",
    "avx512": "AVX-512 with VNNI",
    "amx": "AMX-INT8, AVX-512 with VNNI",
    "neon": "NEON",
}


def kernel_levels() -> dict[str, str]:
    """The level in use of each extension; "plain NumPy" where nothing is compiled."""
    if not getattr(jamma._core, "IS_COMPILED", True):
        return dict.fromkeys(LEVELLED, "plain NumPy")
    return {name: import_module(f"jamma._core.{name}").level() for name in LEVELLED}


def describe_levels() -> str:
    """The levels in use with the extensions at each: ``amx (AMX-INT8, ...): band, genotypes, kinship, ...``."""
    extensions: dict[str, list[str]] = {}
    for name, level in kernel_levels().items():
        extensions.setdefault(level, []).append(name)
    return "; ".join(
        f"{level}{f' ({INSTRUCTIONS[level]})' if level in INSTRUCTIONS else ''}: {', '.join(names)}"
        for level, names in extensions.items()
    )
