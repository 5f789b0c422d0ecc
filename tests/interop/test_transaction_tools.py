"""Apache Kafka's tools for transactions on our broker and on our files, and its broker's answers beside ours."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from runnel import Broker
from runnel.broker.transactions import Status
from runnel.log import open_log
from runnel.records import TRANSACTIONAL, Record, build_batch
from runnel.records import Producer as Sender
from tests.interop.java_tools import LIMIT, TOOLS, fails, succeeds, table
from tests.interop.kafka_distribution import java_command, java_environment
from tests.interop.kafka_server import kafka_server
from tests.interop.transaction_scenarios import SCENARIOS, Told, epochs_that_are_used_up, told_by
from tests.interop.transactional_clients import READERS, committed_offset, writer

pytestmark = pytest.mark.servers

TRANSACTIONS = "TransactionsCommand"
LONG_AGO = 1_700_000_000_000
END = b"end"
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"node.id": 1}) as broker:
        yield broker


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as server:
        yield server.bootstrap


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"name-{next(numbers)}"
    broker.create_topic(name)
    return name


def java(tool: str, *arguments: str) -> str:
    """What a tool says that does not take --bootstrap-server first."""
    ended = subprocess.run(
        java_command(f"{TOOLS}.{tool}", *arguments),
        env=java_environment(), capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


# --- answers

# It takes Apache Kafka a minute to use them up. That they come to an end is tried with every change in the tests of
# the coordinator, which begin near the end.
LONG = {epochs_that_are_used_up}


def param_of(scenario: Callable[[Told], None]) -> Any:
    return pytest.param(scenario, id=scenario.__name__, marks=pytest.mark.soak if scenario in LONG else ())


@pytest.mark.parametrize("scenario", [param_of(each) for each in SCENARIOS])
def test_the_answers_are_those_of_kafka(bootstrap: str, kafka: str, scenario: Callable[[Told], None]) -> None:
    name = scenario.__name__
    assert told_by(bootstrap, scenario, name) == told_by(kafka, scenario, name)


# --- producers


def test_the_message_copier_copies_each_message_once_with_aborts_at_random(broker: Broker, topic: str) -> None:
    count = 1_000
    output = f"{topic}-copy"
    broker.create_topic(output)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(LIMIT) == 0
    said = java(
        "TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap, "--input-topic", topic, "--input-partition", "0"),
        *("--output-topic", output, "--max-messages", str(count), "--consumer-group", topic),
        *("--transaction-size", "37", "--transactional-id", topic, "--enable-random-aborts"),
    )
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert (told[-1]["stage"], told[-1]["totalProcessed"]) == ("ShutdownComplete", count)
    last = b"%d" % (count - 1)
    copied = READERS["confluent"](broker.bootstrap, output, {0: last})
    assert copied == {0: [b"%d" % number for number in range(count)]}
    assert committed_offset(broker.bootstrap, topic, topic) == count


def test_the_performance_producer_writes_in_transactions(bootstrap: str, topic: str) -> None:
    said = java(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "500", "--record-size", "20", "--throughput", "-1"),
        *("--bootstrap-server", bootstrap, "--transactional-id", topic, "--transaction-duration-ms", "20"),
    )
    assert said.startswith("500 records sent")
    with writer("confluent", bootstrap, topic) as producer:
        producer.begin()
        producer.write(topic, END)
        producer.commit()
    assert len(READERS["confluent"](bootstrap, topic, {0: END})[0]) == 501


# --- administration


def test_transactions_are_listed_and_described(bootstrap: str, topic: str) -> None:
    with writer("confluent", bootstrap, topic) as producer:
        producer.begin()
        producer.write(topic, b"open")
        producer.send_offsets({(topic, 0): 1}, topic)  # which waits for the record, too
        rows = table(succeeds(bootstrap, TRANSACTIONS, "list"))
        (mine,) = (row for row in rows if row["TransactionalId"] == topic)
        assert (mine["Coordinator"], mine["TransactionState"]) == ("1", "Ongoing")
        told = succeeds(bootstrap, TRANSACTIONS, "describe", "--transactional-id", topic)
        (described,) = table(told)
        assert described["ProducerId"] == mine["ProducerId"]
        assert (described["TransactionState"], described["TransactionTimeoutMs"]) == ("Ongoing", "60000")
        assert set(described["TopicPartitions"].split(",")) == {f"{topic}-0", "__consumer_offsets-0"}
        producers = succeeds(bootstrap, TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0")
        (known,) = table(producers)
        assert (known["ProducerId"], known["CurrentTransactionStartOffset"]) == (mine["ProducerId"], "0")
        producer.commit()
    (known,) = table(succeeds(bootstrap, TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0"))
    assert known["CurrentTransactionStartOffset"] == "None"


def test_an_open_transaction_that_the_coordinator_knows_does_not_hang(bootstrap: str, topic: str) -> None:
    with writer("confluent", bootstrap, topic) as producer:
        producer.begin()
        producer.write(topic, b"open")
        producer.send_offsets({(topic, 0): 1}, topic)
        told = succeeds(bootstrap, TRANSACTIONS, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
        assert table(told) == []
        producer.abort()


def test_a_transaction_that_hangs_is_found_and_aborted(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        batch = build_batch([Record(b"hangs", None, LONG_AGO)], producer=Sender(4_711, 3, 0), attributes=TRANSACTIONAL)
        log.partition("orders", 0).append_batch(batch)
    with Broker(tmp_path, settings={"node.id": 1, "log.retention.ms": -1}) as broker:
        (found,) = table(succeeds(broker.bootstrap, TRANSACTIONS, "find-hanging", "--broker-id", "1"))
        assert (found["Topic"], found["Partition"], found["StartOffset"]) == ("orders", "0", "0")
        assert (found["ProducerId"], found["ProducerEpoch"]) == ("4711", "3")
        abort = ("abort", "--topic", "orders", "--partition", "0", "--start-offset")
        assert "Could not find any open transactions" in fails(broker.bootstrap, TRANSACTIONS, *abort, "7")
        succeeds(broker.bootstrap, TRANSACTIONS, *abort, "0")
        assert table(succeeds(broker.bootstrap, TRANSACTIONS, "find-hanging", "--broker-id", "1")) == []
        with writer("confluent", broker.bootstrap, "t") as producer:
            producer.begin()
            producer.write("orders", END)
            producer.commit()
        assert READERS["confluent"](broker.bootstrap, "orders", {0: END}) == {0: [END]}


def test_the_second_generation_of_transactions_is_a_finalised_feature(bootstrap: str) -> None:
    lines = succeeds(bootstrap, "FeatureCommand", "describe").splitlines()
    (told,) = (line for line in lines if "transaction.version" in line)
    assert re.search(r"SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2", told)


# --- files


def test_kafka_reads_our_internal_topics_with_its_decoders(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        told = Told(broker.bootstrap, "x")
        first = told.initialise()
        told.add(first, (told.topic, 0), (told.topic, 1))
        told.add_offsets(first)
        told.commit_offset(first, 5)
        told.end(first, committed=True)
        second = told.initialise(5, expected=first)
        told.produce(second, 0, version=12)
        told.end(second, committed=False, version=5)
        told.wire.close()
    states = dumped(tmp_path, "__transaction_state-0", "--transaction-log-decoder")
    assert all(key == {"transactionalId": "x"} for key, _ in states)
    assert [Status(state["transactionStatus"]) for _, state in states] == [
        Status.EMPTY,
        Status.ONGOING,
        Status.ONGOING,
        Status.PREPARE_COMMIT,
        Status.EMPTY,  # it is written over the end that was complete
        Status.ONGOING,
        Status.PREPARE_ABORT,
        Status.COMPLETE_ABORT,
    ]
    assert [state["producerEpoch"] for _, state in states] == [0, 0, 0, 0, 1, 1, 2, 2]
    assert states[-2][1]["transactionPartitions"] == [{"topic": "topic-x", "partitionIds": [0]}]
    assert states[-1][1]["clientTransactionVersion"] == 2
    ((key, offset),) = dumped(tmp_path, "__consumer_offsets-0", "--offsets-decoder")
    assert (key, offset["offset"]) == ({"group": "group-x", "topic": "topic-x", "partition": 0}, 5)


def dumped(folder: Path, partition: str, decoder: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Keys and values as Kafka reads them; markers have none."""
    files = ",".join(str(path) for path in sorted((folder / partition).glob("*.log")))
    found = re.findall(r"key: (\{.*\}) payload: (\{.*\})", java("DumpLogSegments", decoder, "--files", files))
    return [(json.loads(key)["data"], json.loads(value)["data"]) for key, value in found]
