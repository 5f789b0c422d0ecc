"""A request to stop, made at the worst moment: by a handler in the middle of a thread that waits or asks itself."""

import signal
import sys
import threading
import time

import pytest

from runnel import App
from runnel.app.rebuild import Rebuild
from runnel.app.replay import Replay
from runnel.app.runner import Runner, Running
from runnel.stop_request import StopRequest
from runnel.views.watching import Watch

LIMIT = 60.0


def interrupted(work, handler) -> int:
    """`handler` is run before every line that `work` comes to, as that of a signal may be; before how many it was."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        if event == "line":
            count += 1
            handler()
        return trace

    def run() -> None:
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "the handler waits for the thread that it interrupts"
    return count


def shop(tmp_path) -> tuple[App, Running]:
    app = App("shop")
    clicks = app.stream("clicks", schema="k int")
    app.view(clicks, key="k", name="keys")(lambda clicks: clicks)

    @app.stream(clicks)
    def copies(clicks):
        return clicks

    return app, Running("127.0.0.1:1", tmp_path)


STOPPABLE = {
    "runner": lambda app, running: Runner(app, running),
    "rebuild": lambda app, running: Rebuild(app, "keys", running),
    "replay": lambda app, running: Replay(app, "copies", running, start="earliest", to="others"),
    "watch": lambda _app, _running: Watch(lambda: None, "keys"),
}


@pytest.mark.parametrize("make", STOPPABLE.values(), ids=STOPPABLE)
def test_a_stop_can_be_interrupted_by_a_stop(make, tmp_path):
    stopped = make(*shop(tmp_path))
    assert interrupted(stopped.stop, stopped.stop) > 0
    assert stopped._stopping.is_set()


def test_who_waits_can_be_interrupted_anywhere():
    for seconds in (0.0, 0.01):
        asked = StopRequest()
        assert interrupted(lambda asked=asked, seconds=seconds: asked.wait(seconds), asked.set) > 0
        assert asked.is_set()


def test_who_waits_goes_on_at_once_when_a_signal_comes():
    asked = StopRequest()
    before = signal.signal(signal.SIGALRM, lambda *_: asked.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        since = time.monotonic()
        assert asked.wait(LIMIT)
        assert time.monotonic() - since < LIMIT
    finally:
        signal.signal(signal.SIGALRM, before)


def test_all_who_wait_go_on():
    asked, found = StopRequest(), []
    threads = [threading.Thread(target=lambda: found.append(asked.wait(LIMIT))) for _ in range(3)]
    for thread in threads:
        thread.start()
    asked.set()
    for thread in threads:
        thread.join(LIMIT)
    assert found == [True] * 3
    assert asked.wait(0)


def test_who_is_not_asked_waits_in_vain():
    asked = StopRequest()
    assert not asked.wait(0.01)
    assert not asked.wait(-1)
    assert not asked.is_set()
