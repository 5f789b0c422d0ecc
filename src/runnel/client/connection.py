"""How to reach a Kafka: an address, and librdkafka's settings where a cluster needs some, such as those of SASL.

librdkafka writes its own log to stderr by default. Here it goes to Python's logger `runnel.client`, which is silent
unless the program sets it up.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError

from runnel.client import arguments
from runnel.client.errors import DOWN, InvalidAddress, Unreachable, reason_of

DEFAULT_PORT = 9092
MOST_SECONDS = 3_600  # librdkafka's limit
ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.%\w]+)\]|(?P<host>[^\s:,\[\]]+))(?::(?P<port>\d{1,5}))?")

LOGGER = logging.getLogger("runnel.client")
LOGGER.addHandler(logging.NullHandler())

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Connection:
    bootstrap: str
    settings: Settings = field(default_factory=dict)
    timeout: float = 10.0

    def __post_init__(self) -> None:
        arguments.seconds("timeout", self.timeout, MOST_SECONDS)
        self.addresses  # noqa: B018  # refuses a bad one at once

    @property
    def addresses(self) -> list[tuple[str, int]]:
        if not isinstance(self.bootstrap, str):
            raise InvalidAddress(self.bootstrap)
        return [_address(part.strip(), self.bootstrap) for part in self.bootstrap.split(",")]

    @property
    def is_plain(self) -> bool:
        """Whether a bare socket will do."""
        return str(self.settings.get("security.protocol", "plaintext")).lower() == "plaintext"

    def reach(self) -> None:
        """Raise if nothing listens there: librdkafka itself would wait and try again for its whole time-out."""
        reason = ""
        for address in self.addresses:
            try:
                socket.create_connection(address, timeout=self.timeout).close()
                return
            except TimeoutError:
                reason = "no answer in time"
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
        raise Unreachable(self.bootstrap, reason)

    def configuration(self, own: Settings, faults: Faults) -> dict[str, Any]:
        """librdkafka's configuration: what Runnel needs, and then what the user gave, which wins."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "runnel",
            "enable.metrics.push": False,
            "error_cb": faults,
            "logger": LOGGER,
            **own,
            **self.settings,
        }


class Faults:
    """Remembers why no broker could be reached: librdkafka tells it beside the calls, and keeps trying."""

    def __init__(self) -> None:
        self.down: str | None = None
        self.ever = False

    def __call__(self, error: KafkaError) -> None:
        if error.code() in DOWN:
            self.down = reason_of(error)
            self.ever = True

    def forget(self) -> None:
        self.down = None


def _address(text: str, bootstrap: str) -> tuple[str, int]:
    found = ADDRESS.fullmatch(text)
    port = int(found["port"] or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port < 65536:
        raise InvalidAddress(bootstrap)
    return found["ipv6"] or found["host"], port
