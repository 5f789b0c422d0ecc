"""Plays rows, pauses, crashes and restarts into an app, and tells what its outputs held.

    played = play(app, row(clicks, page="tea", at="12:00:10"), CRASH, idle("2 minutes"))
    assert played.view("clicks_per_minute") == [...]

It is the real app: Spark plans and runs its queries, its rows go through a broker, its views are in a store. Only the
time is the test's. The queries are held: each is let go when all rows of a step are there, one after the other in the
order of the graph, and is waited for. So a step is one batch of each query, and nothing depends on who is quicker.
Nobody sleeps: the time that passes in between is told to the app, not waited for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from runnel.app.app import App
from runnel.app.runner import Running
from runnel.broker.embedded import Broker
from runnel.client import Producer
from runnel.durable import watched
from runnel.errors import Transient
from runnel.graph.formats import Columns
from runnel.graph.graph import Output
from runnel.graph.view import View
from runnel.pipeline.session import Session
from runnel.pipeline.source.hold import Holder
from runnel.pipeline.stream_query import StreamQuery
from runnel.testing.events import CRASH, CRASH_AFTER_COMMIT, RESTART, Between, Event
from runnel.testing.in_memory import memory_for_files
from runnel.testing.life import Life
from runnel.testing.played import Played, read
from runnel.testing.steps import Step, steps_of
from runnel.testing.topics import Topics

SIDES = {CRASH: "before", CRASH_AFTER_COMMIT: "after"}


class Player:
    """Plays in one Spark session, which stays. Each call has a broker and a data directory of its own."""

    def __init__(self, spark: Session) -> None:
        self._spark = spark

    def __call__(self, app: App, *events: Event, partitions: int = 1) -> Played:
        """What the outputs of the app held in the end. Topics that it reads have so many `partitions`."""
        steps = steps_of(events)
        topics = Topics(app, (sent for step in steps for sent in step.sent))
        with (
            tempfile.TemporaryDirectory(prefix="runnel-play-", dir=memory_for_files()) as directory,
            Broker(f"{directory}/log") as broker,
        ):
            topics.make(broker, partitions)
            data, held = Path(directory, "data"), Path(directory, "held")
            held.mkdir()
            running = Running(broker.bootstrap, data, spark=self._spark, held=held)
            with Writer(broker.bootstrap) as producer:
                offered = Play(app, running, producer, topics).run(steps)
            return read(app, broker.bootstrap, data, {**topics.columns, **offered})


class Writer(Producer):
    """`flush` reads the reports on its records: there is no thread beside it, for whose end a test would wait."""

    def _serve(self) -> None:
        pass


class Play:
    """One test on its way."""

    def __init__(self, app: App, running: Running, producer: Producer, topics: Topics) -> None:
        assert running.held is not None
        self._app = app
        self._running = running
        self._producer = producer
        self._topics = topics
        self._holder = Holder(running.held)
        self._outputs = [output for generation in app.graph.generations() for output in generation]

    def run(self, steps: list[Step]) -> Mapping[str, Columns]:
        """The columns that derived streams offer, by their names."""
        self._begin()
        try:
            for step in steps:
                self._take(step)
        except BaseException:
            self._life.end_anyhow()
            raise
        self._life.end()
        return {query.name: query.columns for query in self._life.queries if isinstance(query, StreamQuery)}

    def _begin(self) -> None:
        self._life = Life(self._app, self._running)

    def _take(self, step: Step) -> None:
        for sent in step.sent:
            record = self._topics.record_of(sent)
            self._producer.send(record.topic, record.value, **record.about)
        self._producer.flush()
        self._holder.pass_time(step.passed)
        has_died = [self._let_go(output, step.end) for output in self._outputs]
        if step.end is RESTART or (step.end in SIDES and not any(has_died)):
            self._life.end()
            self._begin()

    def _let_go(self, output: Output, end: Between) -> bool:
        """Whether it died of it."""
        fate = Fate(output, end)
        self._holder.let_go(output.name)
        with watched(fate):
            is_settled = self._life.tries_to_settle(output.name)
        has_died = fate.is_fulfilled and not is_settled
        if has_died:
            self._life.end_anyhow()
            self._begin()
        elif not is_settled:
            self._life.settle(output.name)
        self._holder.hold(output.name)
        self._life.settle(output.name)  # one that was just looking has not looked at what comes next
        return has_died


class Fate:
    """Where a query dies, once; it may be nowhere."""

    def __init__(self, output: Output, end: Between) -> None:
        step = "view.commit" if isinstance(output, View) else "publish.commit"
        self._place = f"{step}:{SIDES[end]}" if end in SIDES else ""
        self.is_fulfilled = False

    def __call__(self, place: str) -> None:
        if place == self._place and not self.is_fulfilled:
            self.is_fulfilled = True
            raise Died(place)


class Died(Transient):
    def __init__(self, place: str) -> None:
        super().__init__(f"the test lets the app die at {place}", hint="it is started again")
