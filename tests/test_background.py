"""Reading ahead and writing behind."""

from __future__ import annotations

import threading

import pytest

from jamma.core.background import WriteBehind, read_ahead


def test_read_ahead_keeps_the_order():
    assert list(read_ahead(iter(range(100)), depth=3)) == list(range(100))


def test_read_ahead_raises_the_producers_error_in_its_place():
    def items():
        yield 1
        raise ValueError("broken file")

    seen = []
    with pytest.raises(ValueError, match="broken file"):
        for item in read_ahead(items()):
            seen.append(item)
    assert seen == [1]


def test_read_ahead_ends_its_thread_when_the_consumer_stops():
    for item in read_ahead(iter(range(10**9))):
        if item == 3:
            break
    assert not [t for t in threading.enumerate() if t.name == "jamma-reader"]


def test_read_ahead_is_bounded():
    produced = []

    def items():
        for i in range(50):
            produced.append(i)
            yield i

    stream = read_ahead(items(), depth=2)
    next(stream)
    threading.Event().wait(0.3)
    assert len(produced) <= 1 + 2 + 1
    stream.close()


def test_write_behind_writes_everything_in_order():
    seen: list[int] = []
    with WriteBehind(seen.append, depth=2) as out:
        for i in range(50):
            out.put(i)
    assert seen == list(range(50))


def test_write_behind_raises_the_writers_error():
    def write(i: int) -> None:
        if i == 3:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), WriteBehind(write) as out:
        for i in range(1000):
            out.put(i)


def test_write_behind_drops_what_waits_after_an_error_of_the_block():
    release = threading.Event()
    seen: list[int] = []

    def write(i: int) -> None:
        release.wait(5)
        seen.append(i)

    with pytest.raises(KeyboardInterrupt), WriteBehind(write, depth=5) as out:
        for i in range(4):
            out.put(i)
        threading.Timer(0.1, release.set).start()
        raise KeyboardInterrupt
    assert len(seen) <= 1
