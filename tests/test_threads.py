"""Thread counts from the environment, affinity and cgroups; holding the BLAS to a number."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading

import pytest

from jamma import jlinalg
from jamma.core import threads
from jamma.core.errors import UsageError

from .blas_libraries import choices, selected


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("OMP_NUM_THREADS", "JAMMA_BLAS_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "JAMMA_BLAS_THREADS"])
@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "99999", "²", "1e1", "+2"])
def test_bad_value_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as error:
        threads.default_blas_threads()
    assert name in str(error.value)
    assert repr(value) in str(error.value)


def test_bad_value_is_an_error_where_an_argument_makes_it_unneeded(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(UsageError, match="OMP_NUM_THREADS='many'"):
        threads.kernel_threads(2)


def test_environment_decides(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", " 3,2 ")
    assert threads.kernel_threads() == 3
    assert threads.default_blas_threads() == 3
    assert threads.kernel_threads(5) == 5
    monkeypatch.setenv("JAMMA_BLAS_THREADS", "2")
    assert threads.default_blas_threads() == 2
    assert threads.kernel_threads() == 3
    monkeypatch.setenv("JAMMA_BLAS_THREADS", "")
    assert threads.default_blas_threads() == 3


@pytest.mark.parametrize("requested", [0, -1, 5000])
def test_requested_number_is_checked(requested):
    with pytest.raises(UsageError, match=str(requested)):
        threads.kernel_threads(requested)
    with pytest.raises(UsageError, match=str(requested)), threads.blas_threads(requested):
        pass


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this platform")
def test_affinity_bounds_the_default():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert threads.available_cpus() == 1
        assert threads.kernel_threads() == 1
        assert threads.default_blas_threads() == 1
    finally:
        os.sched_setaffinity(0, before)


def make_cgroup(root, lines, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for path, text in files.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


V1 = "5:cpu,cpuacct:/a/b\n3:cpuset:/a\n"


@pytest.mark.parametrize(
    ("lines", "files", "cpus"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "400000 100000\n"}, 4.0),
        ("0::/a/b\n", {"a/b/cpu.max": "300000 100000\n", "a/cpu.max": "200000 100000\n"}, 2.0),
        ("0::/host/path\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/../..\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/a\n", {"a/cpu.max": "nonsense\n"}, math.inf),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "250000", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000"}, 2.5),
        (V1, {"cpu/a/cpu.cfs_quota_us": "100000", "cpu/a/cpu.cfs_period_us": "50000"}, 2.0),
        (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        ("nonsense\n", {}, math.inf),
    ],
)
def test_cgroup_quota(tmp_path, lines, files, cpus):
    make_cgroup(tmp_path, lines, files)
    assert threads.cgroup_cpus(tmp_path) == cpus


def test_quota_is_rounded_up_and_bounded_by_affinity(tmp_path):
    make_cgroup(tmp_path, "0::/\n", {"cpu.max": "50000 100000"})
    assert threads.available_cpus(tmp_path) == 1
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("999999999 100000")
    assert threads.available_cpus(tmp_path) == threads.available_cpus(tmp_path / "nothing")


@pytest.fixture
def counts():
    """Thread counts of every BLAS in the process; skips where there is no call for it."""
    jlinalg.config()
    if not threads.blas_is_controllable():
        pytest.skip("this BLAS has no call for its threads")

    def read():
        return [control.get_num_threads() for control in threads._limits.all_controls()]

    before = read()
    yield read
    assert read() == before


def test_blas_threads_sets_every_library_and_puts_back(counts):
    before = counts()
    with threads.blas_threads(1) as n_threads:
        assert n_threads == 1
        assert set(counts()) == {1}
        with threads.blas_threads(2):
            assert set(counts()) == {2}
        with threads.blas_threads() as inner:
            assert inner == 1
        assert set(counts()) == {1}
    assert counts() == before


def test_blas_threads_are_put_back_after_an_error(counts):
    before = counts()
    with pytest.raises(KeyError), threads.blas_threads(1):
        raise KeyError
    assert counts() == before


def test_default_respects_what_someone_else_has_set(counts, monkeypatch):
    monkeypatch.setenv("JAMMA_BLAS_THREADS", "2")
    control = threads._limits.all_controls()[0]
    before = control.get_num_threads()
    try:
        control.set_num_threads(1)
        with threads.blas_threads() as n_threads:
            assert n_threads == 1
    finally:
        control.set_num_threads(before)


def test_smallest_number_of_concurrent_threads_is_in_force(counts):
    before = counts()
    entered, leave = threading.Event(), threading.Event()

    def worker():
        with threads.blas_threads(1):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=worker)
    with threads.blas_threads(2):
        thread.start()
        entered.wait(30)
        assert set(counts()) == {1}
        leave.set()
        thread.join()
        assert set(counts()) == {2}
    assert counts() == before


def test_many_threads_at_once(counts):
    before = counts()
    failures = []

    def worker(n_threads):
        try:
            for _ in range(20):
                with threads.blas_threads(n_threads):
                    if max(counts()) > n_threads:
                        failures.append(n_threads)
        except Exception as error:
            failures.append(error)

    pool = [threading.Thread(target=worker, args=(1 + i % 3,)) for i in range(6)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert not failures
    assert counts() == before


FORK = """
import os, sys, threading
from jamma import jlinalg
from jamma.core import threads
import numpy as np
jlinalg.gemm(np.ones((300, 300)), np.ones((300, 300)))
ready, go = threading.Event(), threading.Event()
def hold():
    with threads.blas_threads(1):
        ready.set(); go.wait()
thread = threading.Thread(target=hold); thread.start(); ready.wait()
threads._limits.lock.acquire()   # a fork may come while another thread holds it
pid = os.fork()
if pid == 0:
    ok = threads.kernel_threads() == 1 and threads.kernel_threads(4) == 1
    with threads.blas_threads(2):
        ok = ok and jlinalg.gemm(np.ones((300, 300)), np.ones((300, 300)))[0, 0] == 300
    os._exit(0 if ok else 1)
threads._limits.lock.release()
status = os.waitpid(pid, 0)[1]
go.set(); thread.join()
assert threads.kernel_threads(4) == 4
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forked_child_has_one_kernel_thread_and_a_working_blas():
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore::DeprecationWarning", "-c", FORK], capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("value", choices())
def test_each_library_is_controlled_by_its_own_call(value):
    with selected(value) as choice:
        assert choice.found["file"]
        if value == "accelerate":
            assert not threads.blas_is_controllable()
            return
        assert threads.blas_is_controllable()
        assert threads._limits.all_controls()[0].file == choice.found["file"]
        with threads.blas_threads(1):
            assert threads._limits.all_controls()[0].get_num_threads() == 1
