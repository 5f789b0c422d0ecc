"""`runnel topics compact`, and what `runnel topics describe` tells of how clean a topic is."""

from __future__ import annotations

import json

import pytest

KAFKA_COMPACTS = "Apache Kafka compacts by itself: see the configs min.cleanable.dirty.ratio and max.compaction.lag.ms"
NOON = 1_700_000_000_000
CLEAN = ["clean", "to", "clean", "until", "held", "by"]

ours = pytest.mark.parametrize("server", ["runnel"], indirect=True)


def error(what: str, hint: str) -> tuple[int, str, str]:
    return 1, "", f"error: {what}\nhint: {hint}\n"


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.fixture
def table(admin, producer, name):
    """A compacted topic with two partitions; in the second, two keys have had three values each."""
    table = f"{name}-table"
    admin.create(table, partitions=2, configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"})
    for number in range(3):
        for key in (b"a", b"b"):
            producer.produce(table, b"%d" % number, key=key, partition=1, timestamp=NOON + number)
    yield table
    admin.delete(table)


# --- compact


@ours
def test_a_topic_is_compacted(runnel, admin, table):
    size = admin.sizes([(table, 1)])[table, 1]
    result = runnel("topics", "compact", table)
    assert (result.code, result.err) == (0, "")
    left = admin.sizes([(table, 1)])[table, 1]
    assert rows(result.out) == [
        ["partition", "records", "before", "after", "bytes", "before", "after", "end", *CLEAN],
        ["0", "0", "0", "0", "0", "0", "0", "now", "-"],
        ["1", "6", "2", str(size), str(left), "6", "6", "now", "-"],
    ]
    assert left < size
    assert runnel("consume", table).out == "2\n2\n"


@ours
def test_one_partition_is_compacted(runnel, table):
    told = json.loads(runnel("topics", "compact", table, "--partition", 1, "--json").out)
    (partition,) = told["partitions"]
    assert told["topic"] == table
    assert partition.pop("bytes_before") > partition.pop("bytes_after")
    assert partition == {
        "partition": 1, "records_before": 6, "records_after": 2, "end": 6,
        "clean": {"offset": 6, "time": None, "held_by": None},
    }  # fmt: skip


@ours
def test_a_topic_that_is_not_compacted_is_left_alone(runnel, producer, topic):
    for _ in range(2):
        producer.produce(topic, b"value", key=b"key")
    assert runnel("topics", "compact", topic) == error(
        f'topic "{topic}" is not compacted: its cleanup.policy does not say so',
        "`runnel topics alter TOPIC --config cleanup.policy=compact` keeps only the newest record of each key",
    )
    assert runnel("consume", topic).out == "value\nvalue\n"


def test_what_is_not_there_is_told(runnel, name, table):
    assert runnel("topics", "compact", f"{name}-none") == error(
        f'there is no topic "{name}-none"',
        "`runnel topics list` shows those that are there, `runnel topics create` makes one",
    )
    assert runnel("topics", "compact", table, "--partition", 2) == error(
        f'topic "{table}" has no partition 2', "its partitions are 0 to 1"
    )


@pytest.mark.servers
@pytest.mark.parametrize("server", ["kafka"], indirect=True)
def test_another_broker_cannot_be_asked(runnel, server, table):
    assert runnel("topics", "compact", table) == error(
        f"the broker at {server.bootstrap} cannot compact on demand", KAFKA_COMPACTS
    )
    (described,) = json.loads(runnel("topics", "describe", table, "--json").out)
    assert [partition["clean"] for partition in described["partitions"]] == [None, None]
    assert "clean to" not in runnel("topics", "describe", table).out


# --- describe


@ours
def test_a_compacted_topic_is_described_with_how_clean_it_is(runnel, table):
    head, empty, full = rows(runnel("topics", "describe", table).out)[1:4]
    assert head == ["partition", "leader", "replicas", "in", "sync", "start", "end", "size", *CLEAN]
    assert empty[-3:] == ["0", "now", "-"]
    assert full[-3:] == ["0", "2023-11-14T22:13:20.000Z", "-"]
    runnel("topics", "compact", table)
    (described,) = json.loads(runnel("topics", "describe", table, "--json").out)
    assert described["partitions"][1]["clean"] == {"offset": 6, "time": None, "held_by": None}


@ours
def test_the_transaction_that_holds_compaction_back_is_shown(runnel, producer, table, open_transaction):
    begun = open_transaction(table, 1, key=b"a")
    producer.produce(table, b"3", key=b"a", partition=1)
    first = rows(runnel("topics", "compact", table, "--partition", 1).out)[1]
    assert first[-1] == begun.id
    (described,) = json.loads(runnel("topics", "describe", table, "--json").out)
    clean = described["partitions"][1]["clean"]
    assert clean["offset"] <= 6
    assert (clean["held_by"]["transaction"], clean["held_by"]["offset"]) == (begun.id, 6)
    begun.client.abort_transaction(60)
    (done,) = json.loads(runnel("topics", "compact", table, "--partition", 1, "--json").out)["partitions"]
    assert (done["clean"]["held_by"], done["clean"]["offset"]) == (None, done["end"])
    assert runnel("consume", table).out == "2\n3\n"


def test_a_topic_that_is_not_compacted_tells_nothing_of_it(runnel, topic):
    assert "clean" not in runnel("topics", "describe", topic).out
    (described,) = json.loads(runnel("topics", "describe", topic, "--json").out)
    assert described["partitions"][0]["clean"] is None
