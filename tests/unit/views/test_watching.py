"""How a watcher waits for a store that is away, and how it is closed, without a store."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from runnel.views.errors import StoreUnreachable
from runnel.views.store import Snapshot
from runnel.views.watching import INTERVAL, LONGEST_PAUSE, Watch

NOTHING = Snapshot(pa.table({"page": pa.array([], pa.string())}), 0, None, "", ("page",))


class Away:
    """A reader whose store is away for so many questions."""

    def __init__(self, questions):
        self._left = questions

    def snapshot(self, where):
        assert not where
        self._left -= 1
        if self._left >= 0:
            raise StoreUnreachable("the store", "nobody answers")
        return NOTHING

    def close(self):
        pass


@pytest.mark.parametrize("interval", [0, 0.01, INTERVAL, 3.0])
def test_a_store_that_is_away_is_asked_in_growing_pauses_however_often_the_watcher_looks(interval, monkeypatch, caplog):
    watch = Watch(lambda: Away(10), "pages", interval=interval)
    pauses = []
    monkeypatch.setattr(watch._stopping, "wait", lambda seconds: bool(pauses.append(seconds)))
    assert next(watch).is_snapshot
    assert len(pauses) == 10
    assert pauses[0] == max(interval, INTERVAL)
    assert pauses[-1] == LONGEST_PAUSE
    assert [record.message.partition(" waits")[0] for record in caplog.records] == ["the watcher of pages"]


class Slow:
    """A reader that reads until it is let go on. Its connection breaks if it is closed meanwhile."""

    def __init__(self):
        self.has_begun, self.may_end, self.is_closed = threading.Event(), threading.Event(), False

    def snapshot(self, where):
        assert not where
        self.is_closed = False
        self.has_begun.set()
        assert self.may_end.wait(30)
        if self.is_closed:
            raise StoreUnreachable("the store", "the connection is closed")
        return NOTHING

    def close(self):
        self.is_closed = True


def test_a_watcher_that_is_closed_by_another_thread_ends_when_its_look_is_done():
    reader = Slow()
    watch = Watch(lambda: reader, "pages")
    with ThreadPoolExecutor(1) as thread:
        steps = thread.submit(list, watch)
        assert reader.has_begun.wait(30)
        watch.close()
        reader.may_end.set()
        assert len(steps.result()) == 1
    assert reader.is_closed
