import threading
from collections.abc import Iterator

import pytest

from runnel.testing import Crashed
from tests.unit.broker.transactions.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A node with a topic of two partitions."""
    stage = Stage()
    stage.create("orders", 2)
    yield stage
    stage.close()


@pytest.fixture(autouse=True)
def _threads_may_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the log end with the machine."""
    hook = threading.excepthook

    def note(end: threading.ExceptHookArgs) -> None:
        if not issubclass(end.exc_type, Crashed):
            hook(end)

    monkeypatch.setattr(threading, "excepthook", note)
