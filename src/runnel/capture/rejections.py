"""Records that their topic does not take because they are too large: what stands for them in `<topic>.rejected`.

The key is the record's. The headers name the topic, the reason, the size and the limit, the column that is the
largest, the position of the capture and the transaction; the value is what the record's envelope says of itself: `op`,
`source`, `transaction`. So whoever keeps the rows knows which one to fetch from the database. What does not fit is
left out: first the value, then the key, of which a hash stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from runnel.capture.events import Position
from runnel.capture.names import REJECTED
from runnel.capture.outgoing import Headers, Outgoing, Page
from runnel.client.bodies import OVERHEAD_BYTES
from runnel.client.errors import RecordTooLarge
from runnel.client.limits import BATCH_HEADER, CONFIGS, OF_REQUESTS, UNLIMITED

HEADER_OVERHEAD = 10  # lengths of a header's name and value, at most
SHOWN = 200  # characters of a name in a header
TOLD = ("op", "source", "transaction")


class Refused(NamedTuple):
    """One record of a page, and why it cannot go where it was to go."""

    topic: str
    page: Page
    row: int
    size: int
    limit: int
    config: str = CONFIGS[0]

    @property
    def reason(self) -> str:
        return f"it has {self.size:,} bytes, and topic {self.topic} takes {self.limit:,} ({self.config})"

    @property
    def advice(self) -> str:
        if self.size > UNLIMITED:
            return "Kafka takes none of 2 GiB: leave its largest column out with --without-columns"
        return f"raise the brokers' {self.config}" if self.config == OF_REQUESTS else f"raise its {self.config}"


def topic_of(topic: str) -> str:
    return f"{topic}{REJECTED}"


def size_of(key: str | bytes | None, value: str | bytes | None, headers: Headers) -> int:
    """Of a batch that holds this record alone, at most."""
    own = sum(len(_bytes(part)) for header in headers for part in header) + len(headers) * HEADER_OVERHEAD
    return BATCH_HEADER + OVERHEAD_BYTES + len(_bytes(key)) + len(_bytes(value)) + own


def put_aside(refused: Refused, capture: str, position: Position | None, room: int, out: Outgoing) -> None:
    """The record that stands for it, in a topic that takes `room` bytes."""
    topic, time = topic_of(refused.topic), refused.page.times[refused.row]
    for key, value, headers in _forms(refused, capture, position):
        if size_of(key, value, headers) <= room:
            out.add(topic, key, value, time, headers)
            return
    raise RecordTooLarge(topic, f"it takes {room:,} bytes, not even what names a record that was refused")


def _forms(
    refused: Refused, capture: str, position: Position | None
) -> Iterator[tuple[str | bytes | None, str | None, Headers]]:
    """From the one that tells most to the smallest."""
    page, row = refused.page, refused.row
    key, own = page.keys[row], page.headers[row]
    told, column = _told(page.values[row])
    why: Headers = (
        ("runnel.capture", capture),
        ("runnel.topic", refused.topic),
        ("runnel.reason", refused.reason),
        ("runnel.bytes", str(refused.size)),
        ("runnel.limit", str(refused.limit)),
        ("runnel.timestamp", str(page.times[row])),
    )
    where = (*_position(position), *column)
    transaction = _transaction(told)
    value = json.dumps(told, separators=(",", ":"), ensure_ascii=False) if told else None
    yield key, value, (*own, *why, *where, *transaction)
    yield key, value, (*why, *where, *transaction)
    yield key, None, (*why, *where, *transaction)
    hashed: Headers = (("runnel.key.sha256", hashlib.sha256(_bytes(key)).hexdigest()),)
    yield None, None, (*why, *where, *transaction, *hashed)
    yield None, None, (("runnel.topic", refused.topic), ("runnel.bytes", str(refused.size)), *hashed)


def _told(value: str | bytes | None) -> tuple[dict[str, Any], Headers]:
    """What an envelope says of itself, and its largest column; nothing if it is none, as of an outbox."""
    try:
        found = json.loads(value or "null")
    except (ValueError, RecursionError):
        return {}, ()
    if isinstance(found, dict) and "payload" in found and "schema" in found:
        found = found["payload"]
    if not isinstance(found, dict):
        return {}, ()
    rows = [row for row in (found.get("before"), found.get("after")) if isinstance(row, dict)]
    sizes = [(len(str(value)), name) for row in rows for name, value in row.items()]
    column: Headers = (("runnel.column", max(sizes)[1][:SHOWN]),) if sizes else ()
    return {name: found[name] for name in TOLD if name in found}, column


def _position(position: Position | None) -> Headers:
    if position is None:
        return ()
    told = {"at": position.at, "index": position.index}
    return (("runnel.position", json.dumps(told, separators=(",", ":"))),)


def _transaction(told: dict[str, Any]) -> Headers:
    block, source = told.get("transaction"), told.get("source")
    if isinstance(block, dict) and "id" in block:
        return (("runnel.transaction", str(block["id"])[:SHOWN]),)
    if isinstance(source, dict) and source.get("txId") is not None:
        return (("runnel.transaction", str(source["txId"])[:SHOWN]),)
    return ()


def _bytes(part: str | bytes | None) -> bytes:
    return part.encode() if isinstance(part, str) else part or b""
