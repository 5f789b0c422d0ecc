"""Waits until a view has seen what was written: directly, and through the derived streams and views that it reads.

A view's marker tells what its query has read of each input. Of an input that is itself an output, D, that says nothing
of what D has read; so two things are waited for, one after the other: that D has read what was written, by D's own
marker, and that the view has read D as far as D came by then. Then all that D made of it is in the view, also if that
is nothing: a row that D leaves out adds nothing to D's end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from runnel.errors import Transient
from runnel.views.errors import NotSeen

Positions: TypeAlias = Mapping[str, Mapping[str, int]]

VIEW = "view:"  # before the name of a view, where positions name what was read; no topic has a colon in its name
INTERVAL = 0.05  # seconds between two looks


class Written(Protocol):
    """Where a record is: a token of `runnel.client`."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


class Outputs(Protocol):
    """What is known of the outputs that a view may read."""

    def look(self) -> None:
        """Learn what they have told since the last look."""
        ...

    def read_by_writers_of(self, name: str) -> list[Positions | None]:
        """What each of its writers has read, None of one that has told nothing yet; nothing if it is no output."""
        ...

    def ends(self, name: str) -> Mapping[str, int]:
        """Where it ends now, by partition."""
        ...


class Lack(NamedTuple):
    """`reader` is to read `name` up to before `goal`, and is `at`."""

    reader: str
    name: str
    partition: str
    at: int
    goal: int

    def __str__(self) -> str:
        place = self.name.removeprefix(VIEW) if self.name.startswith(VIEW) else f"{self.name}-{self.partition}"
        return f"{self.reader} has read {place} up to {self.at:,}, and {self.goal:,} is waited for"


class Waiting:
    """For records in their topics, by a view. To be looked at again and again; what was reached stays so.

    Each topic is waited for by itself: if several apps write one stream, who has read the record of one topic says
    nothing of the others, which it may not even read.
    """

    def __init__(self, view: str, written: Iterable[Written], outputs: Outputs) -> None:
        self._view = view
        self._outputs = outputs
        wanted: dict[str, dict[str, int]] = {}
        for token in written:
            partitions = wanted.setdefault(token.topic, {})
            partitions[str(token.partition)] = max(partitions.get(str(token.partition), 0), token.offset + 1)
        self._topics = [OfTopic(view, topic, partitions, outputs) for topic, partitions in wanted.items()]

    def lacks(self, positions: Positions | None) -> list[str]:
        """What is missing, in words, for a view that has read so much; nothing if it has seen all."""
        if positions is None:
            return [f"{self._view} has not finished a batch yet"]
        self._outputs.look()
        return list(dict.fromkeys(lack for topic in self._topics for lack in topic.lacks(positions)))


class OfTopic:
    """The part of it that is about one topic: `wanted` is up to before where, by partition."""

    def __init__(self, view: str, topic: str, wanted: Mapping[str, int], outputs: Outputs) -> None:
        self._view = view
        self._topic = topic
        self._wanted = wanted
        self._outputs = outputs
        self._ends: dict[str, Mapping[str, int]] = {}  # of outputs that have read all, when they had

    def lacks(self, positions: Positions) -> list[str]:
        known = self._behind(positions, ())
        if self._topic in known or None in known:
            return list(self._missing(self._view, positions, ()))
        read = ", ".join(sorted(positions)) or "nothing at all"
        return [f"{self._view} has read nothing of {self._topic}, only {read}"]

    def _missing(self, reader: str, positions: Positions, way: tuple[str, ...]) -> Iterator[str]:
        for name, read in positions.items():
            goal: Mapping[str, int] | list[str] = self._goal(name, way)
            if isinstance(goal, list):
                yield from goal
                continue
            for partition, wanted in goal.items():
                if read.get(partition, 0) < wanted:
                    yield str(Lack(reader, name, partition, read.get(partition, 0), wanted))

    def _goal(self, name: str, way: tuple[str, ...]) -> dict[str, int] | list[str]:
        """How far an input is to be read; or, if that is not known yet, what is missing before it is."""
        goal = dict(self._wanted) if name == self._topic else {}
        if name in way:
            return goal
        if name not in self._ends:
            writers = [read for read in self._outputs.read_by_writers_of(name) if self._matters(read, (*way, name))]
            if not writers:
                return goal
            missing = [self._missing_of(name, read, (*way, name)) for read in writers]
            if all(missing):
                return missing[0]
            self._ends[name] = self._outputs.ends(name)
        for partition, end in self._ends[name].items():
            goal[partition] = max(goal.get(partition, 0), end)
        return goal

    def _missing_of(self, name: str, read: Positions | None, way: tuple[str, ...]) -> list[str]:
        reader = name.removeprefix(VIEW)
        return [f"{reader} has not finished a batch yet"] if read is None else list(self._missing(reader, read, way))

    def _matters(self, read: Positions | None, way: tuple[str, ...]) -> bool:
        """Whether something that is waited for comes by it, as far as is known."""
        return read is None or bool(self._behind(read, way) & {self._topic, None})

    def _behind(self, positions: Positions, way: tuple[str, ...]) -> set[str | None]:
        """All that was read, also by those that wrote it; None if something is not known yet."""
        found: set[str | None] = set()
        for name in positions:
            found.add(name)
            if name in way:
                continue
            for read in self._outputs.read_by_writers_of(name):
                found |= {None} if read is None else self._behind(read, (*way, name))
        return found


def wait(view: str, waiting: Waiting, positions: Callable[[], Positions | None], timeout: float, *, hint: str) -> None:
    """Until nothing is missing. NotSeen after `timeout` seconds. What passes by itself is waited for as well."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            lacks = waiting.lacks(positions())
        except Transient as error:
            lacks = [error.what]
        if not lacks:
            return
        if time.monotonic() >= deadline:
            raise NotSeen(view, timeout, lacks, hint=hint)
        time.sleep(min(INTERVAL, max(0.0, deadline - time.monotonic())))
