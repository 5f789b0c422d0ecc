import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import pytest

from runnel import forking
from runnel.forking import OwnLock, never_forked, whole

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # it is what they are about


def forked(work: Callable[[], object]) -> int:
    """How a process ends that is forked here and does this."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # who waits for ever is ended
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def take_and_release(lock: OwnLock) -> None:
    with lock:
        pass


def enter_and_leave() -> None:
    with whole():
        pass


def test_one_thread_has_it_at_a_time() -> None:
    lock, order = OwnLock(), []

    def other() -> None:
        with lock:
            order.append("other")

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_who_does_not_wait_for_it_has_it_only_if_it_is_free() -> None:
    lock = OwnLock()
    assert lock.acquire_if_free()
    assert not lock.acquire_if_free()
    lock.release()
    take_and_release(lock)


def test_it_is_free_in_a_process_that_is_forked_while_a_thread_has_it() -> None:
    lock, held, done = OwnLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    ended = forked(lambda: take_and_release(lock))
    done.set()
    thread.join()
    assert ended == 0


def test_a_thread_that_has_it_and_forks_has_it_in_the_new_process_as_well() -> None:
    lock = OwnLock()

    def go_on() -> None:
        lock.release()
        take_and_release(lock)

    with lock:
        assert forked(go_on) == 0


def test_a_process_is_not_forked_in_the_middle_of_what_is_done_as_a_whole() -> None:
    state, begun, end = ["whole"], threading.Event(), threading.Event()

    def change() -> None:
        with whole(), whole():
            state.append("half")
            begun.set()
            end.wait()
            state.remove("half")

    def look() -> None:
        enter_and_leave()
        assert state == ["whole"]

    thread = threading.Thread(target=change)
    thread.start()
    begun.wait()
    threading.Timer(0.05, end.set).start()  # the fork waits for it, or finds a half
    ended = forked(look)
    thread.join()
    assert ended == 0


def test_a_thread_may_fork_in_the_middle_of_what_it_does_as_a_whole() -> None:
    with whole():
        assert forked(enter_and_leave) == 0


def test_several_threads_fork_and_work_side_by_side() -> None:
    ended: list[int] = []

    def work() -> None:
        for _ in range(20):
            enter_and_leave()
            ended.append(forked(enter_and_leave))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [0] * 80


def wait_until_somebody_forks() -> None:
    while not forking._forking:
        time.sleep(0.001)  # who begins to fork tells nobody, and waits for those who are in the middle of something


class Open:
    def __init__(self) -> None:
        self.is_open = True

    def let_go(self) -> None:
        self.is_open = False


def test_what_a_forked_process_must_not_have_is_let_go_of_before_in_the_middle_of_nothing() -> None:
    connection, begun, seen = Open(), threading.Event(), []
    never_forked(connection)

    def use() -> None:
        with whole():
            begun.set()
            wait_until_somebody_forks()
            seen.append(connection.is_open)

    def look() -> None:
        assert not connection.is_open

    thread = threading.Thread(target=use)
    thread.start()
    begun.wait()
    assert forked(look) == 0
    thread.join()
    assert seen == [True]


FORGOTTEN = """
import os, signal
from runnel.forking import never_forked, whole

class Open:
    def let_go(self):
        with whole():  # as what is forgotten by chance in that moment: a view closes its connection as a whole
            pass

signal.alarm(60)  # who waits for ever is ended
connection = Open()
never_forked(connection)
child = os.fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_who_forks_does_not_wait_for_himself() -> None:
    done = subprocess.run([sys.executable, "-c", FORGOTTEN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python tells of the interrupt so
def test_a_process_whose_fork_was_interrupted_in_its_wait_forks_as_ever() -> None:
    begun, end, interrupted = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        with whole():
            begun.set()
            end.wait()

    def once(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def interrupt() -> None:
        wait_until_somebody_forks()
        with forking._gate:  # the main thread waits at it
            pass
        while not interrupted.wait(0.1):  # one that comes just before it sleeps does not wake it
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def fork_again() -> None:
        assert forked(enter_and_leave) == 0

    threads = [threading.Thread(target=hold), threading.Thread(target=interrupt)]
    threads[0].start()
    begun.wait()
    before = signal.signal(signal.SIGINT, once)
    threads[1].start()
    ended = forked(fork_again)
    end.set()
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGINT, before)
    assert ended == 0
