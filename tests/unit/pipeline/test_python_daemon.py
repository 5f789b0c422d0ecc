from __future__ import annotations

import socket
import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from runnel.pipeline.python_daemon import hush, quiet

FORKS = """
import os, sys, threading
from runnel.pipeline.python_daemon import NEEDED, prepare
prepare()
assert threading.active_count() == 1
for _ in range(2):
    if os.fork() == 0:
        assert set(NEEDED) <= set(sys.modules)
        import numpy, pyarrow, random
        import pyarrow.compute
        numpy.ones((300, 300)) @ numpy.ones((300, 300))  # on threads of a library
        table = pyarrow.table({"key": list(range(100_000))})
        assert table.group_by("key", use_threads=True).aggregate([("key", "count")]).num_rows == 100_000
        print(numpy.random.random(), random.random(), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others do not prepare their workers")
def test_workers_are_forked_ready_and_each_draws_its_own_numbers():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 4, done.stdout


@pytest.mark.parametrize("gone", [BrokenPipeError, ConnectionResetError])
def test_a_worker_that_nobody_waits_for_ends_in_silence(gone):
    def worker(sock: socket.socket, authenticated: bool) -> int:
        raise gone

    with socket.socket() as sock:
        assert quiet(worker)(sock, True) == 1


def test_what_a_worker_answers_and_what_fails_otherwise_stay():
    def worker(sock: socket.socket, authenticated: bool) -> int:
        if authenticated:
            raise OSError("no space")
        return 7

    with socket.socket() as sock:
        assert quiet(worker)(sock, False) == 7
        with pytest.raises(OSError, match="no space"):
            quiet(worker)(sock, True)


def test_a_process_that_sparks_daemon_forked_hushes_itself_once(monkeypatch):
    def worker(sock: socket.socket, authenticated: bool) -> int:
        raise BrokenPipeError

    forked = ModuleType("__main__")
    forked.__spec__ = ModuleSpec("pyspark.daemon", None)
    forked.worker = worker
    monkeypatch.setitem(sys.modules, "__main__", forked)
    hush()
    hushed = forked.worker
    hush()
    assert forked.worker is hushed
    with socket.socket() as sock:
        assert hushed(sock, True) == 1


def test_any_other_process_stays_as_it_is(monkeypatch):
    other = ModuleType("__main__")
    other.worker = object()
    monkeypatch.setitem(sys.modules, "__main__", other)
    kept = other.worker
    hush()
    assert other.worker is kept
