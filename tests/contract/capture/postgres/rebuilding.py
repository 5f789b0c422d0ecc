"""Tables as their topics tell them: each event must fit what was told before.

Events come in the order of commits: by where their transaction was committed in the log, and by their number in it. So
one that is told twice, or too late, is noticed. What an event says was there before, was there. That holds from the
place on at which the topic is complete; before it, changes of rows may be told that were not read yet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tests.contract.capture.postgres.lives import Life
from tests.contract.capture.topics import Seen, check_transactions, committed

UNAVAILABLE = "__debezium_unavailable_value"


class RebuiltTable:
    """By key; or as so many of each row, where rows have no key. `is_whole`: events tell the row before, whole."""

    def __init__(self, complete_from: int, *, is_whole: bool = False) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.bag: Counter[str] = Counter()
        self._complete_from = complete_from
        self._is_whole = is_whole
        self._place = (0, 0)
        self._read: set[str] = set()
        self._moved: dict[str, dict[str, Any]] = {}

    def take(self, record: Seen) -> None:
        if record.value is None:
            assert record.key not in self.rows, f"a tombstone of {record.key}, which is there"
            return
        must_fit = self._follow(record)
        if record.op == "t":
            self.rows.clear()
            self.bag.clear()
            self._read.clear()  # what comes into it may be read again
        elif record.key is None:
            self._count(record.value)
        else:
            self._fold(record, record.key, must_fit=must_fit)

    def _follow(self, record: Seen) -> bool:
        """Whether the event must fit what is known."""
        if record.op == "r":
            assert record.key is None or record.key not in self._read, f"read twice: {record}"
            self._read.add(record.key or "")
            return False
        block = record.value["transaction"]
        committed = int(block["id"].partition(":")[2])
        place = (committed, block["total_order"])
        assert place > self._place, f"{record} comes after {self._place}"
        self._place = place
        return committed >= self._complete_from

    def _fold(self, record: Seen, key: str, *, must_fit: bool) -> None:
        before, after = record.value["before"], record.value["after"]
        held = self.rows.get(key)
        if must_fit:
            assert (held is None) == (record.op == "c"), f"{key} is {held}: {record}"
            if self._is_whole and before is not None:
                self._check_before(record, held or {}, before)
        if record.op == "d":
            self.rows.pop(key, None)
            if "__debezium.newkey" in record.headers and held is not None:
                self._moved[record.headers["__debezium.newkey"]] = held
            return
        if "__debezium.oldkey" in record.headers:
            held = self._moved.pop(key, None)
        self.rows[key] = {
            name: (held or {}).get(name, value) if value == UNAVAILABLE else value for name, value in after.items()
        }

    def _check_before(self, record: Seen, held: dict[str, Any], before: dict[str, Any]) -> None:
        known = {name: held.get(name) for name in before}  # a column that was added since is null
        assert known == before, f"{record.key} is {known}, and was told to be {before}"

    def _count(self, value: Any) -> None:
        for row, count in ((value["before"], -1), (value["after"], 1)):
            if row is not None:
                text = json.dumps(row, sort_keys=True)
                self.bag[text] += count
                assert self.bag[text] >= 0, f"{text} was not there"
        self.bag += Counter()  # without those of which there are none


def rebuilt(records: Iterable[Seen], complete_from: int, *, is_whole: bool = False) -> RebuiltTable:
    table = RebuiltTable(complete_from, is_whole=is_whole)
    for record in records:
        table.take(record)
    return table


def rebuilt_tables(life: Life, tables: Iterable[str], whole: Collection[str] = ()) -> dict[str, RebuiltTable]:
    """Those that are read; all transactions must have the right counts. The events of `whole` tell the row before."""
    topics = committed(life.bootstrap, f"{life.name}.")
    check_transactions(topics, life.name)
    state = life.state()
    assert state.is_complete
    found = {}
    for table in tables:
        since = state.tables[f"{life.schema}.{table}"].since
        assert since is not None
        records = topics.get(f"{life.name}.{life.schema}.{table}", [])
        found[table] = rebuilt(records, since["lsn"], is_whole=table in whole)
    return found


def shown(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """Rows by these columns, in an order of their own: a column that a row does not have is null in it."""
    return sorted(json.dumps([row.get(column) for column in columns]) for row in rows)
