"""What holds for the client on any Kafka: every test here runs against our broker, and against Apache Kafka."""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it lists no names as its own
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from crc32c import crc32c

from runnel import Broker
from runnel.cli import main
from runnel.client import Admin, Producer, Transactions
from runnel.client.connection import LOGGER
from runnel.protocol.error_codes import ErrorCode
from runnel.records import HEADER_SIZE, TRANSACTIONAL, Record, build_batch
from runnel.records import Producer as ProducerOfBatch
from tests.broker_wire import Wire, produce, produce_body
from tests.interop.kafka_server import kafka_server

PRODUCE = 0
FIRST_GENERATION = 9  # a version of Produce, which does not add partitions to transactions
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}  # not ten seconds

numbers = itertools.count()


class Server(NamedTuple):
    name: str
    bootstrap: str
    broker: Broker | None = None


class Result(NamedTuple):
    code: object
    out: str
    err: str


@pytest.fixture(scope="session", params=["runnel", pytest.param("kafka", marks=pytest.mark.servers)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "runnel":
        with Broker(settings=SETTINGS) as broker:
            yield Server("runnel", broker.bootstrap, broker)
    else:
        with kafka_server(tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka:
            yield Server("kafka", kafka.bootstrap)


@pytest.fixture(scope="session")
def bootstrap(server: Server) -> str:
    return server.bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap) as producer:
        yield producer


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"name-{next(numbers)}"


@pytest.fixture
def topic(admin: Admin, name: str) -> Iterator[str]:
    """A topic with one partition."""
    admin.create(name, partitions=1)
    yield name
    admin.delete(name)


@pytest.fixture
def narrow(admin: Admin, name: str) -> Iterator[str]:
    """A topic that takes no large record. It is made so: Apache Kafka heeds another config a moment later."""
    admin.create(f"{name}-narrow", partitions=1, configs={"max.message.bytes": "1000"})
    yield f"{name}-narrow"
    admin.delete(f"{name}-narrow")


@pytest.fixture
def kept(admin: Admin, topic: str) -> str:
    """A topic with one partition, for records that are older than a topic keeps them by default."""
    admin.alter(topic, configs={"retention.ms": "-1"})
    return topic


@pytest.fixture
def strange(bootstrap: str, kept: str) -> str:
    """A topic with two records, the first of which has a header with a name that is not UTF-8."""
    plain = build_batch([Record(b"a", headers=(("hh", b"1"),)), Record(b"b", headers=(("h", b"2"),))])
    body = plain[HEADER_SIZE:].replace(b"\x04hh", b"\x04\xffh")
    header = bytearray(plain[:HEADER_SIZE])
    header[17:21] = crc32c(bytes(header[21:]) + body).to_bytes(4, "big")
    with Wire(bootstrap) as wire:
        assert produce(wire, kept, bytes(header) + body)["error_code"] == ErrorCode.NONE
    return kept


@pytest.fixture
def wide(admin: Admin, name: str) -> Iterator[str]:
    """A topic with three partitions."""
    wide = f"{name}-wide"
    admin.create(wide, partitions=3)
    yield wide
    admin.delete(wide)


@pytest.fixture
def runnel(
    bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Runs the command line inside of the test's process, against the server."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("RUNNEL_BOOTSTRAP", bootstrap)

    def run(*arguments: object, stdin: bytes | io.RawIOBase = b"") -> Result:
        stream = io.BytesIO(stdin) if isinstance(stdin, bytes) else io.BufferedReader(stdin)
        monkeypatch.setattr("sys.argv", ["runnel", *map(str, arguments)])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        with pytest.raises(SystemExit) as ended:
            main()
        return Result(ended.value.code, *capsys.readouterr())

    return run


# --- transactions


class Open(NamedTuple):
    """A transaction at work: its id, and the client that writes in it."""

    id: str
    client: KafkaProducer


@pytest.fixture
def open_transaction(bootstrap: str, name: str) -> Iterator[Callable[..., Open]]:
    """Begins transactions that write a record to each of some partitions. They are aborted at the end."""
    numbers = itertools.count()
    begun: list[Open] = []

    def begin(topic: str, *partitions: int, timeout: int = 60_000, key: bytes | None = None) -> Open:
        own = f"{name}-{next(numbers)}"
        configuration = {"bootstrap.servers": bootstrap, "transactional.id": own, "transaction.timeout.ms": timeout}
        client = KafkaProducer({**configuration, "logger": LOGGER})
        client.init_transactions(60)
        client.begin_transaction()
        for partition in partitions:
            client.produce(topic, b"open", key, partition=partition)
        assert client.flush(60) == 0
        begun.append(Open(own, client))
        return begun[-1]

    yield begin
    with Admin(bootstrap) as admin:
        for each in begun:
            end_if_open(admin, each.id)


def end_if_open(admin: Admin, transactional_id: str) -> None:
    if Transactions(admin).describe(transactional_id).state == "ongoing":
        Transactions(admin).abort(transactional_id)


@pytest.fixture
def hang(server: Server) -> Callable[[str, int, int], None]:
    """Writes a record of a producer whose transaction no coordinator knows: what a broker with a defect leaves.

    Our broker is written to behind its back; Apache Kafka is told not to ask the coordinator.
    """

    def write(topic: str, partition: int, producer_id: int) -> None:
        now = time.time_ns() // 1_000_000
        batch = build_batch(
            [Record(b"hangs", None, now)], producer=ProducerOfBatch(producer_id, 0, 0), attributes=TRANSACTIONAL
        )
        if server.broker is not None:
            found = server.broker._running().node.topics.find(topic)
            assert found is not None
            found.partition(partition).append_batch(batch)
            return
        body = produce_body(topic, batch, partition) | {"transactional_id": f"hanging-{producer_id}"}
        verify(server.bootstrap, "false")
        deadline = time.monotonic() + 60
        with Wire(server.bootstrap) as wire:
            while True:
                answer = wire.ask(PRODUCE, FIRST_GENERATION, **body)
                code = answer["responses"][0]["partition_responses"][0]["error_code"]
                # A broker answers a change of its configs before it lives by it; and a request that meets the change
                # looks at the config twice, and may find two answers.
                under_way = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE)
                if code not in under_way or time.monotonic() > deadline:
                    break
        verify(server.bootstrap, "true")
        assert code == ErrorCode.NONE

    return write


def verify(bootstrap: str, value: str) -> None:
    entry = ConfigEntry("transaction.partition.verification.enable", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": bootstrap, "logger": LOGGER})
    client.incremental_alter_configs([resource])[resource].result()
