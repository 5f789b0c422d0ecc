"""What survives a restart: the committed offsets, the members of each classic group as of its last generation, and all
of each consumer group.

Handlers read it and return entries; only `replay` changes it. Nothing here knows of time-outs or of who waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runnel.broker.groups.consumer import records as consumer_records
from runnel.broker.groups.consumer.draft import Draft, gone
from runnel.broker.groups.consumer.group import ConsumerGroup, apply
from runnel.broker.groups.pending import PendingOffsets
from runnel.broker.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    read_group,
    read_key,
    read_offset,
    write_group,
    write_group_key,
    write_offset,
    write_offset_key,
)
from runnel.replay import Entry, JournaledState, Transacted

Offsets = dict[str, dict[int, CommittedOffset]]  # by topic and partition


@dataclass(slots=True)
class GroupsState:
    groups: dict[str, StoredGroup] = field(default_factory=dict)  # the classic ones
    consumer: dict[str, ConsumerGroup] = field(default_factory=dict)  # those of KIP-848
    offsets: dict[str, Offsets] = field(default_factory=dict)  # by group; no part of it is empty
    pending: PendingOffsets = field(default_factory=PendingOffsets)  # of transactions that are open

    def names(self) -> set[str]:
        """Also those for which there is nothing but an offset in an open transaction: it brings a group into being."""
        return self.groups.keys() | self.consumer.keys() | self.offsets.keys() | self.pending.groups()

    def knows(self, name: str) -> bool:
        return name in self.groups or name in self.consumer or name in self.offsets or name in self.pending.groups()


DurableGroups = JournaledState[GroupsState]


def replay(state: GroupsState, entry: Entry) -> None:
    if entry.transaction is not None:
        _replay_transacted(state, entry, entry.transaction)
        return
    if consumer_records.is_key(entry.key or b""):
        _replay_consumer(state, consumer_records.read_key(entry.key or b""), entry.value, entry.timestamp)
        return
    match read_key(entry.key or b""):
        case GroupKey(group):
            if entry.value is None:
                state.groups.pop(group, None)
            else:
                state.groups[group] = read_group(entry.value)
                state.consumer.pop(group, None)  # a group is of one kind
        case OffsetKey() as key:
            state.pending.overtake(key)
            if entry.value is None:
                _remove(state, key)
            else:
                _put(state, key, read_offset(entry.value))


def _replay_transacted(state: GroupsState, entry: Entry, transaction: Transacted) -> None:
    if transaction.committed is None:
        key = read_key(entry.key or b"")
        if isinstance(key, OffsetKey) and entry.value is not None:
            state.pending.add(transaction.producer_id, key, read_offset(entry.value))
        return
    for key, committed in state.pending.end(transaction.producer_id, committed=transaction.committed):
        _put(state, key, committed)


def _put(state: GroupsState, key: OffsetKey, committed: CommittedOffset) -> None:
    topics = state.offsets.setdefault(key.group, {})
    topics.setdefault(key.topic, {})[key.partition] = committed


def _replay_consumer(state: GroupsState, key: consumer_records.Key, value: bytes | None, timestamp: int) -> None:
    if value is None and isinstance(key, consumer_records.EpochKey):
        state.consumer.pop(key.group, None)
    elif value is None:
        if key.group in state.consumer:
            apply(state.consumer[key.group], key, None)
    else:
        state.groups.pop(key.group, None)  # a group is of one kind
        group = state.consumer.setdefault(key.group, ConsumerGroup())
        apply(group, key, consumer_records.read_value(key, value))
        if isinstance(key, consumer_records.EpochKey):
            group.epoch_since = timestamp


def _remove(state: GroupsState, key: OffsetKey) -> None:
    topics = state.offsets.get(key.group, {})
    partitions = topics.get(key.topic, {})
    partitions.pop(key.partition, None)
    if not partitions:
        topics.pop(key.topic, None)
    if not topics:
        state.offsets.pop(key.group, None)


# --- entries


def group_entry(now: int, group: str, stored: StoredGroup | None) -> Entry:
    """The group as it is now; None: it is gone."""
    return Entry(write_group_key(group), None if stored is None else write_group(stored), now)


def offset_entry(now: int, key: OffsetKey, committed: CommittedOffset | None) -> Entry:
    return Entry(write_offset_key(key), None if committed is None else write_offset(committed), now)


def offsets_gone(now: int, keys: Iterable[OffsetKey]) -> list[Entry]:
    return [offset_entry(now, key, None) for key in keys]


def group_gone(now: int, state: GroupsState, group: str) -> list[Entry]:
    """Everything of a group, as tombstones."""
    places = dict.fromkeys(key for key, _ in offsets_of(state, group)) | dict.fromkeys(state.pending.of_group(group))
    entries = offsets_gone(now, places)
    if group in state.groups:
        entries.append(group_entry(now, group, None))
    if group in state.consumer:
        entries += gone(Draft(group, now, state.consumer[group]))
    return entries


def offsets_of(state: GroupsState, group: str) -> list[tuple[OffsetKey, CommittedOffset]]:
    return [
        (OffsetKey(group, topic, partition), committed)
        for topic, partitions in state.offsets.get(group, {}).items()
        for partition, committed in partitions.items()
    ]
