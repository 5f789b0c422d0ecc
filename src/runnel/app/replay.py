"""Runs a derived stream's body over records of the past, into another topic: exactly once, and to its end.

It is a query of its own, with a directory of its own (`DATA/replays/TOPIC`), beside the app, which may run or not. It
ends when all is read that was there. Killed in between, the same call goes on where it was.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace

from runnel.app.app import App
from runnel.app.code import code_of, modules_of
from runnel.app.offering import offered
from runnel.app.runner import Running, place_of
from runnel.app.trouble import Kept, told_if_full
from runnel.client import positions
from runnel.client.errors import UnknownTopic
from runnel.counted import counted
from runnel.errors import Permanent
from runnel.files import DISK, DiskFiles, make_directories, replace_file
from runnel.graph.derived import Derived
from runnel.graph.graph import sides
from runnel.graph.names import LONGEST_TOPIC, checked_name
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.view import View
from runnel.pipeline.batch import Totals
from runnel.pipeline.body_failure import body_of
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.given_session import fitted
from runnel.pipeline.java_process import ended
from runnel.pipeline.replay_query import Replayed, ReplayQuery
from runnel.pipeline.session import Session, spark_session
from runnel.pipeline.shipping import ship
from runnel.start import InvalidStart, Place, Start
from runnel.stop_request import StopRequest

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.1  # seconds
REPORT_EVERY = 10.0
ASKED, DONE = "replay.json", "done"


class NotReplayed(Permanent):
    pass


class InvalidFrom(NotReplayed):
    def __init__(self, text: str) -> None:
        super().__init__(
            f'"{text}" is no time to replay from',
            hint="expected earliest, a time such as 2026-07-01T12:00:00Z, or an age such as 1d",
        )
        self.text = text


class Replay:
    """Of one derived stream, from `start` on, into the topic `to`. InvalidFrom if `start` is neither `earliest` nor a
    time nor an age.
    """

    def __init__(self, app: App, name: str, running: Running, *, start: str, to: str) -> None:
        _check_start(start)
        self._app = app
        self._running = running
        self._output = Replayed.of(_stream_of(app, name), checked_name(to, f"replay of {name}", "to-topic"))
        self._asked = {"stream": name, "from": start, "code": code_of(self._output)}
        self._stopping = StopRequest()
        place = place_of(app, running)
        directory = place.directory / "replays" / to
        self._place = replace(place, directory=directory, suffix=f".replay.{to}", start=start)
        self._check_topic()
        self._check_length()

    def stop(self) -> None:
        """Finish the batch under way, and end; the same call goes on. May be called by a signal's handler."""
        self._stopping.set()

    def run(self, *, when_started: Callable[[], object] = lambda: None) -> Totals | None:
        """Until all is read that is there; what this run has counted. None if it was stopped before."""
        with told_if_full(self._running.data):
            return self._run_alone(when_started)

    def _run_alone(self, when_started: Callable[[], object]) -> Totals | None:
        directory = self._place.directory
        if not directory.exists():
            self._check_records()  # one that may not be leaves nothing behind
        make_directories(str(directory))
        lock = DiskFiles().lock(str(directory / "lock"))
        if lock is None:
            raise NotReplayed(f"a replay into {self._output.to} is running already", hint="wait for it, or stop it")
        try:
            self._check_what_was_asked()
            self._check_records()
            self._keep_what_is_asked()
            return self._run(when_started)
        finally:
            lock.release()

    # --- whether it may be

    def _check_topic(self) -> None:
        outputs, place = self._app.graph.outputs, place_of(self._app, self._running)
        nouns = [*outputs, *(each.noun for output in outputs for each in output.inputs)]
        topics = {noun.topic for noun in nouns if isinstance(noun, Derived | Stream | Table)}
        topics |= {beside for output in outputs for beside in (*sides(output), place.marks_of(output.name))}
        topics |= {rule.topic for rule in self._app.alerts if rule.topic is not None}
        is_read = any(isinstance(noun, Stream) and noun.reads(self._output.to) for noun in nouns)  # by a pattern
        if is_read or self._output.to in topics:
            raise NotReplayed(
                f"{self._output.to} is a topic of the app itself",
                hint="name another one, which is made if it is missing",
            )

    def _check_length(self) -> None:
        """The topic of the replay's markers is called by the names of the app, the stream and the topic."""
        marks, to = self._place.marks_of(self._output.name), self._output.to
        if len(marks) > LONGEST_TOPIC:
            most = len(to) - (len(marks) - LONGEST_TOPIC)
            shorter = f"name one of at most {counted(most, 'character')}"
            raise NotReplayed(
                f"beside {to}, a topic {marks} would be made: it is longer than Kafka's {LONGEST_TOPIC} characters",
                hint=shorter if most > 0 else "give the app or the stream a shorter name",
            )

    def _check_what_was_asked(self) -> None:
        """From its first batch on the same each time: a replay by half is none of another body."""
        before = self._asked_before
        if before is None:
            return
        what = f"a replay of {before['stream']} from {before['from']}"
        if (self._place.directory / DONE).exists():
            raise NotReplayed(f"{self._output.to} was written by {what}, to its end", hint="name another topic")
        if before != self._asked and self._is_begun(before["stream"]):
            other = ", of other code" if before["code"] != self._asked["code"] else ""
            raise NotReplayed(
                f"{self._output.to} has a part of {what}{other}",
                hint="name another topic; only the same replay can go on there",
            )

    def _check_records(self) -> None:
        """What others wrote to the topic would stand among what is replayed."""
        with self._place.kafka.cluster() as cluster:
            cluster.reach()
            if self._is_begun(self._output.name):
                return
            try:
                places = cluster.topic(self._output.to, fresh=True).places
            except UnknownTopic:
                return
            if positions.earliest(cluster, places) != positions.latest(cluster, places):
                raise NotReplayed(f"{self._output.to} has records already", hint="name another topic")

    @property
    def _asked_before(self) -> dict[str, str] | None:
        try:
            return dict(json.loads((self._place.directory / ASKED).read_text()))
        except FileNotFoundError:
            return None

    def _is_begun(self, stream: str) -> bool:
        """Before Spark has planned a batch, nothing was written."""
        return Checkpoint(self._place.checkpoint_of(stream)).last >= 0

    def _keep_what_is_asked(self) -> None:
        """In place of what came to nothing, of which no start may be left."""
        if self._asked_before == self._asked:
            return
        shutil.rmtree(self._place.directory / "queries", ignore_errors=True)
        replace_file(DISK, str(self._place.directory / ASKED), json.dumps(self._asked).encode())

    # --- the query

    def _run(self, when_started: Callable[[], object]) -> Totals | None:
        given = self._running.spark
        spark = fitted(given) if given is not None else self._spark()
        try:
            when_started()
            ship(spark, modules_of(self._app.graph.outputs))
            known = offered(self._app, self._output, spark, self._place)
            with body_of(self._output):
                query = ReplayQuery(spark, self._place, self._output, known)
            try:
                with body_of(self._output):
                    query.start(until_caught_up=True)
                is_done = self._come_to_the_end(spark, query)
            finally:
                query.stop()
        finally:
            if given is None and ended(spark) is None:
                spark.stop()
        if not is_done:
            return None
        replace_file(DISK, str(self._place.directory / DONE), b"")
        return query.totals

    def _spark(self) -> Session:
        logger.info("Spark starts, with the master %s", self._running.master)
        return spark_session(f"replay {self._output.name}", master=self._running.master)

    def _come_to_the_end(self, spark: Session, query: ReplayQuery) -> bool:
        kept = Kept(query, until_caught_up=True)
        reported = time.monotonic()
        while not self._stopping.wait(LOOK_EVERY):
            if (gone := ended(spark)) is not None:
                raise gone
            if not kept.look():
                return True
            if time.monotonic() - reported >= REPORT_EVERY:
                reported = time.monotonic()
                logger.info("%s into %s: %s", query.name, self._output.to, query.totals)
        return False


def _check_start(text: str) -> None:
    try:
        place = Start.parse(text, now=0).place
    except InvalidStart:
        raise InvalidFrom(text) from None
    if place not in (Place.EARLIEST, Place.TIME):
        raise InvalidFrom(text)


def _stream_of(app: App, name: str) -> Derived:
    found = next((output for output in app.graph.outputs if output.name == name), None)
    if isinstance(found, Derived):
        return found
    if isinstance(found, View):
        raise NotReplayed(
            f"{name} is a view, and has no topic", hint=f"`runnel rebuild {name} APP.py` makes it anew of the log"
        )
    streams = ", ".join(output.name for output in app.graph.outputs if isinstance(output, Derived))
    raise NotReplayed(f'app "{app.name}" derives no stream {name!r}', hint=f"it derives: {streams or 'none'}")
