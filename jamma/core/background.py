"""Reading ahead and writing behind: one thread each, bounded queues, errors carried to the caller."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_END = object()


def read_ahead(items: Iterable[T], depth: int = 1) -> Iterator[T]:
    """Iterate over `items`, which a background thread produces up to `depth` ahead.

    An exception of the producer is raised here, at its place in the order. When the consumer stops early the
    producer ends after the item in hand.
    """
    ready: queue.Queue[Any] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((_END, None))
        except BaseException as error:  # whatever it is belongs to the consumer's thread
            put((_END, error))

    thread = threading.Thread(target=produce, name="jamma-reader", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stop.set()
        thread.join()


class WriteBehind(Generic[T]):
    """Hand items to `write` in a background thread, in order, at most `depth` waiting.

    A context manager: leaving it waits for the last item. An exception in `write` is raised by the next `put` or
    on leaving. When the block ends by an exception of its own, items that still wait are dropped.
    """

    def __init__(self, write: Callable[[T], None], depth: int = 1):
        self._write = write
        self._waiting: queue.Queue[Any] = queue.Queue(maxsize=depth)
        self._error: BaseException | None = None
        self._drop = False
        self._thread = threading.Thread(target=self._consume, name="jamma-writer", daemon=True)
        self._thread.start()

    def _consume(self) -> None:
        while (item := self._waiting.get()) is not _END:
            if self._error is None and not self._drop:
                try:
                    self._write(item)
                except BaseException as error:  # raised in the thread that puts
                    self._error = error

    def put(self, item: T) -> None:
        """Queue one item; waits while `depth` items are queued."""
        self._raise_error()
        self._waiting.put(item)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def __enter__(self) -> WriteBehind[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._drop = kind is not None
        self._waiting.put(_END)
        self._thread.join()
        if kind is None:
            self._raise_error()
