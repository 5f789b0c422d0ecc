"""Why records cannot be written: the slow half of the type checks, asked only after the encoding has failed.

So a right record costs no check, and a wrong one is named with what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.errors import InvalidBatch
from runnel.records.record import INT64_MAX, INT64_MIN, Record

BYTES = (bytes, bytearray, memoryview, type(None))

Mistake = tuple[str, str] | None  # what is wrong, and a hint


def mistake_in(records: object, error: Exception) -> InvalidBatch:
    """The error to raise for records whose encoding failed with `error`: it names the first wrong one."""
    if not isinstance(records, Sequence):
        return InvalidBatch(f"records are of type {_type_of(records)}", hint="give a list of Record")
    for index, record in enumerate(records):
        if (mistake := _mistake(record)) is not None:
            what, hint = mistake
            return InvalidBatch(f"record {index}: {what}", hint=hint)
    return InvalidBatch(f"records cannot be encoded: {error}")


def _mistake(record: object) -> Mistake:
    if not isinstance(record, Record):
        return f"it is of type {_type_of(record)}, not a Record", "write Record(value, key)"
    return (
        _mistake_in_bytes("value", record.value)
        or _mistake_in_bytes("key", record.key)
        or _mistake_in_timestamp(record.timestamp)
        or _mistake_in_headers(record.headers)
    )


def _mistake_in_bytes(name: str, value: object) -> Mistake:
    if isinstance(value, BYTES):
        return None
    if isinstance(value, str):
        return f"its {name} is text, expected bytes or None", "encode text with .encode()"
    return f"its {name} is of type {_type_of(value)}, expected bytes or None", "serialize it to bytes first"


def _mistake_in_timestamp(timestamp: object) -> Mistake:
    hint = "a timestamp counts whole milliseconds since 1970; leave it out if there is none"
    if not isinstance(timestamp, int):
        return f"its timestamp is of type {_type_of(timestamp)}, expected an int", hint
    if not INT64_MIN <= timestamp <= INT64_MAX:
        return f"its timestamp {timestamp} does not fit in 64 bits", hint
    return None


def _mistake_in_headers(headers: object) -> Mistake:
    if not isinstance(headers, Sequence) or not all(_is_pair(header) for header in headers):
        return f"its headers are of type {_type_of(headers)}", 'give pairs: (("name", b"value"),)'
    for name, value in headers:
        mistake = _mistake_in_name(name) or _mistake_in_bytes(f"header {name!r}", value)
        if mistake is not None:
            return mistake
    return None


def _is_pair(header: object) -> bool:
    return isinstance(header, tuple | list) and len(header) == 2


def _mistake_in_name(name: object) -> Mistake:
    if not isinstance(name, str):
        return f"a header's name is of type {_type_of(name)}, expected text", "decode bytes with .decode()"
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"a header's name cannot be written as UTF-8: {name!r}", "it holds half of a surrogate pair"
    return None


def _type_of(value: object) -> str:
    return type(value).__name__
