"""What survives a restart: the committed offsets, and the members of each group as of its last generation.

Handlers read it and return entries; only `replay` changes it. Nothing here knows of time-outs or of who waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runnel.broker.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    read_group,
    read_key,
    read_offset,
    read_pairs,
    write_group,
    write_group_key,
    write_offset,
    write_offset_key,
    write_pairs,
)
from runnel.replay import Entry, JournaledState

Offsets = dict[str, dict[int, CommittedOffset]]  # by topic and partition


@dataclass(slots=True)
class GroupsState:
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    offsets: dict[str, Offsets] = field(default_factory=dict)  # by group; no part of it is empty

    def names(self) -> set[str]:
        return self.groups.keys() | self.offsets.keys()


DurableGroups = JournaledState[GroupsState]


def replay(state: GroupsState, entry: Entry) -> None:
    match read_key(entry.key or b""):
        case GroupKey(group):
            if entry.value is None:
                state.groups.pop(group, None)
            else:
                state.groups[group] = read_group(entry.value)
        case OffsetKey() as key:
            if entry.value is None:
                _remove(state, key)
            else:
                topics = state.offsets.setdefault(key.group, {})
                topics.setdefault(key.topic, {})[key.partition] = read_offset(entry.value)


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
    entries = offsets_gone(now, [key for key, _ in offsets_of(state, group)])
    if group in state.groups:
        entries.append(group_entry(now, group, None))
    return entries


def offsets_of(state: GroupsState, group: str) -> list[tuple[OffsetKey, CommittedOffset]]:
    return [
        (OffsetKey(group, topic, partition), committed)
        for topic, partitions in state.offsets.get(group, {}).items()
        for partition, committed in partitions.items()
    ]


# --- the snapshot: the records that would make the same state


def dump(state: GroupsState) -> bytes:
    pairs = [(write_group_key(group), write_group(stored)) for group, stored in state.groups.items()]
    for group in state.offsets:
        pairs += [(write_offset_key(key), write_offset(committed)) for key, committed in offsets_of(state, group)]
    return write_pairs(pairs)


def load(data: bytes) -> GroupsState:
    state = GroupsState()
    for key, value in read_pairs(data):
        replay(state, Entry(key, value, 0))
    return state
