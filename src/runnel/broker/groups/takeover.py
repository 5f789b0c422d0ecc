"""A data directory that a version without compaction has written: its groups' log was trimmed, beside a snapshot.

What the snapshot holds is written to the log once more, and the snapshot is emptied. From then on the log is all there
is, and can be compacted: a tombstone in it must not go while a snapshot still knows the key.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from runnel.broker.groups.records import read_pairs, write_group, write_group_key, write_offset, write_offset_key
from runnel.broker.groups.state import DurableGroups, GroupsState, offsets_of, replay
from runnel.files import Files
from runnel.log import Log
from runnel.log.journal import PartitionJournal
from runnel.replay import Decision, Entry, SnapshotFile

FILE_NAME = "consumer-offsets.snapshot"
ENTRIES_AT_ONCE = 1_000

logger = logging.getLogger(__name__)


def old_snapshot(directory: str, files: Files) -> SnapshotFile[GroupsState] | None:
    path = os.path.join(directory, FILE_NAME)
    return SnapshotFile(path, lambda _: b"", _load, files) if files.exists(path) else None


def take_over(
    log: Log, durable: DurableGroups, journal: PartitionJournal, snapshot: SnapshotFile[GroupsState], now: int
) -> None:
    """A crash in between does no harm: it is done again."""
    found = snapshot.read()
    if found is None or not found[0].names():
        return
    entries = durable.read(lambda state: _entries(state, now))
    for first in range(0, len(entries), ENTRIES_AT_ONCE):
        written = durable.submit(_written(entries[first : first + ENTRIES_AT_ONCE]))
        log.commit()
        written.result()
    snapshot.write(GroupsState(), journal.start_offset)
    logger.info("%s was taken over into %s: %d entries", snapshot, journal, len(entries))


def _written(entries: list[Entry]) -> Callable[[GroupsState], Decision[None]]:
    return lambda _: Decision(None, entries)


def _load(data: bytes) -> GroupsState:
    state = GroupsState()
    for key, value in read_pairs(data):
        replay(state, Entry(key, value, 0))
    return state


def _entries(state: GroupsState, now: int) -> list[Entry]:
    """Those versions knew classic groups and offsets, and nothing else."""
    entries = [Entry(write_group_key(name), write_group(stored), now) for name, stored in state.groups.items()]
    for name in state.offsets:
        entries += [Entry(write_offset_key(key), write_offset(value), now) for key, value in offsets_of(state, name)]
    return entries
