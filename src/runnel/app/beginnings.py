"""Which topics a view reads, and where it began with each: its copy begins there, too.

Beside the view's checkpoint stands what it was declared to be (`declared.json`), and for each input that has a position
where it began (`start-N.json`). The new code may have its inputs in another order, or read by a pattern what was read
by name: what counts is the topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runnel.client.metadata import Place
from runnel.files import DISK, replace_file
from runnel.graph.inputs import Input
from runnel.graph.names import fits
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.view import View
from runnel.pipeline.fitting import FILE as DECLARED
from runnel.pipeline.source.offsets import Offsets
from runnel.views.waiting import VIEW


@dataclass(frozen=True)
class Topics:
    """Those of one input, the `number`-th: the one of this name, or all that fit the pattern."""

    number: int
    name: str
    pattern: str | None

    def __contains__(self, topic: object) -> bool:
        return isinstance(topic, str) and (topic == self.name if self.pattern is None else fits(self.pattern, topic))

    @property
    def start_file(self) -> str:
        return f"start-{self.number}.json"


def topics_of(inputs: Iterable[Input]) -> tuple[Topics, ...]:
    """Of the inputs that have a position in a topic."""
    found = []
    for number, given in enumerate(inputs):
        noun = given.noun
        if isinstance(noun, View) or (isinstance(noun, Table) and not given.changes):
            continue
        found.append(Topics(number, noun.topic, noun.reading.topics if isinstance(noun, Stream) else None))
    return tuple(found)


def topics_of_before(directory: Path) -> tuple[Topics, ...]:
    """The same of the view whose directory this is; none of one that is older than the file that tells."""
    return tuple(
        Topics(number, each["name"], each.get("topics"))
        for number, each in enumerate(_inputs_of_before(directory))
        if each["kind"] == "stream" or (each["kind"] == "table" and each["changes"])
    )


def tables_of_before(directory: Path) -> tuple[tuple[int, str], ...]:
    """The tables that it joins, which have no position: the number of the input, and the topic."""
    return tuple(
        (number, each["name"])
        for number, each in enumerate(_inputs_of_before(directory))
        if each["kind"] == "table" and not each["changes"]
    )


def _inputs_of_before(directory: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads((directory / DECLARED).read_text())["inputs"]
    except FileNotFoundError:
        return []
    return found


def begin_where_it_began(before: Path, own: Path, inputs: tuple[Topics, ...]) -> None:
    """`before` is the directory of the view, `own` that of its copy, which has these inputs. An input that reads none
    of the topics that the view has read begins where it is declared to.

    On the disk when it returns: when the copy is the view, no other one tells where it began.
    """
    began = [Offsets.from_json(json.loads(path.read_text())) for path in sorted(before.glob("start-*.json"))]
    for each in inputs:
        parts = [_of(each, start) for start in began]
        if any(part.next for part in parts) or _was_read(each, topics_of_before(before), began):
            told = json.dumps(_earliest(each.number, parts).to_json())
            replace_file(DISK, str(own / each.start_file), told.encode())


def _of(topics: Topics, start: Offsets) -> Offsets:
    ids = {topic: known for topic, known in start.ids.items() if topic in topics and not topic.startswith(VIEW)}
    return Offsets(topics.number, {place: at for place, at in start.next.items() if place[0] in ids}, ids)


def _was_read(topics: Topics, before: Iterable[Topics], began: Iterable[Offsets]) -> bool:
    """A pattern may have found its topics on the way: such a one is read from its first record on."""
    numbers = {start.input for start in began}
    return any(
        topics.name == each.name or (topics.pattern is None and topics.name in each)
        for each in before
        if each.number in numbers
    )


def _earliest(number: int, parts: Iterable[Offsets]) -> Offsets:
    """Of a topic that was read by two inputs, the earlier beginning."""
    found: dict[Place, int] = {}
    ids: dict[str, str] = {}
    for part in parts:
        ids |= part.ids
        found |= {place: min(at, found.get(place, at)) for place, at in part.next.items()}
    return Offsets(number, found, ids)
