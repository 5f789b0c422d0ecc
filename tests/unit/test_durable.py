"""Places where a process dies by choice."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from runnel.durable import VARIABLE, durable, watched

PROGRAM = """
from runnel.durable import durable
for number in range(5):
    with durable("step"):
        print(number, flush=True)
"""


def run(where: object) -> tuple[int, str]:
    environment = {**os.environ, VARIABLE: str(where)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture
def signals(monkeypatch, tmp_path):
    """Those that this process sends to itself, at places that files in `tmp_path` tell."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    sent: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: sent.append(number))
    yield sent
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("point", "done"), [("step:before:3", "0\n1\n"), ("step:after:3", "0\n1\n2\n")])
def test_a_process_dies_where_it_is_told(point, done):
    assert run(point) == (-signal.SIGKILL, done)


def test_other_places_do_not_matter():
    assert run("step:during:1") == (0, "0\n1\n2\n3\n4\n")
    assert run("other:before:1")[0] == 0


def test_files_tell_whoever_comes(tmp_path):
    (tmp_path / "step:before:1").touch()
    (tmp_path / "step:before:2").write_text(str(int(signal.SIGKILL)))
    assert run(tmp_path) == (-signal.SIGKILL, "0\n")
    assert not list(tmp_path.iterdir())
    assert run(tmp_path)[0] == 0


def test_each_who_comes_takes_one_file(signals, tmp_path):
    (tmp_path / "step:after:1").touch()
    (tmp_path / "step:after:2").write_text(str(int(signal.SIGUSR1)))
    (tmp_path / "step:before:1").touch()
    for number in range(3):
        with durable("step"):
            assert len(signals) == (number == 2)
        with durable("another"):
            pass
    assert signals == [signal.SIGUSR1]


def test_a_step_that_fails_is_not_done(signals, tmp_path):
    (tmp_path / "step:after:1").write_text(str(int(signal.SIGUSR1)))
    with pytest.raises(OSError, match="full"), durable("step"):
        raise OSError("full")
    assert not signals


def test_a_thread_stands_still_where_it_is_told(tmp_path):
    """Itself, and not whichever thread of the process takes the signal first."""
    (tmp_path / "step:before:1").write_text(str(int(signal.SIGSTOP)))
    program = f"import threading\nmade = threading.Thread(target=exec, args=({PROGRAM!r},))\nmade.start()\nmade.join()"
    environment = {**os.environ, VARIABLE: str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as found:
        try:
            assert found.stdout is not None
            _, status = os.waitpid(found.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert not select.select([found.stdout], [], [], 0)[0]
            found.send_signal(signal.SIGCONT)
            assert found.stdout.read() == b"0\n1\n2\n3\n4\n"
        finally:
            found.kill()


def test_whoever_watches_is_told_of_each_place_and_may_raise():
    seen: list[str] = []
    with watched(seen.append), durable("step"):
        seen.append("done")
    assert seen == ["step:before", "done", "step:after"]
    with durable("step"):
        pass
    assert len(seen) == 3

    def die(place: str) -> None:
        if place == "step:after":
            raise RuntimeError(place)

    done: list[str] = []
    with pytest.raises(RuntimeError, match="step:after"), watched(die), durable("step"):
        done.append("done")
    assert done == ["done"]
