"""Compaction on demand, and how clean a compacted topic is. Only Runnel's broker can be asked: Kafka has no API for it.

A partition is clean up to an offset if no key has two records before it: what a record has replaced or deleted is off
the disk there. The newest records are not, and neither is what follows the first open transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from runnel.client.admin import Admin, TopicAndPartition
from runnel.client.brokers import Brokers
from runnel.client.errors import CannotCompact, NotCompacted, NotPlain, NotServed
from runnel.client.transactions import OpenTransaction, Transactions
from runnel.client.wire import Wire
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.own import OwnApi


class Cleanness(NamedTuple):
    """`time` is when the oldest record was written that is not clean, in milliseconds; None if all is clean.

    `held_by` is the first open transaction, behind which nothing can be cleaned.
    """

    topic: str
    partition: int
    offset: int
    time: int | None
    end: int
    held_by: OpenTransaction | None = None


class Compaction(NamedTuple):
    """What was done, and how clean the partition is now. The counts are those of all records that were looked at."""

    now: Cleanness
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


def compact(admin: Admin, topic: str, partitions: Iterable[int]) -> list[Compaction]:
    """Compact these partitions, one after the other, and wait for it as long as it takes."""
    done = _asked(admin, topic, partitions, dry_run=False)
    holders = _holders(admin, done)
    return [each._replace(now=_held(each.now, holders)) for each in done]


def cleanness(admin: Admin, topic: str, partitions: Iterable[int]) -> dict[int, Cleanness]:
    """By partition; nothing if the topic is not compacted, or the cluster does not tell."""
    try:
        found = _asked(admin, topic, partitions, dry_run=True)
    except (CannotCompact, NotCompacted, NotPlain):
        return {}
    holders = _holders(admin, found)
    return {each.now.partition: _held(each.now, holders) for each in found}


def _asked(admin: Admin, topic: str, partitions: Iterable[int], *, dry_run: bool) -> list[Compaction]:
    doing = f'{"describing" if dry_run else "compacting"} topic "{topic}"'
    with Brokers(admin, doing) as brokers:
        led = brokers.settled(lambda: brokers.by_leader((topic, number) for number in partitions))
        wires = {place: wire for wire, places in led for place in places}
        return [
            brokers.settled(partial(_answer, brokers, wires[place], place, dry_run=dry_run)) for place in sorted(wires)
        ]


def _answer(brokers: Brokers, wire: Wire, place: TopicAndPartition, *, dry_run: bool) -> Compaction:
    topic, partition = place
    asked = {"name": topic, "partition_index": partition, "dry_run": dry_run}
    try:
        told = wire.ask(OwnApi.COMPACT_TOPIC, asked, brokers.doing, patient=not dry_run)
    except NotServed as error:
        raise CannotCompact(error.address) from None
    if told["error_code"] == ErrorCode.POLICY_VIOLATION:
        raise NotCompacted(topic)
    brokers.check(told, topic=topic)
    time = told["clean_time"] if told["clean_time"] >= 0 else None
    return Compaction(
        Cleanness(topic, partition, told["clean_offset"], time, told["end_offset"]),
        told["records_before"],
        told["records_after"],
        told["bytes_before"],
        told["bytes_after"],
    )


def _holders(admin: Admin, found: Iterable[Compaction]) -> dict[TopicAndPartition, OpenTransaction]:
    places = [(each.now.topic, each.now.partition) for each in found]
    return {each.place: each for each in reversed(Transactions(admin).open_in(places))}


def _held(clean: Cleanness, holders: Mapping[TopicAndPartition, OpenTransaction]) -> Cleanness:
    return clean._replace(held_by=holders.get((clean.topic, clean.partition)))
