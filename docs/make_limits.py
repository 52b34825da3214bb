"""Write the table of how many samples fit into memory, from jamma's own estimate.

usage: python docs/make_limits.py
"""

from __future__ import annotations

from blocks import DOCS, table, write_block

from jamma.core.memory import sample_limits

#: Memory of a machine and what its system and other programs leave of it, in GB.
MACHINES = {"16 GB": 14, "32 GB": 28, "64 GB": 58, "128 GB": 120, "256 GB": 240, "512 GB": 490, "1 TB": 990}


def limits_table() -> str:
    """Machines by rows, ways to reduce the kinship by columns."""
    rows = []
    for machine, available in MACHINES.items():
        limits = sample_limits(available)
        rows.append([machine, f"{available} GB", *(f"{n // 100 * 100:,}" for n in limits.values())])
    return table(["Machine", "Free", *(f"`{name}`" for name in limits)], rows)


if __name__ == "__main__":
    write_block(DOCS / "PERFORMANCE.md", "limits", limits_table())
