"""What the tests of raw reading and writing share: what topics hold, what is fetched, and answers that get lost."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer as KafkaProducer

from runnel.client import Admin, CannotCompact, compact, positions
from runnel.client.cluster import Cluster
from runnel.client.errors import Unreachable
from runnel.client.fetch import FetchedBatches, Fetcher
from runnel.client.metadata import Place
from runnel.client.wire import CLIENT_ID, Wire
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


# --- what topics hold


def write(client: KafkaProducer, topic: str, *batches: list[bytes | None], **record: Any) -> None:
    """Each in a batch of its own."""
    for batch in batches:
        for value in batch:
            client.produce(topic, value, partition=0, **record)
        assert client.flush(LIMIT) == 0


def transact(client: KafkaProducer, topic: str, *values: bytes, commit: bool) -> None:
    client.begin_transaction()
    write(client, topic, list(values))
    if commit:
        client.commit_transaction(LIMIT)
    else:
        client.abort_transaction(LIMIT)


def transactional(client: Any, name: str) -> KafkaProducer:
    made = client(**{"transactional.id": name})
    made.init_transactions(LIMIT)
    assert isinstance(made, KafkaProducer)
    return made


def compacted(admin: Admin, cluster: Cluster, producer: KafkaProducer, topic: str) -> None:
    """Compact the topic; or wait until it was, where nobody can ask for it."""
    try:
        compact(admin, topic, [0])
    except CannotCompact:
        deadline = time.monotonic() + LIMIT
        while len(read(cluster, topic)) == positions.latest(cluster, [(topic, 0)])[topic, 0]:
            assert time.monotonic() < deadline, "Kafka has not compacted the topic"
            write(producer, topic, [b"filler"], key=b"filler")  # a segment ends when the next record comes
            time.sleep(0.2)


@contextmanager
def quota(cluster: Cluster, **limits: float) -> Iterator[None]:
    """Of clients that call themselves as this one does, for a while."""

    def alter(*, remove: bool) -> None:
        values = [{"key": name, "value": value, "remove": remove} for name, value in limits.items()]
        entity = [{"entity_type": "client-id", "entity_name": CLIENT_ID.decode()}]
        body = {"entries": [{"entity": entity, "ops": values}], "validate_only": False}
        leader = next(iter(cluster.all_topics().values())).leaders[0]
        assert leader is not None
        (told,) = cluster.ask(leader.node, Api.ALTER_CLIENT_QUOTAS, body, "setting a quota")["entries"]
        assert told["error_code"] == 0, told

    alter(remove=False)
    try:
        yield
    finally:
        alter(remove=True)
