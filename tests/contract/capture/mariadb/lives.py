"""Lives of a capture of MariaDB: in this process, or in one of its own that may be killed.

Its pieces have few rows, so that there are many steps.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

import pytest

from runnel.capture import capture as captures
from runnel.capture.chosen import Mode
from runnel.capture.mariadb import changes, snapshot
from runnel.capture.mariadb.source import MariadbSource
from runnel.capture.selection import Selection
from runnel.durable import VARIABLE
from tests.contract.capture import cut_off
from tests.contract.capture.lives import capture_of

CHUNK = 3
KEYLESS = r".*\.loose"  # which cannot be read by chunks

processes = get_context("forkserver")
processes.set_forkserver_preload(["runnel.capture.sqlite", "runnel.capture.mariadb.source", __name__])


class Life(NamedTuple):
    """What is captured, under which name, and into which broker; as plain data, for another process."""

    url: str
    name: str
    bootstrap: str
    mode: Mode = Mode.INITIAL

    def selection(self) -> Selection:
        return Selection(without_tables=[KEYLESS] if self.mode is Mode.INCREMENTAL else [])

    def source(self, suffix: str = "") -> MariadbSource:
        return MariadbSource(self.url, f"{self.name}{suffix}", self.selection().has)


@contextmanager
def in_small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "AT_ONCE", 20)
        patch.setattr(snapshot, "MOST", 16)
        patch.setattr(captures, "WAIT_SECONDS", 0.02)
        patch.setattr(captures, "FIRST_PAUSE", 0.02)
        yield


def lived_here(life: Life, die_at: str = "") -> bool:
    """Until nothing is left to be told, or until an error that nobody catches cuts it off there; whether it was."""
    with in_small_pieces(), closing(life.source()) as source, closing(life.source("-looking")) as looking:
        options = {"transactions": True, "snapshot": life.mode, "chunk": CHUNK}
        capture = capture_of(life.name, source, life.bootstrap, life.selection(), **options)
        return cut_off.lived(capture, looking, die_at, knows_all=True)


def _live(life: Life, die_at: str) -> None:
    os.environ[VARIABLE] = die_at
    lived_here(life)


def started(life: Life, die_at: str = "") -> Any:
    process = processes.Process(target=_live, args=(life, die_at))
    process.start()
    return process


def lived(life: Life, die_at: str = "") -> bool:
    """As `lived_here`, in a process of its own, which is killed there."""
    return _was_killed(started(life, die_at))


def killed(life: Life, seconds: float) -> bool:
    """In a process of its own, which is killed after so long, wherever it is; whether it had not come to its end."""
    process = started(life)
    process.join(seconds)
    process.kill()
    return _was_killed(process)


def _was_killed(process: Any) -> bool:
    process.join()
    code = process.exitcode
    process.close()
    assert code in (0, -signal.SIGKILL), code
    return bool(code)
