"""How far a group is behind, and how near to losing records.

Retention deletes the oldest records whether a group has read them or not. What is `used` of a partition's retention
tells how near the first unread record is to that:

- by time: the age of the first unread record / `retention.ms`;
- by bytes: the bytes that are unread / `retention.bytes`, where the bytes unread are estimated as
  the partition's size x lag / (end - start), as if records were of one size.

The larger of both counts. At 1 the record may be deleted at any moment: retention takes whole segments, so mostly it
lives a little longer, never shorter. A topic that is only compacted, and a limit of -1, delete nothing.
A committed offset before the partition's start means that records were deleted unread: `lost` tells how many.

An open transaction holds readers of committed records back: they stop where it begins, which is the last stable offset
(`stable`), and its first record is the next that they get. `held_by` tells which transaction it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from runnel.client.admin import Admin, Config, TopicAndPartition
from runnel.client.connection import Faults
from runnel.client.errors import NotPlain, NotServed, told
from runnel.client.groups import Groups, topics_of
from runnel.client.transactions import OpenTransaction, Transactions
from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.start import EARLIEST, LATEST

UNLIMITED = -1


class Retention(NamedTuple):
    milliseconds: int = UNLIMITED
    bytes: int = UNLIMITED

    @classmethod
    def of(cls, configs: Iterable[Config]) -> Retention:
        values = {config.name: config.value for config in configs}
        policy = values.get("cleanup.policy")
        if policy is not None and "delete" not in policy:  # an empty one deletes nothing either
            return cls()
        return cls(*(int(values.get(name) or UNLIMITED) for name in ("retention.ms", "retention.bytes")))


class Lag(NamedTuple):
    """A group in one partition. What it has used of a retention is None if nothing is unread or nothing is known.

    `stable` is the last stable offset, if it is before the end; `held_by` is the transaction that begins there, if the
    cluster tells it.
    """

    topic: str
    partition: int
    committed: int
    start: int
    end: int
    used_time: float | None = None
    used_bytes: float | None = None
    stable: int | None = None
    held_by: OpenTransaction | None = None

    @property
    def lag(self) -> int:
        """The records that are there and not read."""
        return max(0, self.end - max(self.committed, self.start))

    @property
    def lost(self) -> int:
        """The records that were deleted before they were read."""
        return max(0, self.start - self.committed)

    @property
    def held(self) -> int:
        """The records of its lag that readers of committed records cannot get yet."""
        return 0 if self.stable is None else max(0, self.end - max(self.stable, self.committed, self.start))

    @property
    def used(self) -> float | None:
        known = [share for share in (self.used_time, self.used_bytes) if share is not None]
        return max(known, default=None)

    def is_near_loss(self, alert: float) -> bool:
        return self.lost > 0 or (self.used is not None and self.used >= alert)


def lag(admin: Admin, group: str, *, clock: Clock = SYSTEM_CLOCK) -> list[Lag]:
    """The lag of a group in each partition that it ever committed, as far as it is still there."""
    committed = Groups(admin).committed(group)
    topics = admin.described(topics_of(committed), missing_is_fine=True)
    there = {(topic.name, each.number) for topic in topics for each in topic.partitions}
    places = sorted(there & committed.keys())
    starts, ends = admin.offsets(places, EARLIEST), admin.offsets(places, LATEST)
    found = [Lag(topic, number, committed[topic, number], starts[topic, number], ends[topic, number])
             for topic, number in places]  # fmt: skip
    plain = with_holders(admin, found)
    behind = [each for each in plain if each.lag]
    retentions = {name: Retention.of(configs) for name, configs in admin.configs(topics_of(_places(behind))).items()}
    times = first_unread(admin, [each for each in behind if retentions[each.topic].milliseconds > 0])
    sizes = admin.sizes(_places(behind)) if any(each.bytes > 0 for each in retentions.values()) else {}
    return [with_shares(each, retentions.get(each.topic, Retention()), times, sizes, clock.now()) for each in plain]


def with_shares(
    lag: Lag,
    retention: Retention,
    times: Mapping[TopicAndPartition, int],
    sizes: Mapping[TopicAndPartition, int],
    now: int,
) -> Lag:
    """The lag with what it has used of the retention, by the formulas above."""
    place = lag.topic, lag.partition
    used_time = used_bytes = None
    if not lag.lag:
        return lag  # nothing is there that could be lost
    if retention.milliseconds > 0 and times.get(place, -1) >= 0:
        used_time = max(0, now - times[place]) / retention.milliseconds
    if retention.bytes > 0 and place in sizes:
        used_bytes = sizes[place] * lag.lag / (lag.end - lag.start) / retention.bytes
    return lag._replace(used_time=used_time, used_bytes=used_bytes)


def with_holders(admin: Admin, lags: list[Lag]) -> list[Lag]:
    """The lags with what holds readers of committed records back."""
    stable = admin.stable_offsets(_places(lags))
    held = [(each.topic, each.partition) for each in lags if stable[each.topic, each.partition] < each.end]
    holders = _holders(admin, held)
    return [
        each._replace(stable=stable[place], held_by=holders.get(place)) if place in held else each
        for each, place in zip(lags, _places(lags), strict=True)
    ]


def _holders(admin: Admin, places: list[TopicAndPartition]) -> dict[TopicAndPartition, OpenTransaction]:
    """The first open transaction of each partition, where the cluster can be asked."""
    try:
        found = Transactions(admin).open_in(places) if places else ()
    except (NotPlain, NotServed):
        return {}
    return {each.place: each for each in reversed(found)}


def first_unread(admin: Admin, behind: Iterable[Lag]) -> dict[TopicAndPartition, int]:
    """The timestamp of the first record that is there and not read, of each partition that has one."""
    places = [TopicPartition(each.topic, each.partition, max(each.committed, each.start)) for each in behind]
    if not places:
        return {}
    own = {
        "group.id": "runnel-lag",  # asked for by librdkafka; nothing is joined and nothing committed
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",  # retention does not wait for transactions
        "fetch.message.max.bytes": 1,  # a broker gives one batch at least
        "queued.min.messages": 1,
    }
    consumer = KafkaConsumer(admin.connection.configuration(own, Faults()))
    try:
        consumer.assign(places)
        return _first_times(consumer, len(places), admin.connection.timeout)
    except KafkaException as error:
        raise told(error, admin.connection.bootstrap, "reading the first unread records") from None
    finally:
        consumer.close()


def _first_times(consumer: KafkaConsumer, count: int, seconds: float) -> dict[TopicAndPartition, int]:
    times: dict[TopicAndPartition, int] = {}
    done: set[TopicAndPartition] = set()
    deadline = time.monotonic() + seconds
    while len(done) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        place = message.topic() or "", message.partition() or 0
        error = message.error()
        if error is None:
            if place not in done:
                times[place] = message.timestamp()[1]
                consumer.pause([TopicPartition(*place)])
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        done.add(place)
    return times


def _places(lags: Iterable[Lag]) -> list[TopicAndPartition]:
    return [(each.topic, each.partition) for each in lags]
