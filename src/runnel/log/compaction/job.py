"""What a compaction is told, and what it answers: plain values that go through a pipe as lines of JSON.

The work is done by a process of its own, which knows nothing but its job and the sealed segment files. It answers with
one line for each segment that it has written, and a last one that says how far it came.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

NO_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Source:
    """A sealed segment: the first `size` bytes of its file hold the offsets up to before `next_offset`."""

    base_offset: int
    next_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class LastBatch:
    """What must stay of a producer that the partition remembers: the batch that ends with `last_offset`.

    Without one, which is -1, its epoch must be found in a marker.
    """

    epoch: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Job:
    """`sources` are all sealed segments that may be cleaned, from the log's first on.

    Before `first_dirty` no key has two records. `aborted` are producer id, first offset and last offset of each
    transaction that was aborted.
    """

    folder: str
    sources: tuple[Source, ...]
    first_dirty: int
    now: int
    segment_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    buffer_bytes: int
    cpu_percent: int
    producers: dict[int, LastBatch]
    aborted: tuple[tuple[int, int, int], ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Job:
        told: dict[str, Any] = json.loads(line)
        told["sources"] = tuple(Source(**source) for source in told["sources"])
        told["producers"] = {int(key): LastBatch(**last) for key, last in told["producers"].items()}
        told["aborted"] = tuple((producer, first, last) for producer, first, last in told["aborted"])
        return cls(**told)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One segment was written, and is synced, in place of the sources from `base_offset` up to before `next_offset`.

    If it would be what is there already, it is `unchanged` and there is no file. `horizon` is the earliest time at
    which a later round may drop a tombstone or a marker of it.
    """

    base_offset: int
    next_offset: int
    size: int
    bytes_before: int
    records_before: int
    records_after: int
    horizon: int | None
    unchanged: bool


@dataclass(frozen=True, slots=True)
class Done:
    """All is clean up to `end`: before it no key has two records. `unreadable` batches were left as they are."""

    end: int
    unreadable: int


@dataclass(frozen=True, slots=True)
class Damaged:
    """The bytes at `position` of a source are no batch, and the work has ended there."""

    base_offset: int
    position: int
    offset: int
    reason: str


Answer: TypeAlias = Cleaned | Done | Damaged
_ANSWERS: dict[str, type[Cleaned] | type[Done] | type[Damaged]] = {
    kind.__name__: kind for kind in (Cleaned, Done, Damaged)
}


def answer_to_json(answer: Answer) -> str:
    return json.dumps({type(answer).__name__: asdict(answer)})


def answer_from_json(line: str) -> Answer:
    """ValueError if the line is no answer."""
    try:
        ((name, told),) = json.loads(line).items()
        return _ANSWERS[name](**told)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no answer of a compaction: {line[:200]!r}") from error
