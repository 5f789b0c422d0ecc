"""What a broker has promised to its clients, and whether it was kept.

- A record that was acknowledged stands at the offset that was told, once, and the records of a producer are in order.
- A group reads every record of every partition: it skips none.
- An offset that a group's member committed, and was told so, is there after any crash.

What a producer sends follows from its name and a number, so the check knows what every record must hold.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ITEMS = ("tea", "coffee", "milk", "bread", "honey")


class Place(NamedTuple):
    partition: int
    offset: int


class Found(NamedTuple):
    """A record as somebody read it."""

    partition: int
    offset: int
    key: bytes
    value: bytes


def planned(producer: str, number: int) -> tuple[bytes, bytes]:
    """The key and the value of a producer's record."""
    order = {"order": number, "from": producer, "item": ITEMS[number % len(ITEMS)], "pieces": number % 7 + 1}
    return f"{producer}/{number}".encode(), json.dumps(order).encode()


class Reading:
    """How far one group has come in each partition."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.records = 0
        self.again = 0  # read a second time, as happens when partitions change hands before a commit
        self.skipped: list[str] = []

    def note(self, partition: int, offset: int) -> None:
        expected = self.next.get(partition, 0)
        self.records += 1
        if offset < expected:
            self.again += 1
            return
        if offset > expected:
            self.skipped.append(f"offsets {expected} to {offset - 1} of partition {partition}")
        self.next[partition] = offset + 1


class Promises:
    """Everything that clients were told, from the first broker on. Used from the threads of all clients."""

    def __init__(self, groups: Iterable[str]) -> None:
        self.sent: dict[str, int] = {}
        self.acknowledged: dict[tuple[str, int], Place] = {}
        self.groups = {group: Reading() for group in groups}
        self._lock = threading.Lock()

    # --- told by the clients

    def note_sent(self, producer: str, number: int) -> None:
        self.sent[producer] = number + 1

    def note_acknowledged(self, producer: str, number: int, partition: int, offset: int) -> None:
        with self._lock:
            self.acknowledged[producer, number] = Place(partition, offset)

    def note_read(self, group: str, partition: int, offset: int) -> None:
        with self._lock:
            self.groups[group].note(partition, offset)

    def note_committed(self, group: str, offsets: dict[int, int]) -> None:
        with self._lock:
            self.groups[group].committed.update(offsets)

    # --- what is promised at this moment

    def acknowledged_now(self) -> dict[tuple[str, int], Place]:
        with self._lock:
            return dict(self.acknowledged)

    def committed_now(self) -> dict[str, dict[int, int]]:
        with self._lock:
            return {name: dict(group.committed) for name, group in self.groups.items()}

    # --- the check; each answers with a sentence for each broken promise

    def broken_by_records(self, promised: dict[tuple[str, int], Place], found: Iterable[Found]) -> Iterator[str]:
        there: dict[Place, bytes] = {}
        last: dict[tuple[int, str], int] = {}
        for partition, offset, key, value in found:
            there[Place(partition, offset)] = key
            producer, number = _read_key(key)
            if number >= self.sent.get(producer, 0) or (key, value) != planned(producer, number):
                yield f"partition {partition} holds a record at offset {offset} that nobody sent"
                continue
            before = last.get((partition, producer), -1)
            if number <= before:
                yield f"record {key.decode()} stands at {_text(Place(partition, offset))}, behind number {before}"
            last[partition, producer] = number
        for (producer, number), place in promised.items():
            key, _ = planned(producer, number)
            if there.get(place) != key:
                yield f"record {key.decode()} was acknowledged at {_text(place)} and is not there"

    def broken_by_commits(self, promised: dict[str, dict[int, int]], found: dict[str, dict[int, int]]) -> Iterator[str]:
        for group, offsets in promised.items():
            for partition, offset in offsets.items():
                kept = found[group].get(partition, 0)
                if kept < offset:
                    yield f"group {group} committed offset {offset} of partition {partition}, and {kept} was kept"

    def broken_by_groups(self, ends: dict[int, int] | None = None) -> Iterator[str]:
        """What groups have skipped; with the partitions' ends, also what they have not reached."""
        for name, group in self.groups.items():
            for gap in group.skipped:
                yield f"group {name} was not given {gap}"
            for partition, end in (ends or {}).items():
                if group.next.get(partition, 0) != end:
                    reached = group.next.get(partition, 0)
                    yield f"group {name} was given {reached} of {end} records of partition {partition}"


def _read_key(key: bytes) -> tuple[str, int]:
    producer, _, number = key.decode(errors="replace").rpartition("/")
    return producer, int(number) if number.isdecimal() else -1


def _text(place: Place) -> str:
    return f"offset {place.offset} of partition {place.partition}"
