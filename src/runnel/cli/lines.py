"""Lines of text as records, in two forms: plain, or JSON as `runnel consume --json` prints it.

A record is a line without its line feed. What cannot be a record is told with the number of its line.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from runnel.client.producer import About
from runnel.client.texts import is_name
from runnel.errors import Permanent

LONGEST = 64 * 1024 * 1024
FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})


class Line(NamedTuple):
    value: bytes | None
    about: About
    size: int  # of the line, in bytes


class BadLine(Permanent):
    def __init__(self, number: int, reason: str, *, hint: str = "") -> None:
        super().__init__(
            f"line {number} is no record: {reason}", hint=hint or "correct it, and write from that line on"
        )
        self.number = number
        self.reason = reason


Form = Callable[[bytes], tuple[bytes | None, About]]  # raises ValueError with the reason


def plain(key: str | None, separator: str | None, headers: list[tuple[str, str]]) -> Form:
    """The line is the value, or has the key before the separator and the value behind it."""
    about: About = {"headers": [(name, _typed(value)) for name, value in headers]} if headers else {}
    if key is not None:
        about["key"] = _typed(key)
    if separator is None:
        return lambda line: (line, about)
    between = _typed(separator)

    def split(line: bytes) -> tuple[bytes | None, About]:
        before, found, behind = line.partition(between)
        if not found:
            raise ValueError(f"there is no {json.dumps(separator)} in it, which would end its key")
        return behind, {**about, "key": before}

    return split


def from_json(line: bytes) -> tuple[bytes | None, About]:
    """The topic, the partition and the offset that it was read from do not count."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(record, dict):
        raise ValueError("it is no JSON object")
    if unknown := sorted(record.keys() - FIELDS):
        raise ValueError(f'it has a field "{unknown[0]}", known are {", ".join(sorted(FIELDS))}')
    if "value" not in record:
        raise ValueError('it has no field "value"; null deletes its key from a compacted topic')
    about: About = {"key": _bytes(record, "key"), "headers": _headers(record.get("headers") or [])}
    if (timestamp := record.get("timestamp")) is not None:
        if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -1 <= timestamp < 2**63:
            raise ValueError('its "timestamp" is no number of milliseconds')
        if timestamp == 0:  # librdkafka's sign for the present
            raise ValueError('its "timestamp" is 0, which cannot be written: give 1, or null for the present')
        about["timestamp"] = timestamp if timestamp >= 0 else None
    return _bytes(record, "value"), about


def read_lines(stream: BinaryIO, form: Form, partition: int | None = None) -> Iterator[Line]:
    """The records, all of them for one partition if it is given."""
    placed: About = {} if partition is None else {"partition": partition}
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise BadLine(number, f"it is longer than {LONGEST:,} bytes", hint="records are separated by line feeds")
        try:
            value, about = form(line.removesuffix(b"\n"))
        except ValueError as error:
            raise BadLine(number, str(error)) from None
        yield Line(value, {**about, **placed}, len(line))


def _typed(text: str) -> bytes:
    """What was typed, byte for byte, also where it is no text."""
    return text.encode("utf-8", "surrogateescape")


def _bytes(record: dict[str, Any], name: str) -> bytes | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise ValueError(f'the base64 of its "{name}" is none') from None
    raise ValueError(f'its "{name}" is neither a string, nor null, nor {{"base64": "..."}}')


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    pairs = isinstance(headers, list) and all(isinstance(each, list) and len(each) == 2 for each in headers)
    if not pairs or not all(isinstance(name, str) for name, _ in headers):
        raise ValueError('its "headers" are no list of [name, value]')
    if wrong := [name for name, _ in headers if not is_name(name)]:
        raise ValueError(f"a header cannot be called {json.dumps(wrong[0])}")
    return [(name, _bytes({"headers": value}, "headers")) for name, value in headers]
