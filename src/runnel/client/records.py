"""What goes in and comes out: a token for a record that was written, and a record that was read with its place."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Token(NamedTuple):
    """Where a record was written. Whoever has read up to it has seen the record."""

    topic: str
    partition: int
    offset: int


class Received(NamedTuple):
    """A record as it was read. The timestamp is in milliseconds since 1970, or -1 if there is none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def token(self) -> Token:
        return Token(self.topic, self.partition, self.offset)
