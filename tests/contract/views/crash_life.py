"""A life of a view, as an app lives it: claim, apply, grow by a column, apply, trim. It goes on where it was cut off.

`live` is what a process does that may be killed at any durable step (see runnel.durable); `expected` is what a store
may look like after k batches, whatever happened in between.
"""

from __future__ import annotations

import os
from multiprocessing import get_context
from typing import Any

import pyarrow as pa

from runnel.durable import VARIABLE
from runnel.views.opening import open_store
from runnel.views.store import Declared, Keep, Store
from tests.contract.views.clicks import CLICKS, SCHEMA, claimed, marker, seen

WIDE = Declared("clicks", ("page",), SCHEMA.append(pa.field("city", pa.string())))
KEEP = Keep(rows=4)
NARROW_BATCHES = [
    seen(("a", 1), ("b", 1), ("c", 1)),
    seen(("a", 2), ("b", None), changes=["update_after", "delete"]),
]
WIDE_BATCHES = [
    seen(("a", 3), ("d", 1)).append_column("city", pa.array(["Graz", None], pa.string())),
    seen(("d", 2)).append_column("city", pa.array(["Wien"], pa.string())),
]
BATCHES = len(NARROW_BATCHES) + len(WIDE_BATCHES)
STATES: list[dict[str, Any]] = [
    {},
    {"a": (1, None), "b": (1, None), "c": (1, None)},
    {"a": (2, None), "c": (1, None)},
    {"a": (3, "Graz"), "c": (1, None), "d": (1, None)},
    {"a": (3, "Graz"), "c": (1, None), "d": (2, "Wien")},
]
POSITIONS = [0, 3, 5, 7, 8]

processes = get_context("forkserver")
processes.set_forkserver_preload(["runnel.views.sqlite", "runnel.views.postgres", __name__])


def live(address: str, die_at: str) -> None:
    os.environ[VARIABLE] = die_at
    store = open_store(address, keep=KEEP)
    if not is_wide(store):
        keep_up(store, CLICKS, NARROW_BATCHES, first=0)
    keep_up(store, WIDE, WIDE_BATCHES, first=len(NARROW_BATCHES))


def lived(address: str, die_at: str = "") -> int | None:
    """Live in a process of its own; its exit code."""
    process = processes.Process(target=live, args=(address, die_at))
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    return code


def is_wide(store: Store) -> bool:
    if "clicks" not in store.names():
        return False
    with store.reader("clicks") as reader:
        return "city" in reader.schema().names


def keep_up(store: Store, declared: Declared, batches: list[pa.Table], first: int) -> None:
    with claimed(store, declared) as writer:
        done = writer.marker()
        for number, rows in enumerate(batches, start=first):
            if done is None or number > done.batch:
                writer.apply(rows, marker(number, at=number))
        writer.trim()
