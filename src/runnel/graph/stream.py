"""A stream that is declared over a topic: rows that are only ever added."""

from __future__ import annotations

from dataclasses import dataclass

from runnel.graph.event_time import EventTime
from runnel.graph.formats import Columns
from runnel.graph.inputs import Readable
from runnel.graph.names import fits
from runnel.graph.reading import Reading


@dataclass(frozen=True, eq=False)
class Stream(Readable):
    """`name` is the topic's. Rows that do not fit go to the topic `<name>.rejected`."""

    name: str
    columns: Columns
    time: EventTime | None
    reading: Reading

    @property
    def topic(self) -> str:
        return self.name

    def reads(self, topic: str) -> bool:
        return topic == self.topic if self.reading.topics is None else fits(self.reading.topics, topic)

    def __str__(self) -> str:
        return f'stream "{self.name}"'
