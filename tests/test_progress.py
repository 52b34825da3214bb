"""Progress: bars on a terminal, few plain lines elsewhere, silence by default."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from jamma.core import progress as module
from jamma.core.progress import Bar, Lines, Silent, clock, progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def time_flies(monkeypatch):
    """A clock in the test's hand: `.now` is what the module reads."""
    hand = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: hand.now))
    return hand


def test_silent_by_default(capsys):
    with progress("kinship", 10) as p:
        assert isinstance(p, Silent)
        p.update(10)
    assert capsys.readouterr() == ("", "")


def test_disabled_progress_does_not_import_tqdm():
    code = "import sys; from jamma.core.progress import progress; progress('a', 3); assert 'tqdm' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_lines_at_most_every_tenth(time_flies):
    out = io.StringIO()
    with progress("association", 1000, enabled=True, stream=out) as p:
        assert isinstance(p, Lines)
        for _ in range(1000):
            time_flies.now += 0.01
            p.update()
    lines = out.getvalue().splitlines()
    percent = [int(m[1]) for line in lines if (m := re.search(r"(\d+) %", line))]
    assert percent == [20, 30, 40, 50, 60, 70, 80, 90, 100]  # the first two tenths were within two seconds
    assert lines[0] == "association:  20 % (200 of 1,000 variants, 100/s, 8 s left)"
    assert lines[-1] == "association: done after 10 s"


def test_short_phase_prints_nothing(time_flies):
    out = io.StringIO()
    with progress("kinship", 10, enabled=True, stream=out) as p:
        time_flies.now += 1.9
        p.update(10)
    assert out.getvalue() == ""


def test_lines_say_when_a_phase_was_stopped(time_flies):
    out = io.StringIO()
    with pytest.raises(KeyError), progress("kinship", 10, enabled=True, stream=out) as p:
        time_flies.now += 5
        p.update(5)
        raise KeyError
    assert out.getvalue().splitlines()[-1] == "kinship: stopped after 5 s"


def test_total_of_zero(time_flies):
    out = io.StringIO()
    with progress("kinship", 0, enabled=True, stream=out) as p:
        time_flies.now += 5
        p.update(0)
    assert out.getvalue() == ""


def test_updates_from_many_threads_are_all_counted():
    p = Lines("kinship", 4000, "variants", None, io.StringIO())

    def count() -> None:
        for _ in range(1000):
            p.update()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert p.done == 4000


def test_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    out = Terminal()
    with progress("association", 50, enabled=True, stream=out) as p:
        assert isinstance(p, Bar)
        for _ in range(50):
            p.update()
    last = out.getvalue().split("\r")[-1]
    assert last.startswith("association: 100%|")
    assert "50/50" in last
    assert "variants/s" in last


def test_bar_shows_nothing_within_two_seconds():
    out = Terminal()
    with progress("association", 50, enabled=True, stream=out) as p:
        p.update(50)
    assert "association" not in out.getvalue()


@pytest.mark.parametrize("expected_s", [None, 0.05])
def test_phase_that_cannot_be_counted(monkeypatch, expected_s):
    monkeypatch.setattr(module, "DELAY_S", 0.01)
    monkeypatch.setattr(module, "TICK_S", 0.005)
    bar, lines = Terminal(), io.StringIO()
    for out in (bar, lines):
        seen = threading.Event()
        out.write = lambda text, write=out.write, seen=seen: (seen.set(), write(text))[1]
        with progress("eigendecomposition", None, enabled=True, expected_s=expected_s, stream=out):
            assert seen.wait(10)
    assert "eigendecomposition: " in bar.getvalue()
    assert lines.getvalue().splitlines()[-1].startswith("eigendecomposition: done after")
    if expected_s:
        assert "of about 0 s" in lines.getvalue()
        assert "100%" in bar.getvalue().split("\r")[-1]


def test_estimate_never_completes_early(monkeypatch, time_flies):
    p = Bar("eigendecomposition", None, "", 10.0, Terminal(), notebook=False)
    time_flies.now += 60
    p._tick()
    assert p._bar.n == pytest.approx(9.9)
    p._close(completed=True)
    assert p._bar.n == pytest.approx(10)


def test_no_monitor_thread_and_private_lock(monkeypatch):
    from tqdm import tqdm

    monkeypatch.setattr(module, "DELAY_S", 0.0)
    with progress("kinship", 5, enabled=True, stream=Terminal()) as p:
        p.update(2)
        assert type(p._bar).monitor is None
    assert type(p._bar)._lock is not getattr(tqdm, "_lock", None)


@pytest.mark.parametrize(("config", "expected"), [({"IPKernelApp": {}}, True), ({}, False)])
def test_notebook_is_recognised(monkeypatch, config, expected):
    shell = SimpleNamespace(config=config)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert module.in_notebook() is expected


def test_notebook_bar_without_widgets_falls_back_to_text(monkeypatch, capsys):
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    with progress("kinship", 5, enabled=True) as p:
        p.update(5)
    captured = capsys.readouterr()
    assert "kinship: 100%" in captured.err + captured.out


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (125, "2:05"), (3725, "1:02:05")])
def test_clock(seconds, text):
    assert clock(seconds) == text
