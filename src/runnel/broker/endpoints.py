"""Where clients are told to find the broker."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runnel.broker.configs.listeners import EVERYWHERE, Listener, parse_listeners


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(setting: str, value: str) -> Endpoint:
    """From `HOST:PORT`."""
    _, host, port = parse_listeners(setting, f"PLAINTEXT://{value}")[0]
    return Endpoint(host, port)


def advertised(bound: Iterable[Listener], asked: Iterable[Listener]) -> Mapping[str, Endpoint]:
    """By the name of the listener that a client came in by. `bound` has the ports that were really taken.

    A listener on every interface is advertised by the machine's name, unless `asked` says otherwise; a port of 0 there
    means the port that was taken.
    """
    told = {listener.name: listener for listener in asked}
    endpoints = {}
    for listener in bound:
        host = socket.gethostname() if listener.host in EVERYWHERE else listener.host
        other = told.get(listener.name)
        endpoints[listener.name] = (
            Endpoint(other.host, other.port or listener.port) if other else Endpoint(host, listener.port)
        )
    return endpoints
