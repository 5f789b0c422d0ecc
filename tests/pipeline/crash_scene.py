"""Clicks on a broker, an app that reads them and dies, and what must be there whenever somebody looks.

Every click follows from its number, and so does what becomes of it: every tenth is broken, every tenth comes an hour
late. That holds however the clicks are cut into batches. Whoever looks between two runs, or reads all the while, must
find whole batches: exactly what follows from the clicks below the positions that the marker tells.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from runnel import Broker
from runnel.client import Admin, Producer, Transactions
from runnel.client.errors import UnknownTransaction
from runnel.client.transactions import State
from runnel.views.errors import UnknownView
from runnel.views.opening import open_store
from runnel.views.store import Snapshot
from tests.pipeline.crash_driver import APP, LATE_BY, PARTITIONS, VIEW, WINDOWS, Life
from tests.pipeline.crash_engine import Engine, wait_until

START = 1_767_225_600  # the first second of 2026
HOUR = 3_600
FIRST_LATE = 150  # when there is a watermark, however the first batch was cut
BACKLOG = 130  # clicks that wait when a run begins: some batches
ALL_AT_ONCE = 10_000
ENDING = (State.PREPARE_COMMIT.word, State.PREPARE_ABORT.word)

Positions = dict[str, dict[str, int]]
Counts = dict[tuple[datetime, str], int]


# --- the clicks


def is_broken(number: int) -> bool:
    return number % 10 == 3


def is_late(number: int) -> bool:
    return number % 10 == 7 and number >= FIRST_LATE


def seconds_of(number: int) -> int:
    return number * 37 % 100


def page_of(number: int) -> str:
    return f"p{number // 2 % 5}"


def time_of(number: int) -> int:
    return START + number - (HOUR if is_late(number) else 0)


def value_of(number: int) -> bytes:
    if is_broken(number):
        return b"{"
    at = datetime.fromtimestamp(time_of(number), UTC).isoformat()
    click = {"page": page_of(number), "customer_id": number // 2 % 20, "seconds": seconds_of(number), "at": at}
    return json.dumps(click).encode()


def numbers_below(positions: Positions, first: int = 0) -> list[int]:
    """Those whose offsets are below: clicks take turns with the partitions."""
    ends = {int(partition): end for partition, end in positions.get("clicks", {}).items()}
    return sorted(2 * at + partition for partition, end in ends.items() for at in range(first // 2, end))


def place_of(number: int) -> tuple[int, int]:
    return number % 2, number // 2


def stays_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The places that must be told of by the derived stream."""
    told = (each for each in numbers if not is_broken(each) and not is_late(each) and seconds_of(each) > 50)
    return sorted(map(place_of, told))


def counts_of(numbers: Iterable[int]) -> Counts:
    counted = (each for each in numbers if not is_broken(each) and not is_late(each))
    return dict(Counter((_minute(time_of(each)), page_of(each)) for each in counted))


