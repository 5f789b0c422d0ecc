"""How a derived stream's batch takes effect, where tasks write it: what becomes of a failure."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from runnel.client.errors import RecordTooLarge, TransactionLost
from runnel.pipeline.steps import publish
from runnel.pipeline.steps.publish import Publish

BATCH = SimpleNamespace(
    query="q", number=0, checkpoint="c", positions={}, records=10, frame=None, watch=SimpleNamespace(step=nullcontext)
)


class Publisher:
    """Of topics, some of which take less than when they were looked up."""

    marker = None

    def __init__(self, *shrunk):
        self._shrunk = shrunk
        self.calls = []

    def look_up(self, topics):
        self.calls.append(("look up", *topics))

    def shrunk(self, topics):
        return [topic for topic in topics if topic in self._shrunk]

    def batch_bytes(self, topic):
        return 1_000

    def begin(self, places):
        return SimpleNamespace(transactional_id="q")

    def abort_quietly(self):
        self.calls.append(("abort",))


@pytest.fixture
def step(monkeypatch):
    def write(*_, **__):
        raise RecordTooLarge("out", "message too large")

    monkeypatch.setattr(publish, "write_in_parallel", write)

    def made(publisher):
        return Publish(publisher, None, None, topic="out", partitions=1, sides=["out.late"], parallel_from=1)

    return made


@pytest.mark.parametrize("topic", ["out", "out.late"])
def test_a_batch_is_done_again_when_a_topic_takes_less_than_when_it_began(step, topic):
    publisher = Publisher(topic)
    with pytest.raises(TransactionLost, match=f"{topic}: it takes only smaller batches") as caught:
        step(publisher)(BATCH)
    assert isinstance(caught.value.__cause__, RecordTooLarge)
    assert publisher.calls == [("look up", "out", "out.late"), ("abort",)]


def test_what_fails_for_another_reason_is_told(step):
    publisher = Publisher()
    with pytest.raises(RecordTooLarge):
        step(publisher)(BATCH)
    assert publisher.calls == [("look up", "out", "out.late"), ("abort",)]
