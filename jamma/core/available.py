"""How much memory this process may use: the smallest of what is free, cgroup limits, ``ulimit -v`` and a budget.

A batch job or a container sees the machine's free memory but is killed at its own bound, so all bounds count.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

GB = 2**30
MIB = 2**20

#: Runs are planned for this much less than was found, because other programs' use changes during a run.
MARGIN = 0.10
#: Address space that threads reserve without using it; counts against ``ulimit -v`` only.
ADDRESS_RESERVE = 512 * MIB


class Available(NamedTuple):
    """Memory that this process may use in all (what it holds already included)."""

    bytes: int
    source: str
    is_budget: bool = False

    @property
    def usable(self) -> int:
        """What a run may be planned for: 10 % less than was found; a budget is taken at its word."""
        return self.bytes if self.is_budget else round(self.bytes / (1 + MARGIN))


def available_memory(mem_budget: float | None = None, root: str | Path = "/") -> Available:
    """The smallest of free memory, cgroup limits, ``ulimit`` and the user's budget.

    Parameters
    ----------
    mem_budget : float, optional
        In GB (``--mem-budget``).
    root : path
        Where ``proc`` and ``sys`` are (tests).
    """
    import psutil

    process = psutil.Process().memory_info()
    bounds = [Available(psutil.virtual_memory().available + process.rss, "free memory")]
    bounds += [Available(max(0, free) + process.rss, "cgroup limit") for free in cgroup_headroom(root)]
    bounds += [Available(max(0, limit), name) for name, limit in _ulimits(process.rss, process.vms)]
    if mem_budget is not None:
        bounds.append(Available(int(mem_budget * GB), "--mem-budget", is_budget=True))
    return min(bounds, key=lambda bound: bound.usable)


def _ulimits(rss: int, vms: int) -> list[tuple[str, int]]:
    """The bound of ``ulimit -v`` on what the process may hold in memory, where there is one."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit in (resource.RLIM_INFINITY, -1):
        return []
    return [("ulimit -v", limit - vms - ADDRESS_RESERVE + rss)]


def cgroup_headroom(root: str | Path = "/") -> list[int]:
    """Bytes that each limiting cgroup of this process, or above it, still allows (versions 1 and 2).

    File pages that the kernel can drop (``inactive_file``) count as free, as they do for the kernel.
    """
    root = Path(root)
    headroom = []
    for folder, names in _cgroup_folders(root):
        limit, used = _number(folder / names.limit), _number(folder / names.used)
        if limit is None or used is None or limit >= 2**60:  # "max", or version 1's page-aligned 2**63
            continue
        reclaimable = _stat(folder / "memory.stat", names.reclaimable)
        headroom.append(limit - max(0, used - reclaimable))
    return headroom


class _Names(NamedTuple):
    limit: str
    used: str
    reclaimable: str


_V2 = _Names("memory.max", "memory.current", "inactive_file")
_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _cgroup_folders(root: Path) -> list[tuple[Path, _Names]]:
    """Folders of the process's memory cgroup and all above it.

    In a container the path may be the host's, of which only the end, or nothing, can be seen: the mount itself is
    then the container's group, and it is always in the list.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            mount, names = root / "sys/fs/cgroup", _V2
            if (mount / "unified").is_dir():
                mount = mount / "unified"
        elif "memory" in controllers.split(","):
            mount, names = root / "sys/fs/cgroup/memory", _V1
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        found += [(mount.joinpath(*parts[:k]), names) for k in range(len(parts), -1, -1)]
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _stat(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(value) for key, _, value in (line.partition(" ") for line in lines) if key == name), 0)


def peak_memory_gb(root: str | Path = "/") -> float | None:
    """Largest resident size of this process so far, in units of 2**30 bytes; None where the system does not say.

    Linux's ``ru_maxrss`` counts the program that started this one, until its exec, as well; ``VmHWM`` does not.
    """
    try:
        lines = (Path(root) / "proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        peak = getattr(psutil.Process().memory_info(), "peak_wset", None)
        return None if peak is None else peak / GB
    # macOS counts bytes, others kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / GB
