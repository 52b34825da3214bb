"""Wall time by phase."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up wall seconds under names; a phase may be entered many times, from several threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()
        self._lock = threading.Lock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a block under `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def timing(self) -> dict[str, float]:
        """Seconds by phase, and ``total_s`` since the clock was made."""
        return {**self.seconds, "total_s": time.perf_counter() - self._start}
