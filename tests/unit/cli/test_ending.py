"""What SIGTERM and Ctrl-C do to a program that runs an app."""

import signal
import subprocess
import sys

import pytest

from runnel.cli.ending import SIGNALS, ending

TWICE = """
import os, signal
from runnel.cli.ending import ending
with ending(is_whole=True) as asked:
    asked.call(lambda: print("asked", flush=True))
    os.kill(os.getpid(), signal.SIGTERM)
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        print("waited", flush=True)
"""

WHILE_FORKING = """
import os, signal
from runnel.cli.ending import ending
with ending(is_whole=True) as asked:
    os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    print("forked", flush=True)
    asked.call(lambda: print("asked", flush=True))
"""

AT_THE_END = """
import atexit, os, signal
from runnel.cli.ending import ending
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
with ending(is_whole=True):
    os.kill(os.getpid(), signal.SIGINT)
"""

COLLECTED = """
from runnel.cli.ending import ending
class Defective:
    def __del__(self):
        raise ValueError("a defect")
with ending(is_whole=True):
    Defective()
"""


@pytest.fixture(autouse=True)
def handlers_from_before():
    """A program that was asked to end would not need them any more."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_start(number, code):
    with pytest.raises(SystemExit) as ended, ending(is_whole=False):
        signal.raise_signal(number)
    assert ended.value.code == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_where_there_is_no_other_end_it_is_a_good_one(number):
    with pytest.raises(SystemExit) as ended, ending(is_whole=True):
        signal.raise_signal(number)
    assert ended.value.code == 0


def test_what_runs_is_asked_to_stop():
    asked_for = []
    with ending(is_whole=False) as asked:
        asked.call(lambda: asked_for.append(1))
        signal.raise_signal(signal.SIGTERM)
        assert asked_for == [1]
        assert asked.code == 143


def test_a_signal_that_ended_nothing_stops_what_runs_later():
    """As one that comes while Python collects garbage: what is raised there is only printed."""
    stopped = []
    with ending(is_whole=True) as asked:
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        asked.call(lambda: stopped.append(True))
        assert stopped
        assert asked.code == 0


def test_a_signal_that_python_can_only_print_is_not_printed_and_stops_what_runs_later():
    """As while it forks to start Java."""
    done = subprocess.run([sys.executable, "-c", WHILE_FORKING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "forked\nasked\n", "")


def test_what_else_python_can_only_print_is_printed():
    done = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "ValueError: a defect" in done.stderr


def test_without_a_signal_the_code_is_0():
    with ending(is_whole=False) as asked:
        assert asked.code == 0


def test_the_handlers_from_before_come_back():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with ending(is_whole=True):
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_second_signal_does_not_wait():
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "asked\n")


def test_a_second_signal_does_not_wait_for_what_the_program_does_when_it_ends():
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


# Opening takes its time, as that of a large log or of a database that does not answer.
SLOW = """
import importlib, sys, time
def slow(*given, **named):
    print("opening", flush=True)
    time.sleep(600)
setattr(importlib.import_module(sys.argv[1]), sys.argv[2], slow)
sys.argv = ["runnel", *sys.argv[3:]]
from runnel.cli import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "given",
    [
        ("runnel.broker.running", "start_server", "broker", "start", "--data", "data"),
        ("runnel.cli.capture", "opened", "capture", "run", "shop", "shop.sqlite"),
    ],
    ids=["broker", "capture"],
)
def test_a_start_that_takes_its_time_is_ended_at_once_and_that_is_no_error(given, number, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "opening\n"
        process.send_signal(number)
        try:
            said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, *said) == (0, "", "")
