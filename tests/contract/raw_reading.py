"""What the tests of raw reading and writing share: the records of what is fetched, and answers that get lost."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.errors import Unreachable
from runnel.client.fetch import FetchedBatches, Fetcher
from runnel.client.metadata import Place
from runnel.client.wire import Wire
from runnel.protocol.versions import Api
from runnel.records import Record, batches_of, records_of

LIMIT = 120.0
FIRST_QUESTIONS = (Api.API_VERSIONS, Api.METADATA, Api.FIND_COORDINATOR)


def records_in(fetched: FetchedBatches) -> list[Record]:
    """As a decoder reads them: those of the offsets that are to be kept."""
    return [
        record
        for part in fetched.parts
        for position, _ in batches_of(part)
        for record in records_of(part, position)
        if fetched.start <= record.offset < fetched.end
    ]


def read(cluster: Cluster, topic: str, partition: int = 0, start: int = 0, end: int | None = None) -> list[Record]:
    """The records of a range; up to the end of what is committed unless it is told."""
    if end is None:
        end = positions.latest(cluster, [(topic, partition)])[topic, partition]
    return [record for fetched in Fetcher(cluster).read(topic, partition, start, end) for record in records_in(fetched)]


def values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """Of the records that are committed now."""
    return [record.value for record in read(cluster, topic, partition)]


def final_values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """When every transaction has ended there: Kafka answers an end before its marker is written."""
    deadline = time.monotonic() + LIMIT
    while positions.latest(cluster, [(topic, partition)])[topic, partition] < _end(cluster, (topic, partition)):
        assert time.monotonic() < deadline, "a transaction is still open"
        time.sleep(0.01)
    return values(cluster, topic, partition)


def _end(cluster: Cluster, place: Place) -> int:
    """Behind all records, committed or not."""
    asked = {"partition_index": place[1], "timestamp": positions.LATEST}
    body = {"replica_id": -1, "isolation_level": 0, "timeout": 1, "topics": [{"name": place[0], "partitions": [asked]}]}
    answer = cluster.ask(cluster.leader(place).node, Api.LIST_OFFSETS, body, "finding the end")
    offset: int = answer["topics"][0]["partitions"][0]["offset"]
    return offset


@contextmanager
def lost_answers(monkeypatch: pytest.MonkeyPatch, every: int) -> Iterator[list[int]]:
    """The connection ends instead of every such answer, after the broker has done what it was asked for.

    Those to questions that every connection begins with come. Which APIs it were is told.
    """
    counter = itertools.count(1)
    hit: list[int] = []
    receive = Wire.receive

    def receive_or_lose(self: Wire, sent, doing, **rest):
        answer = receive(self, sent, doing, **rest)
        if sent.api_key not in FIRST_QUESTIONS and next(counter) % every == 0:
            hit.append(sent.api_key)
            self.close()
            raise Unreachable(self.address, "lost by the test")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Wire, "receive", receive_or_lose)
        yield hit
