"""Which rows of a batch of changes have an effect, and which of them remove their key.

`insert` and `update_after` put their row under its key, `delete` removes the key, in the order of the rows. An
`update_before` takes its row back: it removes the key if nothing else in the batch speaks of it later. So a row that
changes its key leaves the old one, and a row that is updated under its key is never gone.

A body that shuffles may tear the two rows of an update apart and turn their order round. So a row that is put under a
key, and an `update_before` that takes an equal one back, undo each other, whichever comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.views.changes import CHANGE, DELETE, UPDATE_BEFORE

PLACE = "_runnel_place"
REMOVING = pa.array([DELETE, UPDATE_BEFORE])


class Effect(NamedTuple):
    """A row of one key: its place in the batch, what kind of change it is, and a text of all that it says."""

    place: int
    kind: str
    content: str


def effective(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """The places of the rows that count, in their order. `_change` says what each is."""
    befores = np.asarray(pc.equal(rows[CHANGE], UPDATE_BEFORE))
    counts = ~befores
    if befores.any():
        numbers, keys = numbered(rows, key)
        keys = keys.append_column(PLACE, pa.array(np.arange(rows.num_rows)))
        grouped = keys.group_by(numbers).aggregate([(PLACE, "max"), (PLACE, "list")])
        last = grouped[f"{PLACE}_max"].to_numpy()
        taken_back = np.flatnonzero(befores[last])
        counts[last[taken_back]] = True
        lists = grouped[f"{PLACE}_list"].take(pa.array(taken_back)).to_pylist()
        doubtful = [sorted(places) for places in lists if len(places) > 1]
        counts[[place for places in doubtful for place in places]] = False
        counts[_left_over(rows, doubtful)] = True
    return pa.array(np.flatnonzero(counts))


def numbered(rows: pa.Table, key: Sequence[str]) -> tuple[list[str], pa.Table]:
    """The columns of the key, under numbers: to Arrow, a name with a dot at its beginning is a path."""
    numbers = [str(number) for number in range(len(key))]
    return numbers, rows.select(key).rename_columns(numbers)


def removing(rows: pa.Table) -> pa.ChunkedArray:
    """Which of the rows that count remove their key."""
    return pc.is_in(rows[CHANGE], REMOVING)


def left_over(effects: Sequence[Effect]) -> list[int]:
    """Of the rows of one key, those that no other one undoes."""
    taken = Counter(each.content for each in effects if each.kind == UPDATE_BEFORE)
    put = Counter(each.content for each in effects if each.kind not in (UPDATE_BEFORE, DELETE))
    undone = {True: taken & put, False: taken & put}  # those that take back, and those that put
    left: list[Effect] = []
    for each in effects:
        pairs = undone[each.kind == UPDATE_BEFORE]
        if each.kind != DELETE and pairs[each.content]:
            pairs[each.content] -= 1
        else:
            left.append(each)
    others = [each.place for each in left if each.kind != UPDATE_BEFORE]
    return others or [each.place for each in left[-1:]]


def _left_over(rows: pa.Table, groups: list[list[int]]) -> list[int]:
    """Of several keys: they are few, so each is looked at by itself."""
    places = [place for group in groups for place in group]
    kinds = rows[CHANGE].take(pa.array(places, pa.int64())).to_pylist()
    contents = map(repr, rows.drop_columns(CHANGE).take(pa.array(places, pa.int64())).to_pylist())
    found = {place: Effect(place, *each) for place, *each in zip(places, kinds, contents, strict=True)}
    return [place for group in groups for place in left_over([found[place] for place in group])]
