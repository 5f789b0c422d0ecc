"""One broker in a process of its own for the tests of a file, with two good clients that must notice nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.abuse.broker_process import BrokerProcess
from tests.abuse.good_clients import TOPIC, GoodClients
from tests.abuse.wire import Client, make_topics


@dataclass(frozen=True)
class Victim:
    broker: BrokerProcess
    good: GoodClients

    @property
    def address(self) -> tuple[str, int]:
        return self.broker.address

    def connect(self, *, receive_buffer: int | None = None) -> Client:
        return Client(self.address, receive_buffer=receive_buffer)

    def check(self) -> None:
        """It is well, and goes on serving those who behave."""
        self.broker.check()
        self.good.wait_for_more(20)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    yield from victim_in(tmp_path_factory.mktemp("broker"))


def victim_in(directory: Path, **settings: str) -> Iterator[Victim]:
    with BrokerProcess(directory, {name.replace("_", "."): value for name, value in settings.items()}) as broker:
        make_topics(broker.address, TOPIC)
        with GoodClients(broker.bootstrap) as good:
            yield Victim(broker, good)
            broker.check()  # inside: the good clients of a broker that is gone are not waited for
