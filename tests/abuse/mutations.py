"""Requests of every API and version, and what chance makes of their bytes. Everything follows from the seed."""

from __future__ import annotations

import random
import struct
from functools import cache
from typing import Any
from uuid import UUID

from runnel.protocol.schemas import Array, Field, schema
from runnel.protocol.versions import SERVED
from tests.abuse.wire import LENGTH, batch_of, framed, request

TOPICS = ("fuzzed-0", "fuzzed-1")  # they exist
NAMES = (*TOPICS, "fuzzed-none", "fuzz-group", "fuzz-member", "", "a" * 249, "range", "consumer", "user", "client-id")
CONFIGS = ("retention.ms", "max.message.bytes", "cleanup.policy", "no.such.name")
NUMBERS = {
    "bool": (False, True),
    "int8": (0, 1, -1, 127),
    "int16": (0, 1, -1, 2**15 - 1),
    "uint16": (0, 1, 2**16 - 1),
    "int32": (0, 1, 2, 100, -1, 2**31 - 1),
    "int64": (0, 1, 2, 1000, -1, -2, 2**63 - 1),
    "float64": (0.0, 1e12, -1.0, 1e300),
}
# Some would last, or change what the good clients get.
CHOSEN: dict[str, tuple[Any, ...]] = {
    "max_wait": (0, 1, 10),
    "min_bytes": (0, 1, 100),
    "timeout": (100,),
    "session_timeout": (6000, 10_000, -1),
    "rebalance_timeout": (10, 100, -1),
    "num_partitions": (1, 2, -1, 0),
    "count": (1, 3, -1),
    "replication_factor": (1, -1, 3),
    "resource_type": (2, 4, 8, 16, 0, 127),
    "resource_name": (*TOPICS, "1", "fuzz-group"),
    "entity_type": ("client-id", "user", "ip", "nonsense"),
    "entity_name": ("fuzz", "abuse"),
    "config_names": (None, [], CONFIGS),
    "acks": (-1, 0, 1, 5),
    "transactional_id": (None, "", "fuzz"),
}
KINDS = ("as it is", "bits", "bytes", "cut", "splice", "length", "extreme", "random body")


class Mutations:
    """Endless frames; `next` gives one, and whether its length may be a lie."""

    def __init__(self, seed: str, topic_ids: tuple[UUID, ...] = ()) -> None:
        self._chance = random.Random(seed)
        self._topic_ids = (*topic_ids, None, UUID(int=1))
        self._versions = [(key, version) for key, (least, most) in SERVED.items() for version in range(least, most + 1)]
        self._last = b"\x00" * 20

    def next(self) -> tuple[bytes, bool]:
        chance = self._chance
        key, version = chance.choice(self._versions)
        body = bytearray(self.whole(key, version)[LENGTH.size :])
        kind = chance.choice(KINDS)
        if kind == "length":
            return LENGTH.pack(self._wrong_length(len(body))) + bytes(body), True
        self._mutate(kind, body)
        self._last = bytes(body)
        return framed(bytes(body)), False

    def whole(self, key: int, version: int) -> bytes:
        """A request as a client could send it."""
        return request(key, version, self._structure(schema(key, version).request), self._chance.randrange(1, 1000))

    # --- what is changed

    def _mutate(self, kind: str, body: bytearray) -> None:
        chance = self._chance
        start = 4 if chance.random() < 0.9 else 0  # the key and the version are worth keeping
        if kind == "bits":
            for _ in range(chance.randrange(1, 4)):
                body[chance.randrange(start, len(body))] ^= 1 << chance.randrange(8)
        elif kind == "bytes":
            for _ in range(chance.randrange(1, 6)):
                body[chance.randrange(start, len(body))] = chance.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
                )
        elif kind == "cut":
            del body[chance.randrange(8, len(body)) :]
        elif kind == "splice":
            body[chance.randrange(8, len(body)) :] = self._last[chance.randrange(len(self._last)) :]
        elif kind == "extreme":
            at = chance.randrange(start, max(start + 1, len(body) - 4))
            body[at : at + 4] = struct.pack(">i", chance.choice((-1, 0, 2**31 - 1, -(2**31), len(body), 500_000)))
        elif kind == "random body":
            body[10:] = chance.randbytes(chance.randrange(200))
        body += bytes(max(0, 8 - len(body)))

    def _wrong_length(self, size: int) -> int:
        chance = self._chance
        return chance.choice(
            (size - 1, size + 1, size // 2, size * 2, 8, 7, 0, -1, -size, 2**31 - 1, 100 * 2**20, 2**24)
        )

    # --- values that fit the schema

    def _structure(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        return {field.name: self._value(field) for field in fields}

    def _value(self, field: Field) -> Any:
        chance = self._chance
        if field.name in CHOSEN:
            return chance.choice([each for each in CHOSEN[field.name] if each is not None or field.nullable])
        if field.nullable and chance.random() < 0.1 and field.kind != "float64":
            return None
        if isinstance(field.kind, Array):
            inner = Field(field.name, field.kind.item, False, None)
            return [self._value(inner) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
        if not isinstance(field.kind, str):
            return self._structure(field.kind)
        return self._primitive(field)

    def _primitive(self, field: Field) -> Any:
        chance = self._chance
        if field.kind in NUMBERS:
            return chance.choice(NUMBERS[field.kind])
        if field.kind == "string":
            return chance.choice(
                TOPICS if field.name in ("topic", "name") and chance.random() < 0.6 else NAMES + CONFIGS
            )
        if field.kind == "uuid":
            return chance.choice(self._topic_ids)
        if field.kind == "records":
            return chance.choice((_batch(), _batch(), _batch()[:-1], b"", bytes(61)))
        return chance.choice((b"", b"\x00\x01\x00\x00\x00\x01\x00\x08fuzzed-0\x00\x00\x00\x00", chance.randbytes(20)))


@cache
def _batch() -> bytes:
    return batch_of(b"fuzz", b"more of it")
