"""The topics of an app that a test plays: which there are, and the records that its rows become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from runnel.app.app import App
from runnel.broker.embedded import Broker
from runnel.graph.derived import Derived
from runnel.graph.formats import Columns
from runnel.graph.graph import Declared
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.testing.events import Mistake, Sent
from runnel.testing.records import Record, record_of

FOR_EVER = {"retention.ms": "-1"}  # the times of a test lie in the past
OF_ANY_TIME = {**FOR_EVER, "message.timestamp.after.max.ms": str(2**63 - 1)}  # or ahead of the clock, for `ahead=`


class Topics:
    """`played` are the records of a test: what is wrong with one is told before anything is started."""

    def __init__(self, app: App, played: Iterable[Sent]) -> None:
        nouns = {each.noun for output in app.graph.outputs for each in output.inputs}
        declared = [noun for noun in nouns if isinstance(noun, Stream | Table)]
        self._read = {noun.topic: noun for noun in declared if noun.reading.topics is None}
        self._by_pattern = [noun for noun in declared if noun.reading.topics is not None]
        self._written = [output.topic for output in app.graph.outputs if isinstance(output, Derived)]
        self._records = {id(sent): self._record(sent) for sent in played}
        self._played = {record.topic: self._noun(record.topic) for record in self._records.values()}

    @property
    def columns(self) -> Mapping[str, Columns]:
        """Of the values of what the app reads."""
        return {topic: noun.columns for topic, noun in (self._read | self._played).items()}

    def make(self, broker: Broker, partitions: int) -> None:
        """What the app writes has one partition: so its records have an order."""
        for topic in self._written:
            broker.create_topic(topic, 1, FOR_EVER)
        for topic in {*self._read, *self._played} - {*self._written}:
            broker.create_topic(topic, partitions, OF_ANY_TIME)

    def record_of(self, sent: Sent) -> Record:
        return self._records[id(sent)]

    def _record(self, sent: Sent) -> Record:
        return record_of(sent, self._noun(sent.topic))

    def _noun(self, topic: str) -> Declared:
        if topic in self._read:
            return self._read[topic]
        for noun in self._by_pattern:
            if re.fullmatch(noun.reading.topics or "", topic):
                return noun
        patterns = (f"topics like {noun.reading.topics}" for noun in self._by_pattern)
        hint = f"it reads {', '.join([*sorted(self._read), *patterns])}"
        raise Mistake(f"the app does not read {topic}", hint=hint)
