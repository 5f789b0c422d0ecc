"""A broker of our own beside an app, as a process: it goes on answering while the app's Python is busy.

It ends with the app, however that one ends: it watches a pipe from the app's process. If it ends by itself, it is
started again, at the same address. A directory that another process has, the app's or the log's, is refused before
anything is started.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runnel.app.owner import LOCK, owner_of
from runnel.broker.running import ENDS_WITH_STDIN
from runnel.errors import DirectoryOwned, Permanent, UnusableDirectory
from runnel.files import make_directories
from runnel.log.directory import LOCK_FILE

logger = logging.getLogger(__name__)

READY = "listening on "
PROGRAM = "from runnel.cli import main; main()"
PAUSE = 1.0  # seconds, before one that ended is started again


class BrokerDidNotStart(Permanent):
    """What kept it is told by itself, on the stderr of both."""

    def __init__(self, said: str) -> None:
        super().__init__(f"the broker did not start: {said}")


@contextmanager
def local_broker(data: Path, listen: str) -> Iterator[str]:
    """The address of a broker that runs inside of the block."""
    _make(data.parent)
    # The app's comes first: it starts a broker that ends again.
    for directory, lock in ((data.parent, LOCK), (data, LOCK_FILE)):
        if (owner := owner_of(directory / lock)) is not None:
            raise DirectoryOwned(str(directory), int(owner) if owner.isdigit() else None)
    process = start(data, listen)
    keeper = None
    try:
        bootstrap = _wait_for(process)
        keeper = Keeper(data, bootstrap, process)
        keeper.start()
        yield bootstrap
    finally:
        if keeper is None:
            _end(process)
        else:
            keeper.stop()


def _make(directory: Path) -> None:
    try:
        make_directories(str(directory))
    except OSError as error:
        hint = "name one that can be written by who runs the app, on a disk that has room and is not read-only"
        raise UnusableDirectory(str(directory), f"{error.strerror}: {error.filename}", hint=hint) from None


class Keeper:
    """Starts the broker again when it ends unasked."""

    def __init__(self, data: Path, bootstrap: str, process: subprocess.Popen[str]) -> None:
        self._data = data
        self._bootstrap = bootstrap
        self._process = process
        self._stopping = threading.Event()
        self._one = threading.Lock()  # starts a process or ends it
        self._thread = threading.Thread(target=self._keep, name="runnel-broker-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._one:
            _end(self._process)
        self._thread.join()

    def _keep(self) -> None:
        while True:
            code = self._process.wait()
            if self._stopping.is_set():
                return
            logger.error("the broker ended with code %d; it is started again", code)
            if self._stopping.wait(PAUSE):
                return
            with self._one:
                if self._stopping.is_set():
                    return
                _close(self._process)
                self._process = start(self._data, self._bootstrap)


def start(data: Path, listen: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, "broker", "start", "--data", str(data), "--listen", listen]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the app, which ends it when it needs it no more
        env=os.environ | {ENDS_WITH_STDIN: "yes"},
    )


def _wait_for(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith(READY):
        raise BrokerDidNotStart(line.strip() or "the reason stands above")
    return line.removeprefix(READY).strip()


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait()
    _close(process)


def _close(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
