"""How far the next batch goes. It lives in the driver, asks the broker each time, and remembers little.

New partitions and, for a pattern, new topics are looked for every few seconds. A topic that was deleted and made again
is told by its id: its offsets mean other records now, so the query stops and says so.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from runnel.client import positions
from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.errors import OffsetsGone, TopicReplaced, UnknownPartition, UnknownTopic
from runnel.client.fetch import Fetcher
from runnel.client.metadata import Place, Topic
from runnel.durable import durable
from runnel.errors import InvalidBatch
from runnel.files import DISK, replace_file
from runnel.graph.names import is_ours
from runnel.pipeline.errors import EndLost, OtherCheckpoint, RecordsGone
from runnel.pipeline.source.agreement import Agreement
from runnel.pipeline.source.alignment import aligned
from runnel.pipeline.source.followed import Followed
from runnel.pipeline.source.hold import FREE, Hold
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.source.spec import Spec
from runnel.records import HEADER_SIZE, decompress, validate
from runnel.start import Place as StartPlace
from runnel.start import Start

Answer = TypeVar("Answer")

LOOK_EVERY = 10.0  # seconds, for new partitions and topics
SAMPLE = 4096  # bytes; a broker gives one whole batch at least
SMALL = 10_000  # records: fewer are taken without a look at their size
AT_FIRST = 500_000  # records of a batch that catches up, until it is known how long one takes
QUICK, SLOW = 5.0, 60.0  # seconds: after a quicker batch the next one may be twice as large, after a slower one half


class Planner:
    def __init__(
        self,
        spec: Spec,
        cluster: Cluster,
        *,
        clock: Callable[[], float] | None = None,
        now: Callable[[], float] = time.time,
        hold: Hold = FREE,
    ) -> None:
        self._spec = spec
        self._cluster = cluster
        self._hold = hold
        self._clock = clock or hold.clock
        self._now = now
        self._topics: dict[str, Topic] = {}
        self._looked = float("-inf")
        self._checked = float("-inf")
        self._active = self._clock()  # when there was last something to read, or a beat
        self._guess = (0, 0)  # of the alignment
        self._rows = AT_FIRST
        self._full_since: float | None = None  # when the last batch was planned, if it took all that it might
        self._until: Offsets | None = None
        self._agreement = Agreement(spec.agreement)

    # --- where it begins

    def first(self) -> Offsets:
        """The offsets of batch 0, kept in a file: "latest" must mean the same when the first batch is repeated."""
        path = self._spec.start_file
        if path.exists():
            return Offsets.from_json(json.loads(path.read_text()))
        self._look()
        start = self._start()
        if self._spec.follow:
            earliest = positions.earliest(self._cluster, list(start))
            start = {place: max(at, earliest[place]) for place, at in self._not_beyond(start).items()}
        found = Offsets(self._spec.number, start, self._ids())
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable("source.start"):
            # Whoever plays an app in a test writes the same, and may do so at the same time.
            replace_file(DISK, str(path), json.dumps(found.to_json()).encode(), mark=f".{os.getpid()}")
        return found

    def _start(self) -> dict[Place, int]:
        start = self._spec.reading.start
        places = self._places()
        if not isinstance(start, str):
            self._check_named(start)
            earliest = positions.earliest(self._cluster, places)
            wanted = {place: start.get(place[1], earliest[place]) for place in places}
            positions.checked(self._cluster, wanted)
            return wanted
        at = Start.parse(start, round(self._now() * 1000))
        match at.place:
            case StartPlace.EARLIEST:
                return positions.earliest(self._cluster, places)
            case StartPlace.LATEST:
                return positions.latest(self._cluster, places)
            case StartPlace.TIME:
                return positions.at_times(self._cluster, dict.fromkeys(places, at.number))
            case StartPlace.OFFSET:
                wanted = dict.fromkeys(places, at.number)
                positions.checked(self._cluster, wanted)
                return wanted

    def _check_named(self, start: Mapping[int, int]) -> None:
        """UnknownPartition, if it names one that no topic has: nobody would begin there. Topics of a pattern may have
        as many as they like, and more topics may come.
        """
        if self._spec.reading.topics is not None:
            return
        count = len(self._places())
        for partition in sorted(start):
            if partition >= count:
                raise UnknownPartition(self._spec.topic, partition, count)

    # --- how far it goes

    def latest(self) -> Offsets:
        """Everything that is there and committed; of one that follows another, as far as that has come."""
        return self._of_what_is_there(self._latest)

    def _latest(self) -> Offsets:
        self._look()
        found = positions.latest(self._cluster, self._places())
        if self._spec.follow:
            found = self._not_beyond(found)
        return Offsets(self._spec.number, found, self._ids())

    def _not_beyond(self, found: dict[Place, int]) -> dict[Place, int]:
        followed = Followed.read(Path(self._spec.follow))
        limits = {place: followed.limit(place) for place in found}
        return {place: at if (limit := limits[place]) is None else min(at, limit) for place, at in found.items()}

    def stop_at_latest(self) -> None:
        """From now on nothing beyond what is there: for a run that ends when it has caught up."""
        self._until = self.latest()

    def next(self, start: Offsets) -> Offsets:
        self._check_start(start)
        if not self._agreement.is_ours:
            return self._agreement.follow(start)
        return self._agreement.decide(start, self._of_what_is_there(lambda: self._next(start)))

    def _next(self, start: Offsets) -> Offsets:
        if not self._hold.is_let_go():
            return start
        latest = self._until or self.latest()
        self._check_ids(start, latest)
        self._check_end(start, latest)
        self._check_gone(start)
        begin = self._begin(start)
        start = replace(start, next={**begin, **start.next})
        ends = {**start.next, **{place: max(at, start.next.get(place, 0)) for place, at in latest.next.items()}}
        ids = {**start.ids, **latest.ids}
        waiting = sum(at - start.next.get(place, 0) for place, at in ends.items())
        if not waiting:
            return Offsets(self._spec.number, ends, ids, start.idle + self._beat(), begin)
        self._active = self._clock()
        return Offsets(self._spec.number, self._admitted(start, ends, waiting), ids, start.idle, begin)

    def _begin(self, start: Offsets) -> dict[Place, int]:
        """Where partitions begin that are found on the way: old records of theirs may be deleted already."""
        new = [place for place in self._places() if place not in start.next]
        return {**start.begin, **{place: at for place, at in positions.earliest(self._cluster, new).items() if at}}

    def check_gone(self, start: Offsets) -> None:
        """Raise RecordsGone for all partitions whose next records were deleted. Now and then: a task finds its own."""
        self._of_what_is_there(lambda: self._check_gone(start))

    def _check_gone(self, start: Offsets) -> None:
        if self._spec.skip_gone or self._clock() - self._checked < LOOK_EVERY:
            return
        self._look()
        known = [place for place in self._places() if place in start.next]
        earliest = positions.earliest(self._cluster, known)
        gone = {
            _named(place): (start.next[place], at) for place, at in sorted(earliest.items()) if at > start.next[place]
        }
        if gone:
            raise RecordsGone(self._spec.query, gone)
        self._checked = self._clock()

    def _beat(self) -> int:
        """The idle time that has passed since the last beat, once it is long enough."""
        event = self._spec.time
        if event is None or event.idle is None or self._until is not None or self._spec.follow:
            return 0
        passed = int((self._clock() - self._active) * 1000)
        if passed < max(event.idle, 1):
            return 0
        self._active = self._clock()
        return passed

    def _admitted(self, start: Offsets, ends: dict[Place, int], waiting: int) -> dict[Place, int]:
        self._learn()
        most = self._most(start, ends, waiting)
        if waiting <= most:
            self._guess = (0, 0)
            return ends
        self._full_since = self._clock()
        behind = {place: at for place, at in ends.items() if at > start.next.get(place, 0)}
        newest = max(
            (found.timestamp for found in positions.newest(self._cluster, behind).values() if found), default=0
        )
        taken, moment = aligned(
            start.next,
            behind,
            most,
            newest + 1,
            lambda at: positions.at_times(self._cluster, dict.fromkeys(behind, at)),
            self._guess,
        )
        last, _ = self._guess
        self._guess = (moment, max(1, (moment - last) // 2) if last else 0)
        return ends | taken

    def _learn(self) -> None:
        """From the last batch, if it took all that it might."""
        if self._full_since is None:
            return
        took, self._full_since = self._clock() - self._full_since, None
        if took < QUICK:
            self._rows = min(2 * self._rows, self._spec.reading.rows)
        elif took > SLOW:
            self._rows = max(self._rows // 2, SMALL)

    def _most(self, start: Offsets, ends: dict[Place, int], waiting: int) -> int:
        """Records of a batch: as many as declared, and no more bytes than declared, by the size of those to come; fewer
        while it is not known how long they take, or if they take long: a transaction has its time, and whoever stops
        the app waits for the batch.
        """
        reading = self._spec.reading
        if waiting <= min(SMALL, reading.rows):
            return reading.rows
        place = max(ends, key=lambda each: ends[each] - start.next.get(each, 0))
        size = self._record_size(place, start.next.get(place, 0), ends[place])
        return max(1, min(self._rows, reading.rows, int(reading.bytes / size)))

    def _record_size(self, place: Place, start: int, end: int) -> float:
        """By the first batch from there on; 1 where there is none, as when all was aborted or is gone."""
        try:
            for found in Fetcher(self._cluster, fetch_bytes=SAMPLE).read(*place, start, end):
                for part in found.parts:
                    return _record_size(next(each_batch(part)))
        except OffsetsGone as error:  # the task that reads them will tell
            if start < error.start < end:
                return self._record_size(place, error.start, end)
        return 1.0

    # --- the topics

    def _look(self) -> None:
        if self._clock() - self._looked < LOOK_EVERY:
            return
        pattern = self._spec.reading.topics
        if pattern is None:
            self._topics = {self._spec.topic: self._cluster.topic(self._spec.topic, fresh=True)}
        else:
            found = positions.matching(self._cluster, pattern)
            self._topics = {name: topic for name, topic in found.items() if not is_ours(name)}
        self._looked = self._clock()

    def _of_what_is_there(self, ask: Callable[[], Answer]) -> Answer:
        """A topic of a pattern may have been deleted since the last look: of the others there is an answer."""
        try:
            return ask()
        except UnknownTopic:
            if self._spec.reading.topics is None:
                raise
            self._looked = float("-inf")
            return ask()

    def _places(self) -> list[Place]:
        return [place for topic in self._topics.values() for place in topic.places]

    def _ids(self) -> dict[str, str]:
        return {name: _text(topic.id) for name, topic in self._topics.items()}

    def _check_start(self, start: Offsets) -> None:
        """Spark hands sources their offsets by their order in the body, which somebody may have changed."""
        others = set(start.ids) - {self._spec.topic} if self._spec.reading.topics is None else set()
        if start.input != self._spec.number or others:
            raise OtherCheckpoint(
                self._spec.query, f"its inputs have changed: {self._spec.topic} is where {', '.join(start.ids)} was"
            )

    def _check_end(self, start: Offsets, latest: Offsets) -> None:
        """What was read must not lie behind the end; asked twice, since a leader may just have moved. A topic that was
        made again since the last look ends elsewhere, too, and is told as that.
        """
        lost = [place for place, at in latest.next.items() if at < start.next.get(place, 0)]
        if lost:
            self._cluster.forget()
            self._looked = float("-inf")
            self._look()
            self._check_ids(start, replace(latest, ids=self._ids()))
        for place, at in positions.latest(self._cluster, lost).items():
            if at < start.next[place]:
                raise EndLost(self._spec.query, _named(place), at, start.next[place])

    def _check_ids(self, start: Offsets, latest: Offsets) -> None:
        for topic, known in start.ids.items():
            found = latest.ids.get(topic, known)
            if known and found and known != found:
                raise TopicReplaced(topic, known, found)


def _record_size(batch: memoryview) -> float:
    """Of one of its records, unpacked, as it will be in memory. Offsets without a record, as behind a compaction, count
    as one.
    """
    try:
        header = validate(batch)
        plain = decompress(header.codec, batch[HEADER_SIZE:])
    except InvalidBatch:  # the task that reads it will tell
        return 1.0
    return max(1.0, len(plain) / (header.last_offset_delta + 1))


def _named(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _text(identity: UUID | None) -> str:
    return str(identity) if identity else ""
