"""Progress of the phases of a run: a bar on a terminal or in a notebook, plain lines elsewhere, nothing by default.

A phase that takes less than two seconds shows nothing. On a terminal a phase has a bar (tqdm) with its rate and the
time left; without one, a line at most every 10 %. Both go to standard error, so that results can be piped. A phase
that is one library call (an eigendecomposition) cannot be counted: it shows the time passed and, where the caller has
an estimate of its duration, the share of that.

tqdm is imported when the first bar is wanted, not before.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import Any, Protocol, TextIO

DELAY_S = 2.0
TICK_S = 0.5


class Progress(Protocol):
    """What a phase is given; a context manager whose `update` may be called from any thread."""

    def update(self, k: int = 1) -> None:
        """Count `k` more units as done."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress(
    phase: str,
    total: int | None,
    unit: str = "variants",
    enabled: bool = False,
    *,
    expected_s: float | None = None,
    stream: TextIO | None = None,
) -> Progress:
    """Progress of one phase.

    Parameters
    ----------
    phase : str
        Its name, as the user is to read it.
    total : int or None
        Units of work; None for a phase that cannot be counted.
    unit : str
        Name of the units.
    enabled : bool
        False: nothing is shown.
    expected_s : float, optional
        Estimated duration in seconds of a phase without `total`.
    stream : text file, optional
        Where to show it; default: standard error.

    Examples
    --------
    >>> with progress("kinship", total=3) as phase:
    ...     for _ in range(3):
    ...         phase.update()
    """
    if not enabled:
        return Silent()
    out = stream or sys.stderr
    if out is None:  # a program without a console
        return Silent()
    notebook = stream is None and in_notebook()
    if notebook or out.isatty():
        return Bar(phase, total, unit, expected_s, out, notebook)
    return Lines(phase, total, unit, expected_s, out)


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel (which a terminal IPython is not); imports nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


class Silent:
    """Shows nothing."""

    def update(self, k: int = 1) -> None:
        """Do nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _Shown:
    """What bars and lines share: the clock, the count, and a ticker for phases that nobody counts."""

    def __init__(self, phase: str, total: int | None, unit: str, expected_s: float | None, stream: TextIO):
        self.phase, self.total, self.unit, self.expected_s, self.stream = phase, total, unit, expected_s, stream
        self.done = 0
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._run_ticker, daemon=True) if total is None else None

    @property
    def elapsed(self) -> float:
        """Seconds since the phase began."""
        return time.monotonic() - self._start

    def update(self, k: int = 1) -> None:
        """Count `k` more units as done."""
        with self._lock:
            self.done += k
            self._show(k)

    def __enter__(self) -> _Shown:
        self._start = time.monotonic()
        if self._ticker:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._ticker:
            self._ticker.join()
        with self._lock:
            self._close(completed=kind is None)

    def _run_ticker(self) -> None:
        while not self._stop.wait(TICK_S):
            with self._lock:
                if self.elapsed >= DELAY_S:
                    self._tick()

    def _show(self, k: int) -> None:
        raise NotImplementedError

    def _tick(self) -> None:
        raise NotImplementedError

    def _close(self, completed: bool) -> None:
        raise NotImplementedError


class Bar(_Shown):
    """A bar by tqdm: on a terminal, or as a widget in a notebook."""

    def __init__(
        self, phase: str, total: int | None, unit: str, expected_s: float | None, stream: TextIO, notebook: bool
    ):
        super().__init__(phase, total, unit, expected_s, stream)
        options: dict[str, Any] = {"desc": phase, "unit": f" {unit}", "miniters": 0, "delay": DELAY_S}
        options |= {"dynamic_ncols": True} if notebook or has_size(stream) else {"ncols": 80, "nrows": 24}
        if total is not None:
            options |= {"total": total, "unit_scale": total >= 100_000}
        elif expected_s is not None:
            shape = f"{{desc}}: {{percentage:3.0f}}% |{{bar}}| {{elapsed}} of about {clock(expected_s)}"
            options |= {"total": max(expected_s, TICK_S), "bar_format": shape, "mininterval": 0}
        else:
            options |= {"bar_format": "{desc}: {elapsed}", "mininterval": 0}
        if not notebook:
            options["file"] = stream
        self._bar = _bar_class(notebook)(**options)

    def _show(self, k: int) -> None:
        if self.total is not None:
            self._bar.update(k)

    def _tick(self) -> None:
        step = 0.0
        if self.expected_s is not None:  # an estimate never claims to be complete before the work is
            step = max(min(self.elapsed, 0.99 * self._bar.total) - self._bar.n, 0)
        self._bar.update(step)  # not refresh(): tqdm ends the line only of a bar that was updated after the delay

    def _close(self, completed: bool) -> None:
        if completed and self.total is None and self.expected_s is not None and self.elapsed >= DELAY_S:
            self._bar.update(self._bar.total - self._bar.n)
        self._bar.close()


def has_size(stream: TextIO) -> bool:
    """Whether the terminal tells its size; some (of scripts, of containers) say 0, and tqdm would print nothing."""
    try:
        return os.get_terminal_size(stream.fileno()).columns > 0
    except (OSError, ValueError):
        return False


def _bar_class(notebook: bool) -> Any:
    """tqdm's class, without its global monitor thread and multiprocessing lock (both are unsafe after fork)."""
    if notebook:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets tqdm says so and falls back to text
            from tqdm.auto import tqdm
    else:
        from tqdm import tqdm
    made: Any = type("JammaBar", (tqdm,), {"monitor_interval": 0})
    made.set_lock(threading.RLock())
    return made


class Lines(_Shown):
    """Plain lines: the first after two seconds, then one at most every 10 %."""

    def __init__(self, phase: str, total: int | None, unit: str, expected_s: float | None, stream: TextIO):
        super().__init__(phase, total, unit, expected_s, stream)
        self._shown_tenth = -1
        self._next_tick = DELAY_S

    def _show(self, k: int) -> None:
        if not self.total or self.elapsed < DELAY_S:
            return
        tenth = min(self.done, self.total) * 10 // self.total
        if tenth > self._shown_tenth:
            self._shown_tenth = tenth
            rate = self.done / self.elapsed
            left = (self.total - self.done) / rate if rate else 0
            self._print(
                f"{100 * self.done // self.total:3d} % ({self.done:,} of {self.total:,} {self.unit}, "
                f"{rate:,.0f}/s, {clock(left)} left)"
            )

    def _tick(self) -> None:
        if self.elapsed < self._next_tick:
            return
        if self.expected_s:
            self._next_tick = self.elapsed + max(self.expected_s / 10, DELAY_S)
            self._print(f"{clock(self.elapsed)} of about {clock(self.expected_s)}")
        else:  # twice as long each time: few lines however long it takes
            self._next_tick = 2 * self.elapsed
            self._print(clock(self.elapsed))
        self._shown_tenth = 0

    def _close(self, completed: bool) -> None:
        if self._shown_tenth >= 0:
            self._print(f"{'done' if completed else 'stopped'} after {clock(self.elapsed)}")

    def _print(self, text: str) -> None:
        print(f"{self.phase}: {text}", file=self.stream, flush=True)


def clock(seconds: float) -> str:
    """A duration as ``5 s``, ``2:05`` or ``1:02:05``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, s = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{s:02d}" if hours else f"{minutes}:{s:02d}"
