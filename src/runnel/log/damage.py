"""Damage: bytes of a segment that were synced and are not what was written.

A damaged segment is quarantined: it takes no more writes, a file `.damage` beside it says what was found, and a read
that would have to pass the damage gets an error that names it. The segment file itself is left as it is, so that what
is whole can be read and the rest be examined or restored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from runnel.errors import DamagedLog
from runnel.files import Files, read_file, replace_file
from runnel.log.place import Place
from runnel.settings import INT64_MAX

SUFFIX = ".damage"


@dataclass(frozen=True, slots=True)
class Damage:
    """From `start` on nothing can be read until `resume`, or until the end of the segment if that is None."""

    start: Place
    resume: Place | None
    reason: str

    def error(self, path: str, next_segment: int | None = None) -> DamagedLog:
        next_offset = self.resume.offset if self.resume else next_segment
        return DamagedLog(path, self.start.position, self.start.offset, next_offset, self.reason)

    def joined_with(self, other: Damage) -> Damage:
        """One damage that covers both: a segment remembers one."""
        first, last = sorted((self, other), key=lambda damage: damage.start)
        if first == last:
            return first
        resume = max(first.resume, last.resume) if first.resume and last.resume else None
        return Damage(first.start, resume, f"{first.reason}; {last.reason}")


def write_damage(files: Files, stem: str, damage: Damage) -> None:
    content = {"start": damage.start, "resume": damage.resume, "reason": damage.reason}
    replace_file(files, stem + SUFFIX, json.dumps(content).encode() + b"\n")


def read_damage(files: Files, stem: str) -> Damage | None:
    """None if the segment is whole; a `.damage` file that cannot be read condemns the whole segment."""
    if not files.exists(stem + SUFFIX):
        return None
    try:
        content = json.loads(read_file(files, stem + SUFFIX))
        resume = _place(content["resume"]) if content["resume"] is not None else None
        return Damage(_place(content["start"]), resume, str(content["reason"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        base_offset = int(stem.rpartition("/")[2])
        return Damage(Place(0, base_offset), None, f"its {SUFFIX} file cannot be read: {error}")


def _place(numbers: list[int]) -> Place:
    position, offset = numbers
    if not all(isinstance(number, int) and 0 <= number <= INT64_MAX for number in numbers):
        raise ValueError(f"no place in a file: {numbers}")
    return Place(position, offset)
