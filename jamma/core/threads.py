"""How many threads the kernels and the BLAS may use, and holding the BLAS to a number for a while.

Environment variables, read at each call:

- ``OMP_NUM_THREADS``: threads of the kernels, and of the BLAS where the next one is not set. Of OpenMP's list form
  (``4,2``) the first number counts.
- ``JAMMA_BLAS_THREADS``: threads of the BLAS.

Without them, the CPUs that the process may use: its affinity mask, or less where a cgroup sets a CPU quota (a
container or a batch job sees all CPUs of the machine, but is stopped for part of each period when it uses them).
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from jamma.core.errors import UsageError

MAX_THREADS = 4096

_forked = False


def _after_fork_in_child() -> None:
    """Note the fork, and forget what other threads of the parent had asked for: they do not exist here."""
    global _forked, _limits
    _forked = True
    _limits = _BlasLimits(_limits.registered)


def threads_from_environment(name: str) -> int | None:
    """Read a thread count from an environment variable.

    Parameters
    ----------
    name : str
        The variable.

    Returns
    -------
    int or None
        Its value; None where it is not set or empty.

    Raises
    ------
    UsageError
        It is no whole number from 1 to 4096.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    first = text.split(",")[0].strip() if name == "OMP_NUM_THREADS" else text
    if not (first.isascii() and first.isdigit() and 1 <= int(first) <= MAX_THREADS):
        raise UsageError(
            f"{name}={text!r}: expected a number of threads from 1 to {MAX_THREADS}; correct it or unset it"
        )
    return int(first)


def _quota_of_folder(folder: Path) -> float:
    """CPUs that one cgroup's files allow (version 2, then version 1); infinity where they set no bound."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()[:2]
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        except OSError:
            return math.inf
    try:
        allowed = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max"
        return math.inf
    return allowed if allowed > 0 else math.inf  # version 1 says -1 for no bound


def cgroup_cpus(root: str | Path = "/") -> float:
    """CPUs that the cgroups of this process allow by their quota.

    Parameters
    ----------
    root : path
        Where ``proc`` and ``sys`` are (tests).

    Returns
    -------
    float
        The smallest quota / period of the process's group and those above it; infinity where there is none.
    """
    root = Path(root)
    mount = root / "sys/fs/cgroup"
    allowed = math.inf
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return allowed
    for line in lines:
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        hierarchy, controllers, path = fields
        if hierarchy == "0" and not controllers:
            base = mount
        elif "cpu" in controllers.split(","):
            base = mount / controllers if (mount / controllers).is_dir() else mount / "cpu"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        # Inside a container the path may be that of the host, of which only the last folder is seen, as the root.
        for depth in range(len(parts), -1, -1):
            allowed = min(allowed, _quota_of_folder(base.joinpath(*parts[:depth])))
    return allowed


def available_cpus(root: str | Path = "/") -> int:
    """CPUs that this process may use: affinity mask, and cgroup quota rounded up; at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = cgroup_cpus(root)
    return max(1, cpus if math.isinf(quota) else min(cpus, math.ceil(quota)))


def kernel_threads(requested: int | None = None) -> int:
    """Threads for jamma's own kernels.

    Parameters
    ----------
    requested : int, optional
        What the caller asks for; without it ``OMP_NUM_THREADS``, else `available_cpus`.

    Returns
    -------
    int
        At least 1. Always 1 in a forked child: libgomp's thread pool does not survive a fork, and a parallel
        region in the child would wait for threads that do not exist.

    Raises
    ------
    UsageError
        `requested` is less than 1, or the variable has no usable value.
    """
    if requested is not None and not 1 <= requested <= MAX_THREADS:
        raise UsageError(f"{requested} threads: expected a number from 1 to {MAX_THREADS}")
    from_environment = threads_from_environment("OMP_NUM_THREADS")
    if _forked:
        return 1
    return requested or from_environment or available_cpus()


def default_blas_threads() -> int:
    """Threads for the BLAS: ``JAMMA_BLAS_THREADS``, else ``OMP_NUM_THREADS``, else physical cores within the CPUs
    that the process may use (a second hardware thread on a core adds nothing to a matrix product)."""
    asked = threads_from_environment("JAMMA_BLAS_THREADS") or threads_from_environment("OMP_NUM_THREADS")
    if asked:
        return asked
    import psutil

    available = available_cpus()
    return min(available, psutil.cpu_count(logical=False) or available)


