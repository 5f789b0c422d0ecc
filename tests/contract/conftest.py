"""What holds for the client on any Kafka: every test here runs against our broker, and against Apache Kafka."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from runnel import Broker
from runnel.cli import main
from runnel.client import Admin, Producer
from tests.interop.kafka_server import kafka_server

numbers = itertools.count()


class Server(NamedTuple):
    name: str
    bootstrap: str


class Result(NamedTuple):
    code: object
    out: str
    err: str


@pytest.fixture(scope="session", params=["runnel", pytest.param("kafka", marks=pytest.mark.servers)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "runnel":
        with Broker() as broker:
            yield Server("runnel", broker.bootstrap)
    else:
        with kafka_server(tmp_path_factory.mktemp("kafka")) as kafka:
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
def kept(admin: Admin, topic: str) -> str:
    """A topic with one partition, for records that are older than a topic keeps them by default."""
    admin.alter(topic, configs={"retention.ms": "-1"})
    return topic


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
