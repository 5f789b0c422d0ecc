"""The rows of a dump as lines for people, and as JSON for programs.

Keys and values are shown as text in quotes if they are printable UTF-8. Others are shown in hexadecimal, and in JSON as
an object with their base64, so that neither can be taken for the other.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from functools import singledispatch
from typing import Any

from runnel.log.dump import BatchRow, CheckpointRow, EpochRow, IndexRow, ProducerRow, Row, SyncedRow, TimeIndexRow
from runnel.records import NO_PRODUCER_ID, Codec, Record

INDENT = "    "


def printable(text: str) -> str:
    """The text with an escape for each character that would not show, or would command the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def as_time(milliseconds: int) -> str:
    """In words that sort; the number itself if it is no time that a calendar knows."""
    try:
        time = datetime.fromtimestamp(milliseconds // 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1_000:03d}Z" if milliseconds >= 0 else str(milliseconds)


# --- lines


@singledispatch
def as_text(row: Row) -> list[str]:
    """The lines of a row."""
    raise TypeError(f"no lines for {row!r}")


@as_text.register
def _(row: BatchRow) -> list[str]:
    header = row.header
    parts = [
        f"offset {header.base_offset} to {header.last_offset}",
        f"position {row.position}",
        f"{header.size} bytes",
        f"{header.count} {'record' if header.count == 1 else 'records'}",
        f"{as_time(header.max_timestamp)}{' (append time)' if header.is_append_time else ''}",
        f"leader epoch {header.leader_epoch}",
    ]
    if header.codec is not Codec.NONE:
        parts.append(header.codec.name.lower())
    if header.producer_id != NO_PRODUCER_ID:
        producer = f"producer {header.producer_id} epoch {header.producer_epoch}"
        parts.append(f"{producer} sequence {header.base_sequence}")
    if header.is_transactional:
        parts.append("transactional")
    if header.is_control:
        parts.append("control")
    return ["  ".join(parts), *(INDENT + _record_line(record) for record in row.records)]


def _record_line(record: Record) -> str:
    parts = [f"{record.offset}", as_time(record.timestamp), f"key {_quoted(record.key)}"]
    parts.append(f"value {_quoted(record.value)}")
    parts += (f"header {_quoted(name.encode())} {_quoted(value)}" for name, value in record.headers)
    return "  ".join(parts)


def _quoted(value: bytes | None) -> str:
    text = _printable_text(value)
    if value is None:
        return "none"
    return json.dumps(text, ensure_ascii=False) if text is not None else f"hex {value.hex()}"


def _printable_text(value: bytes | None) -> str | None:
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\t\n\r" for char in text) else None


@as_text.register
def _(row: IndexRow) -> list[str]:
    return [f"offset {row.offset}  position {row.batch_position}"]


@as_text.register
def _(row: TimeIndexRow) -> list[str]:
    return [f"timestamp {row.timestamp}  {as_time(row.timestamp)}  offset {row.offset}"]


@as_text.register
def _(row: ProducerRow) -> list[str]:
    parts = [f"producer {row.producer_id} epoch {row.epoch}", as_time(row.timestamp)]
    if row.transaction_start >= 0:
        parts.append(f"transaction open from offset {row.transaction_start}")
    lines = ["  ".join(parts)]
    for batch in row.batches:
        sequences = f"sequence {batch.first_sequence} to {batch.last_sequence}"
        lines.append(f"{INDENT}{sequences}  offset {batch.base_offset} to {batch.last_offset}")
    return lines


@as_text.register
def _(row: CheckpointRow) -> list[str]:
    return [printable(f"{row.topic}-{row.partition}  offset {row.offset}")]


@as_text.register
def _(row: EpochRow) -> list[str]:
    return [f"epoch {row.epoch}  from offset {row.offset}"]


@as_text.register
def _(row: SyncedRow) -> list[str]:
    known = f"offset {row.offset}" if row.offset is not None else "torn, counts as unknown"
    return [printable(f"{row.partition}  {known}")]


# --- JSON


def as_json(row: Row, *, records: bool) -> str:
    """The row as one line; `records` tells whether a batch shows its records."""
    if isinstance(row, BatchRow):
        return json.dumps(_batch_object(row, records))
    if isinstance(row, ProducerRow):
        return json.dumps(row._asdict() | {"batches": [batch._asdict() for batch in row.batches]})
    return json.dumps(row._asdict())


def _batch_object(row: BatchRow, records: bool) -> dict[str, Any]:
    header = row.header
    batch = {
        "position": row.position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "leader_epoch": header.leader_epoch,
        "checksum": header.checksum,
        "codec": header.codec.name.lower(),
        "timestamp_type": "LogAppendTime" if header.is_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }
    return batch | ({"records": [_record_object(record) for record in row.records]} if records else {})


def _record_object(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _json_value(record.key),
        "value": _json_value(record.value),
        "headers": [[name, _json_value(value)] for name, value in record.headers],
    }


def _json_value(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    text = _printable_text(value)
    return text if text is not None else {"base64": base64.b64encode(value).decode()}
