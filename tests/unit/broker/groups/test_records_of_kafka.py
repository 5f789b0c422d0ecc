"""Apache Kafka reads our records of `__consumer_offsets`, and we read Kafka's and would have written the same."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from runnel.broker.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    read_group,
    read_key,
    read_offset,
    write_group,
    write_group_key,
    write_offset,
    write_offset_key,
)
from runnel.records import Record, batches_of, build_batch, place, records_of
from tests.interop.kafka_distribution import java_command, java_environment
from tests.interop.kafka_server import kafka_server

pytestmark = pytest.mark.servers

LIMIT = 120.0
TOPIC_ID = UUID("b49fd0aa-8b60-4f4f-9ba9-d5b8c4b9a1f2")
OFFSET = OffsetKey("g", "orders", 3)
PLAIN = CommittedOffset(42, 7, "ä note", 1_700_000_000_000, topic_id=TOPIC_ID)
EXPIRING = CommittedOffset(42, -1, "", 1_700_000_000_000, expires_at=1_700_000_009_000)
GROUP = StoredGroup(
    "consumer",
    5,
    "range",
    "m-1",
    1_700_000_000_000,
    (
        StoredMember("m-1", "i-1", "ann", "/127.0.0.1", 60_000, 10_000, b"\x00\x01", b"\x02"),
        StoredMember("m-2", None, "bob", "/127.0.0.1", 60_000, 10_000, b"", b""),
    ),
)
EMPTY = StoredGroup("consumer", 6, None, None, 1_700_000_000_000, ())


def test_kafka_reads_ours(tmp_path: Path) -> None:
    records = [
        Record(write_offset(PLAIN), write_offset_key(OFFSET), 1),
        Record(write_offset(EXPIRING), write_offset_key(OFFSET), 1),
        Record(None, write_offset_key(OFFSET), 1),
        Record(write_group(GROUP), write_group_key("g"), 1),
        Record(write_group(EMPTY), write_group_key("g"), 1),
        Record(None, write_group_key("g"), 1),
    ]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(place(build_batch(records), 0, 0))
    plain, expiring, offset_gone, group, empty, group_gone = decoded_by_kafka(segment)
    place_of_offset = {"type": "1", "data": {"group": "g", "topic": "orders", "partition": 3}}
    place_of_group = {"type": "2", "data": {"group": "g"}}
    assert plain == (
        place_of_offset,
        {
            "version": "4",
            "data": {
                "offset": 42,
                "leaderEpoch": 7,
                "metadata": "ä note",
                "commitTimestamp": 1_700_000_000_000,
                "topicId": base64.urlsafe_b64encode(TOPIC_ID.bytes).decode().rstrip("="),
            },
        },
    )
    assert expiring[1]["version"] == "1"
    assert expiring[1]["data"]["expireTimestamp"] == 1_700_000_009_000
    assert offset_gone == (place_of_offset, None)
    assert group[0] == place_of_group
    assert group[1]["version"] == "3"
    assert group[1]["data"]["generation"] == 5
    assert group[1]["data"]["currentStateTimestamp"] == 1_700_000_000_000
    first, second = group[1]["data"]["members"]
    assert (first["memberId"], first["groupInstanceId"], first["clientHost"]) == ("m-1", "i-1", "/127.0.0.1")
    assert (first["rebalanceTimeout"], first["sessionTimeout"]) == (60_000, 10_000)
    assert (second["memberId"], second["groupInstanceId"]) == ("m-2", None)
    assert empty[1]["data"]["members"] == []
    assert empty[1]["data"]["protocol"] is None
    assert group_gone == (place_of_group, None)


def decoded_by_kafka(segment: Path) -> list[tuple[Any, Any]]:
    """The keys and values as Kafka's DumpLogSegments tells them; None for a tombstone."""
    command = java_command("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    run = subprocess.run(command, env=java_environment(), capture_output=True, check=True, timeout=LIMIT)
    found = re.findall(r"key: (\{.*?\}) payload: (.*)", run.stdout.decode())
    return [(json.loads(key), None if value == "<DELETE>" else json.loads(value)) for key, value in found]


def test_we_read_kafkas_and_would_have_written_the_same(tmp_path: Path) -> None:
    with kafka_server(tmp_path / "kafka") as kafka:
        use_a_group(kafka.bootstrap)
    segment = tmp_path / "kafka" / "data" / "__consumer_offsets-0" / "00000000000000000000.log"
    data = segment.read_bytes()
    records = [record for position, _ in batches_of(data) for record in records_of(data, position)]
    offsets, groups = [], []
    for record in records:
        assert record.key is not None
        assert record.value is not None
        key = read_key(record.key)
        if isinstance(key, GroupKey):
            assert write_group_key(key.group) == record.key
            groups.append(read_group(record.value))
            assert write_group(groups[-1]) == record.value
        else:
            assert write_offset_key(key) == record.key
            offsets.append((key, read_offset(record.value)))
            assert write_offset(offsets[-1][1]) == record.value
    ((key, committed),) = offsets
    assert key == OffsetKey("g", "orders", 0)
    assert (committed.offset, committed.metadata.rstrip("\0")) == (1, "a note")  # this client sends the zero after it
    assert any([member.instance_id for member in group.members] == ["i-1"] for group in groups)


def use_a_group(bootstrap: str) -> None:
    """A static member joins, reads one record and commits."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"one", partition=0)
    assert producer.flush(LIMIT) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "group.instance.id": "i-1",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + LIMIT
    message = None
    while message is None or message.error():
        assert time.monotonic() < deadline, "nothing was read"
        message = consumer.poll(1.0)
    consumer.commit(offsets=[TopicPartition("orders", 0, 1, "a note")], asynchronous=False)
    consumer.close()
