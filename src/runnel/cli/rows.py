"""The rows of a dump as lines for people, and as JSON for programs."""

from __future__ import annotations

import json
from functools import singledispatch
from typing import Any

from runnel.cli.values import as_time, json_value, printable, quoted
from runnel.log.dump import (
    BatchRow,
    CheckpointRow,
    EpochRow,
    IndexRow,
    ProducerRow,
    Row,
    SyncedRow,
    TimeIndexRow,
    TxnIndexRow,
)
from runnel.records import NO_PRODUCER_ID, Codec, Marker, Record

INDENT = "    "


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
    if row.marker is not None:
        parts.append(f"{_kind(row.marker)} by coordinator epoch {row.marker.coordinator_epoch}")
    return ["  ".join(parts), *(INDENT + _record_line(record) for record in row.records)]


def _kind(marker: Marker) -> str:
    return "COMMIT" if marker.committed else "ABORT"


def _record_line(record: Record) -> str:
    parts = [f"{record.offset}", as_time(record.timestamp), f"key {quoted(record.key)}"]
    parts.append(f"value {quoted(record.value)}")
    parts += (f"header {quoted(name.encode())} {quoted(value)}" for name, value in record.headers)
    return "  ".join(parts)


@as_text.register
def _(row: IndexRow) -> list[str]:
    return [f"offset {row.offset}  position {row.batch_position}"]


@as_text.register
def _(row: TimeIndexRow) -> list[str]:
    return [f"timestamp {row.timestamp}  {as_time(row.timestamp)}  offset {row.offset}"]


@as_text.register
def _(row: TxnIndexRow) -> list[str]:
    aborted = f"producer {row.producer_id}  aborted from offset {row.first_offset} to {row.last_offset}"
    return [f"{aborted}  last stable offset {row.stable_offset}"]


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
    if row.marker is not None:
        batch |= {"marker": _kind(row.marker), "coordinator_epoch": row.marker.coordinator_epoch}
    return batch | ({"records": [_record_object(record) for record in row.records]} if records else {})


def _record_object(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_value(record.key),
        "value": json_value(record.value),
        "headers": [[name, json_value(value)] for name, value in record.headers],
    }
