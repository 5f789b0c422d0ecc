"""What tests of programs on Runnel need: rows played into an app, a clock that stands still, and a disk that fails and
forgets.

    from runnel.testing import CRASH, at, idle, row

    def test_clicks_are_counted(runnel_play):
        played = runnel_play(app, row(clicks, page="tea", at="12:00:10"), CRASH, row(clicks, page="tea", at="12:00:20"))
        assert played.view("clicks_per_minute") == [...]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from runnel.testing.clock import StoppedClock
from runnel.testing.events import (
    CRASH,
    CRASH_AFTER_COMMIT,
    PAUSE,
    RESTART,
    Mistake,
    at,
    delete,
    idle,
    raw,
    row,
)
from runnel.testing.faulty_files import Crashed, FaultyFiles

if TYPE_CHECKING:
    from runnel.testing.played import Played, Rejected, Written
    from runnel.testing.player import Player
    from runnel.testing.spark import spark_for_tests

__all__ = [
    "CRASH",
    "CRASH_AFTER_COMMIT",
    "PAUSE",
    "RESTART",
    "Crashed",
    "FaultyFiles",
    "Mistake",
    "Played",
    "Player",
    "Rejected",
    "StoppedClock",
    "Written",
    "at",
    "delete",
    "idle",
    "raw",
    "row",
    "spark_for_tests",
]

HOMES = {  # they bring Spark
    "Played": "runnel.testing.played",
    "Player": "runnel.testing.player",
    "Rejected": "runnel.testing.played",
    "Written": "runnel.testing.played",
    "spark_for_tests": "runnel.testing.spark",
}


def __getattr__(name: str) -> Any:
    """Loaded when it is first used."""
    if name not in HOMES:
        raise AttributeError(f"module 'runnel.testing' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)
