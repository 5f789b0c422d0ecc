"""What a test plays into an app: rows, and what happens between them.

row(clicks, page="tea", at="12:00:10")  a record; `clicks` is what the app declared, or the name of a topic
raw(clicks, b"{")                       a record with this very value, broken or not
delete(customers, id=7)                 a record without a value: the row of a table is gone
PAUSE                                   the app reads all that is there before it goes on
idle("2 minutes")                       the same, and so much time passes without a row
RESTART                                 the same, and the app is stopped in good order and started again
CRASH, CRASH_AFTER_COMMIT               the app dies while it does what came before, and is started again
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from runnel.errors import Permanent
from runnel.graph.durations import milliseconds
from runnel.graph.stream import Stream
from runnel.graph.table import Table

DAY = "2026-01-01"
ABOUT = ("_key", "_timestamp", "_headers", "_partition")


class Mistake(Permanent):
    """A test that makes no sense: told before anything is played."""


@dataclass(frozen=True)
class Sent:
    """A record. Its `value` is columns, bytes as they are, or None; `about` is what it has beside: its key, time,
    headers and partition, under the names of the metadata columns. `key` are the columns of a row that is deleted.
    """

    topic: str
    value: Mapping[str, Any] | bytes | None
    about: Mapping[str, Any] = field(default_factory=dict)
    key: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Idle:
    milliseconds: int


class Between(enum.Enum):
    PAUSE = "PAUSE"
    RESTART = "RESTART"
    CRASH = "CRASH"
    CRASH_AFTER_COMMIT = "CRASH_AFTER_COMMIT"

    def __repr__(self) -> str:
        return self.value


PAUSE = Between.PAUSE
RESTART = Between.RESTART
CRASH = Between.CRASH
CRASH_AFTER_COMMIT = Between.CRASH_AFTER_COMMIT

Noun: TypeAlias = Stream | Table | str
Event: TypeAlias = Sent | Idle | Between


def row(noun: Noun, /, **columns: Any) -> Sent:
    """A record of a stream or a table. Columns that are left out are null; a timestamp may be written as `at` reads it.

    `_key` and `_headers` (a dict), `_timestamp` and `_partition` are those of the record.
    """
    about, value = _apart(columns)
    return Sent(_topic(noun), value, about)


def raw(noun: Noun, value: bytes | str | None, /, **about: Any) -> Sent:
    """A record whose value is these bytes, as they are; with `_key` and the others, as a row."""
    found, others = _apart(about)
    if others:
        raise Mistake(
            f"raw() takes a value and {', '.join(ABOUT)}, not {', '.join(others)}", hint="row() takes columns"
        )
    return Sent(_topic(noun), value.encode() if isinstance(value, str) else value, found)


def delete(table: Table | str, /, **key: Any) -> Sent:
    """A record without a value, which deletes the row of this key."""
    about, columns = _apart(key)
    return Sent(_topic(table), None, about, columns)


def idle(duration: str) -> Idle:
    """All that came before is read, and so much time passes in which no row comes. Nobody waits for it."""
    return Idle(milliseconds(duration, "idle()", "duration"))


def at(text: str) -> datetime:
    """A time in UTC: "12:00" and "12:00:10.5" are of the day 2026-01-01; others are whole: "2026-02-03T04:05:06Z"."""
    found = as_written(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def as_written(text: str) -> datetime:
    """The same, in the zone that is written with it, or in none."""
    whole = text if text[:4].isdigit() else f"{DAY}T{text}"
    try:
        return datetime.fromisoformat(whole)
    except ValueError:
        raise Mistake(f"{text!r} is no time", hint='write one such as "12:00:10" or "2026-02-03T04:05:06Z"') from None


def _topic(noun: object) -> str:
    if isinstance(noun, str):
        return noun
    if isinstance(noun, Stream | Table):
        return noun.topic
    hint = "play rows into what it reads: a stream or a table that the app declares"
    raise Mistake(f"no rows can be played into {noun}", hint=hint)


def _apart(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    about = {name: value for name, value in given.items() if name in ABOUT}
    return about, {name: value for name, value in given.items() if name not in ABOUT}