def _minute(second: int) -> datetime:
    return datetime.fromtimestamp(second // 60 * 60, UTC)


# --- the scene


class Scene:
    def __init__(self, broker: Broker, spark: Engine, life: Life) -> None:
        self.broker = broker
        self.spark = spark
        self.life = life
        self.sent = 0
        self.first = 0  # the click that it begins with
        self.id = f"runnel.{APP}.{life.output}"
        self._marks = f"{self.id}.marker"
        self._sides = [f"{life.output}.late", "clicks.rejected"]
        broker.create_topic("clicks", 2, configs={"retention.ms": "-1"})
        for topic in [self._marks, *self._sides]:
            broker.create_topic(topic, 1)
        if not self.is_view:
            broker.create_topic(life.output, PARTITIONS)

    @property
    def is_view(self) -> bool:
        return self.life.output == VIEW

    def send(self, count: int) -> None:
        with Producer(self.broker.bootstrap) as producer:
            for number in range(self.sent, self.sent + count):
                partition, _ = place_of(number)
                stamp = (START + number) * 1000
                producer.submit("clicks", value_of(number), partition=partition, timestamp=stamp)
        self.sent += count

    def feed(self) -> None:
        """Let some batches wait."""
        done = len(numbers_below(self.positions()))
        self.send(max(0, BACKLOG - (self.sent - done)))

    def die(self, *points: str) -> None:
        """Let a run die, and look at what is there."""
        self.feed()
        self.spark.die(self.life, *points)
        self.check_whole()

    def end(self) -> None:
        """Let a run read all there is; it must be right, and stay so."""
        self.spark.run(replace(self.life, rows=ALL_AT_ONCE))
        self.check_exact()

    # --- what must be there

    def check_exact(self) -> None:
        self.check_whole()
        assert len(numbers_below(self.positions())) == self.sent, "not all was read"

    def check_whole(self) -> None:
        self._wait_until_ended()
        found = self.read()
        numbers = numbers_below(_positions(found[self._marks]), self.first)
        if self.is_view:
            self._check_view(numbers)
        else:
            self._check_stream(found[self.life.output], numbers)
        self._check_sides(found, numbers)

    def _check_stream(self, found: list[Message], numbers: list[int]) -> None:
        if self.life.output == WINDOWS:
            check_windows(found, numbers)
        else:
            check_stays(found, numbers)

    def _check_view(self, published: list[int]) -> None:
        """What was put aside is published before the view shows the batch, and not more than a batch before."""
        snapshot = self.snapshot()
        check_snapshot(snapshot)
        shown = numbers_below(dict(snapshot.marker.positions)) if snapshot is not None and snapshot.marker else []
        missing = [each for each in shown if each not in set(published) and (is_broken(each) or is_late(each))]
        assert not missing, f"the view has a batch whose rejected and late clicks were not published: {missing}"

    def _check_sides(self, found: dict[str, list[Message]], numbers: list[int]) -> None:
        late, rejected = (sorted(map(_origin, found[side])) for side in self._sides)
        assert late == sorted(place_of(each) for each in numbers if is_late(each)), "late clicks"
        assert rejected == sorted(place_of(each) for each in numbers if is_broken(each)), "rejected clicks"
        for message in found[self._sides[0]]:
            check_watermark(message)

    # --- what is there

    def positions(self) -> Positions:
        if self.is_view:
            snapshot = self.snapshot()
            return dict(snapshot.marker.positions) if snapshot is not None and snapshot.marker else {}
        return _positions(self.read()[self._marks])

    def snapshot(self) -> Snapshot | None:
        try:
            with open_store(self.life.views or str(self.life.data)).reader(VIEW) as reader:
                return reader.snapshot()
        except UnknownView:
            return None

    def read(self) -> dict[str, list[Message]]:
        """All that is committed, by topic."""
        output = {} if self.is_view else {self.life.output: PARTITIONS}
        topics = {self._marks: 1, **dict.fromkeys(self._sides, 1), **output}
        found: dict[str, list[Message]] = {topic: [] for topic in topics}
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        with reading(self.broker.bootstrap, places) as consumer:
            ended: set[tuple[str, int]] = set()
            while len(ended) < len(places):
                message = consumer.poll(30)
                assert message is not None, "a topic cannot be read to its end"
                if message.error():
                    ended.add((message.topic(), message.partition()))
                else:
                    found[message.topic()].append(message)
        return found

    def _wait_until_ended(self) -> None:
        """A transaction whose end is decided is committed or aborted in one partition after the other."""
        with Admin(self.broker.bootstrap) as admin:
            wait_until(lambda: self._state(admin) not in ENDING, "the transaction ends")

    def _state(self, admin: Admin) -> str:
        try:
            return Transactions(admin).describe(self.id).state
        except UnknownTransaction:
            return ""

    # --- those who read all the while

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside of the block somebody reads all the while, and must never see half of a batch."""
        watcher = ViewWatcher(self) if self.is_view else StreamWatcher(self)
        watcher.start()
        try:
            yield
            watcher.finish()
        finally:
            watcher.stop()


class Watcher(threading.Thread):
    def __init__(self, scene: Scene) -> None:
        super().__init__(daemon=True)
        self.scene = scene
        self.failure: BaseException | None = None
        self.is_stopped = threading.Event()

    def run(self) -> None:
        try:
            self.watch()
        except BaseException as error:
            self.failure = error

    def watch(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self.is_stopped.set()
        self.join(60)
        assert not self.is_alive()

    def finish(self) -> None:
        if self.failure is not None:
            raise AssertionError("whoever read all the while saw something else") from self.failure


class StreamWatcher(Watcher):
    """What was read once can never be taken back: it is all that is there at the end, in the same order."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.seen: list[tuple[int, int]] = []

    def watch(self) -> None:
        places = [(self.scene.life.output, number) for number in range(PARTITIONS)]
        with reading(self.scene.broker.bootstrap, places) as consumer:
            while not self.is_stopped.is_set():
                message = consumer.poll(0.1)
                if message is not None and not message.error():
                    self.seen.append((message.partition(), message.offset()))

    def finish(self) -> None:
        there = self.scene.read()[self.scene.life.output]
        wait_until(lambda: self.failure is not None or len(self.seen) >= len(there), "the reader comes to the end")
        super().finish()
        assert sorted(self.seen) == sorted((each.partition(), each.offset()) for each in there)
        for partition in range(PARTITIONS):
            offsets = [offset for found, offset in self.seen if found == partition]
            assert offsets == sorted(offsets)


class ViewWatcher(Watcher):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.batches: set[int] = set()

    def watch(self) -> None:
        checked: Snapshot | None = None
        while not self.is_stopped.is_set():
            snapshot = self.scene.snapshot()
            if not is_same(snapshot, checked):
                check_snapshot(snapshot)
                checked = snapshot
            if snapshot is not None and snapshot.marker is not None:
                self.batches.add(snapshot.marker.batch)
            self.is_stopped.wait(0.05)

    def finish(self) -> None:
        super().finish()
        assert len(self.batches) > 1, "it saw no batch come"


# --- checks


def check_stays(found: list[Message], numbers: list[int]) -> None:
    rows = [json.loads(each.value()) for each in found]
    places = [(row["_partition"], row["_offset"]) for row in rows]
    expected = stays_of(numbers)
    doubled = [place for place, count in Counter(places).items() if count > 1]
    missing, more = set(expected) - set(places), set(places) - set(expected)
    assert sorted(places) == expected, f"there twice: {doubled}, missing: {sorted(missing)}, too many: {sorted(more)}"
    last: dict[tuple[int, int, int], int] = {}
    for message, row in zip(found, rows, strict=True):
        one = message.partition(), row["customer_id"], row["_partition"]
        assert row["_offset"] > last.get(one, -1), "records of one key left in another order than they came"
        last[one] = row["_offset"]


def check_windows(found: list[Message], numbers: list[int]) -> None:
    """Each window is told once, with all its clicks, when the watermark has passed its end; not before the last two
    batches are known, though: a batch moves the watermark for those after it.
    """
    rows = [json.loads(each.value()) for each in found]
    told = {(datetime.fromisoformat(row["start"]), row["page"]): row["count"] for row in rows}
    assert len(told) == len(rows), "a window was told twice"
    expected = counts_of(numbers)
    assert told.items() <= expected.items(), "a window was told with other clicks"
    if numbers:
        last = START + numbers[-1] - LATE_BY - 2 * BACKLOG
        missing = [key for key in expected if key[0].timestamp() + 60 <= last and key not in told]
        assert not missing, f"windows that were not told: {missing}"


def check_snapshot(snapshot: Snapshot | None) -> None:
    if snapshot is None:
        return
    shown = {(row["window_start"], row["page"]): row["count"] for row in snapshot.rows.to_pylist()}
    numbers = numbers_below(dict(snapshot.marker.positions)) if snapshot.marker is not None else []
    assert shown == counts_of(numbers), "the view is not what follows from the positions of its marker"


def is_same(one: Snapshot | None, other: Snapshot | None) -> bool:
    """Then there is nothing to check anew."""
    if one is None or other is None:
        return one is other
    return one.marker == other.marker and one.rows.equals(other.rows)


def check_watermark(message: Message) -> None:
    """A watermark that a click was behind is that of some batch: a late time before a click that came earlier."""
    headers: dict[str, Any] = dict(message.headers())
    number = 2 * int(headers["runnel.offset"]) + int(headers["runnel.partition"])
    watermark = int(headers["runnel.watermark"])
    latest = (watermark // 1000 + LATE_BY) - START  # the click that moved it
    assert watermark % 1000 == 0, "no click has that time"
    assert 0 <= latest < number, "the watermark is of a later click"
    assert not is_broken(latest), "no click in time has that time"
    assert not is_late(latest), "no click in time has that time"


def _origin(message: Message) -> tuple[int, int]:
    headers: dict[str, Any] = dict(message.headers())
    return int(headers["runnel.partition"]), int(headers["runnel.offset"])


def _positions(marks: list[Message]) -> Positions:
    batches = [json.loads(each.value())["batch"] for each in marks]
    assert batches == sorted(set(batches)), f"batches were published twice or out of order: {batches}"
    return json.loads(marks[-1].value())["positions"] if marks else {}


@contextmanager
def reading(bootstrap: str, places: list[tuple[str, int]]) -> Iterator[Consumer]:
    """From the beginning, what is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in places])
    try:
        yield consumer
    finally:
        consumer.close()
