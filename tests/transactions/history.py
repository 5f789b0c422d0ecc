"""What the clients of a broker did and saw, in the order of one clock: the checker's only input.

Each client writes its events to a file of its own, one JSON object a line and one write a line, so that a client that
is killed leaves all that it had told. The time is the machine's monotonic clock, which all processes share.

An event that begins something is recorded before the client asks for it, an event that ends something after the client
has its answer. So if A was recorded before B, A did not happen later than B was over.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


class Place(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


class Seen(NamedTuple):
    """A record as a reader got it."""

    place: Place
    value: str


@dataclass(frozen=True)
class Event:
    """Who it was: `client` is a name that stays when the process is replaced, `incarnation` counts its processes."""

    client: str
    incarnation: int
    at: int
    kind: ClassVar[str] = ""

    @property
    def who(self) -> str:
        return f"{self.client}#{self.incarnation}"


@dataclass(frozen=True)
class Initialised(Event):
    """A producer has its epoch: from now on the earlier incarnations of this client are zombies."""

    kind = "initialised"


@dataclass(frozen=True)
class Begin(Event):
    """A transaction begins. Its name is used once in a history."""

    transaction: str
    kind = "begin"


@dataclass(frozen=True)
class Send(Event):
    """A record is about to be sent. Its value is used once in a history, also when it is sent again.

    `origin` is the record that it was made from.
    """

    transaction: str
    value: str
    topic: str
    partition: int
    origin: Place | None = None
    kind = "send"


@dataclass(frozen=True)
class Acknowledged(Event):
    """The broker has the record, and says where."""

    value: str
    place: Place
    kind = "acknowledged"


@dataclass(frozen=True)
class SendOffsets(Event):
    """A group's offset is about to be sent as a part of a transaction."""

    transaction: str
    group: str
    place: Place
    kind = "send offsets"


@dataclass(frozen=True)
class Committing(Event):
    transaction: str
    kind = "committing"


@dataclass(frozen=True)
class Committed(Event):
    transaction: str
    kind = "committed"


@dataclass(frozen=True)
class Aborting(Event):
    transaction: str
    kind = "aborting"


@dataclass(frozen=True)
class Aborted(Event):
    transaction: str
    kind = "aborted"


@dataclass(frozen=True)
class Trouble(Event):
    """An error of a client, for people who read the history; it decides nothing."""

    what: str
    kind = "trouble"


@dataclass(frozen=True)
class Position(Event):
    """A reader begins at this place, wherever it was before."""

    place: Place
    kind = "position"


@dataclass(frozen=True)
class Poll(Event):
    isolation: str
    records: tuple[Seen, ...]
    kind = "poll"


@dataclass(frozen=True)
class GroupOffset(Event):
    """A group's offset, as the broker tells it; None where it has none. `asked` is when the question was sent."""

    group: str
    topic: str
    partition: int
    offset: int | None
    asked: int
    final: bool = False
    kind = "group offset"


@dataclass(frozen=True)
class FinalRead(Event):
    """A partition from its start to its end, when nobody writes any more.

    `end` is where the log ends, `reached` where the reader's position came to.
    """

    isolation: str
    topic: str
    partition: int
    records: tuple[Seen, ...]
    end: int
    reached: int
    kind = "final read"


KINDS: dict[str, type[Event]] = {
    kind.kind: kind
    for kind in (
        *(Initialised, Begin, Send, Acknowledged, SendOffsets, Committing, Committed, Aborting, Aborted),
        *(Trouble, Position, Poll, GroupOffset, FinalRead),
    )
}

Kind = TypeVar("Kind", bound=Event)


class History:
    """Events in the order of their times."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event.at)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    @classmethod
    def read(cls, paths: Iterable[Path]) -> History:
        return cls(event for path in paths for event in read_events(path))


class Recorder:
    """Writes the events of one process of a client."""

    def __init__(self, path: Path, client: str, incarnation: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._who = (client, incarnation)
        self.name = f"{client}#{incarnation}"

    def note(self, kind: type[Event], *facts: Any) -> None:
        event = kind(*self._who, time.monotonic_ns(), *facts)
        os.write(self._file, to_line(event).encode())

    def close(self) -> None:
        os.close(self._file)


def to_line(event: Event) -> str:
    values = [getattr(event, field.name) for field in dataclasses.fields(event)]
    return json.dumps([event.kind, *values]) + "\n"


def read_events(path: Path) -> Iterable[Event]:
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):  # or the process was killed while it wrote
            yield from_line(line)


def from_line(line: str) -> Event:
    name, *values = json.loads(line)
    kind = KINDS[name]
    fields = [field.name for field in dataclasses.fields(kind)]
    facts = dict(zip(fields, values, strict=True))
    for field in ("place", "origin"):
        if facts.get(field) is not None:
            facts[field] = Place(*facts[field])
    if "records" in facts:
        facts["records"] = tuple(Seen(Place(*place), value) for place, value in facts["records"])
    return kind(**facts)
