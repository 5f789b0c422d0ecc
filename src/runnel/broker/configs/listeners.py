"""Where the broker listens, and what it tells clients: `NAME://HOST:PORT`, as Kafka writes it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from runnel.broker.configs.values import split
from runnel.errors import InvalidSetting

FORM = "NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092 or PLAINTEXT://[::1]:9092"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
EVERYWHERE = ("", "0.0.0.0", "::")  # hosts that stand for every interface

# An IPv6 address stands in brackets.
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<six>[^\]]*)\]|(?P<host>[^:\[\]/]*)):(?P<port>\d{1,5})")


class Listener(NamedTuple):
    name: str
    host: str  # empty: every interface
    port: int  # 0: a free one

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Protocol(NamedTuple):
    """What is spoken on the listener of this name."""

    listener: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.listener}:{self.protocol}"


def parse_listeners(name: str, value: Any) -> tuple[Listener, ...]:
    """From a text with commas, or from listeners; a name or an address that stands there twice is refused."""
    parts = split(value) if isinstance(value, str) else value
    found = tuple(part if isinstance(part, Listener) else _listener(name, part) for part in parts)
    names = [listener.name for listener in found]
    addresses = [(listener.host, listener.port) for listener in found if listener.port]
    for listener in found:
        if names.count(listener.name) > 1:
            raise InvalidSetting(name, _text(found), f"each name once, and {listener.name} stands there twice")
        if addresses.count((listener.host, listener.port)) > 1:
            raise InvalidSetting(name, _text(found), f"each address once, and that of {listener} stands there twice")
    return found


def parse_protocols(name: str, value: Any) -> tuple[Protocol, ...]:
    """From `NAME:PROTOCOL,NAME:PROTOCOL`, or from what this made of it."""
    parts = split(value) if isinstance(value, str) else value
    return tuple(part if isinstance(part, Protocol) else _protocol(name, part) for part in parts)


def _text(listeners: tuple[Listener, ...]) -> str:
    return ",".join(map(str, listeners))


def _listener(name: str, part: str) -> Listener:
    match = _LISTENER.fullmatch(part)
    if match is None or int(match["port"]) > 65535:
        raise InvalidSetting(name, part, FORM)
    host = match["host"] if match["six"] is None else match["six"]
    return Listener(match["name"].upper(), host, int(match["port"]))


def _protocol(name: str, part: str) -> Protocol:
    listener, _, protocol = part.partition(":")
    if protocol not in PROTOCOLS:
        raise InvalidSetting(name, part, f"NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
    return Protocol(listener.upper(), protocol)