# Calls that read and set the thread count of the process, by value, under the names that builds give them.
# threadpoolctl's own calls would not do: they set MKL's count for the calling thread alone, and OpenBLAS's only from
# the thread that was first to do so.
THREAD_CALLS = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


class BlasControl(NamedTuple):
    """One loaded BLAS: its file, and calls to read and set its thread count."""

    file: str
    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], Any]


def blas_control(file: str) -> BlasControl | None:
    """The calls of a loaded library; None where it has none of `THREAD_CALLS` (Accelerate)."""
    library = ctypes.CDLL(file)
    for get, set_ in THREAD_CALLS:
        if hasattr(library, get) and hasattr(library, set_):
            return BlasControl(file, getattr(library, get), getattr(library, set_))
    return None


class _BlasLimits:
    """What the threads of this process have asked for, and the counts to go back to.

    The libraries know one count for the whole process. In each Python thread the innermost `blas_threads` counts, and
    the smallest of these is in force; when the last one ends, the counts of before the first are put back.
    """

    def __init__(self, registered: str | None = None) -> None:
        self.lock = threading.Lock()
        self.registered = registered
        self.controls: list[BlasControl] | None = None
        self.asked: dict[int, list[int]] = {}
        self.before: list[tuple[BlasControl, int]] = []

    def all_controls(self) -> list[BlasControl]:
        """The library that jamma calls, then any other loaded BLAS that threadpoolctl finds (NumPy's)."""
        if self.controls is None:
            import threadpoolctl

            loaded = [
                library["filepath"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"
            ]
            files = dict.fromkeys(os.path.realpath(file) for file in [self.registered, *loaded] if file)
            self.controls = [control for control in map(blas_control, files) if control is not None]
        return self.controls

    def apply(self) -> None:
        """Set the smallest count asked for, or put back those of before."""
        if not self.asked:
            for control, count in self.before:
                control.set_num_threads(count)
            self.before = []
            return
        n_threads = min(stack[-1] for stack in self.asked.values())
        for control, _ in self.before:
            if control.get_num_threads() != n_threads:
                control.set_num_threads(n_threads)

    def resolve(self, n_threads: int | None, thread: int) -> int:
        """The count that None stands for: this thread's innermost one, else the default, never above the present."""
        if n_threads is not None:
            return n_threads
        if self.asked.get(thread):
            return self.asked[thread][-1]
        present = [control.get_num_threads() for control in self.all_controls()[:1]]
        return min([default_blas_threads(), *(count for count in present if count > 0)])


_limits = _BlasLimits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def register_blas(file: str | None) -> None:
    """Tell which library jamma calls (`jamma.jlinalg` does, when it has chosen one)."""
    limits = _limits
    with limits.lock:
        limits.registered = file
        limits.controls = None


def blas_is_controllable() -> bool:
    """Whether the library that jamma calls has a call for its thread count."""
    limits = _limits
    with limits.lock:
        registered = os.path.realpath(limits.registered) if limits.registered else None
        return any(control.file == registered for control in limits.all_controls())


@contextmanager
def blas_threads(n_threads: int | None = None) -> Iterator[int]:
    """Hold every loaded BLAS to a number of threads; the numbers of before are put back at the end.

    Parameters
    ----------
    n_threads : int, optional
        Threads. None keeps the innermost `blas_threads` of this Python thread; outside any, it is
        `default_blas_threads`, or the library's present count if that is smaller.

    Yields
    ------
    int
        The number asked for.

    Notes
    -----
    A library's count belongs to the whole process: while several Python threads hold different numbers, the smallest
    is in force. Accelerate has no call for it and keeps its own count.

    Raises
    ------
    UsageError
        `n_threads` is less than 1, or a variable has no usable value.
    """
    if n_threads is not None and not 1 <= n_threads <= MAX_THREADS:
        raise UsageError(f"{n_threads} BLAS threads: expected a number from 1 to {MAX_THREADS}")
    thread = threading.get_ident()
    limits = _limits
    with limits.lock:
        asked = limits.resolve(n_threads, thread)
        if not limits.asked:
            limits.before = [(control, control.get_num_threads()) for control in limits.all_controls()]
        limits.asked.setdefault(thread, []).append(asked)
        limits.apply()
    try:
        yield asked
    finally:
        with limits.lock:
            stack = limits.asked[thread]
            stack.pop()
            if not stack:
                del limits.asked[thread]
            limits.apply()
