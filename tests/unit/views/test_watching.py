"""How a watcher waits for a store that is away, without a store."""

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
