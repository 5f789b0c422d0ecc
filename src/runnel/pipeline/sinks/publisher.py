"""One transaction for each batch: what the body made, what was put aside, and the mark that the batch is done.

A reader of committed records sees all of it or nothing. Opening a publisher fences the one before it: a second copy of
the app, or a driver that was thought dead, stops at its next transaction. Nothing is written twice: the mark says which
batch was the last.

A topic that takes only smaller batches than those that are made is asked what it takes when it has refused one, and
they are made anew: small batches wait for no question. A large one, which tasks write, is not made twice: its topics
are asked before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.client.bodies import BATCH_BYTES, Body, bodies
from runnel.client.cluster import Cluster
from runnel.client.column_bodies import column_bodies
from runnel.client.errors import EndUnknown, RecordTooLarge, TransactionLost
from runnel.client.limits import Limits
from runnel.client.metadata import Place
from runnel.client.partitioning import partitions_of
from runnel.client.ticket import Ticket
from runnel.client.transaction import Transaction
from runnel.client.writing import write
from runnel.durable import durable
from runnel.errors import Permanent, RunnelError
from runnel.pipeline.markers import Marker, read_marker
from runnel.pipeline.source import aside
from runnel.records import Codec, Record

logger = logging.getLogger(__name__)

TRIES = 5
LONGEST = 600.0  # seconds that a transaction may be open: the tasks of a large batch run inside of it
BLOCK = 16_384  # records without a key that go to one partition before the next
SIDE = 0  # what is put aside has one partition


class Publisher:
    """`marks` is the topic of the markers, `late` the one for this query's late rows."""

    def __init__(self, cluster: Cluster, query: str, *, name: str, marks: str, late: str) -> None:
        self._cluster = cluster
        self._query = query
        self._marks = marks
        self._late = late
        self._transaction = Transaction(cluster, name, timeout=LONGEST)
        self._limits = Limits(cluster)
        self.marker: Marker | None = None

    def open(self) -> None:
        """Fence whoever was here before, and read how far it came."""
        with durable("publish.open"):
            self._transaction.init()
        self.marker = read_marker(self._cluster, self._marks, self._query)

    def publish(self, marker: Marker, contents: dict[Place, pa.Table], put_aside: pa.Table) -> None:
        """All of it in one transaction; `contents` are columns key, value, headers, timestamp by partition."""
        for attempt in range(TRIES):
            try:
                ticket = self.begin([*contents, *self.sides(put_aside)])
                given = {place: bodies_of(table, self.batch_bytes(place[0])) for place, table in contents.items()}
                last = self._last(marker, put_aside)
                assert not given.keys() & last.keys(), "a partition has one writer"
                with durable("publish.write"):
                    write(self._cluster, ticket, {**given, **last}, codec=Codec.ZSTD)
                self._end(marker)
            except (TransactionLost, EndUnknown):
                self.open()
                if self.marker == marker:
                    return
                if attempt == TRIES - 1:
                    raise
            except RecordTooLarge as error:
                self.open()  # others do not wait for what is open until its time-out
                self._limits.refused(error)
                if attempt == TRIES - 1:
                    raise
            else:
                return

    def look_up(self, topics: Iterable[str]) -> None:
        """Learn how large batches they take, where that is told."""
        for topic in topics:
            with suppress(Permanent):
                self._limits.fresh(topic)

    def batch_bytes(self, topic: str) -> int:
        """How large batches for it may become, as far as known."""
        return self._limits.batch_bytes(topic)

    def begin(self, places: Iterable[Place]) -> Ticket:
        with durable("publish.begin"):
            return self._transaction.begin({*places, (self._marks, SIDE)})

    def commit(self, ticket: Ticket, marker: Marker, put_aside: pa.Table) -> None:
        """The last writes, and the end. To be called when every other writer is done."""
        write(self._cluster, ticket, self._last(marker, put_aside), codec=Codec.ZSTD)
        self._end(marker)

    def abort_quietly(self) -> None:
        """Nothing of it will be seen. What cannot be aborted now is, when the next one begins."""
        try:
            self._transaction.abort()
        except RunnelError as error:
            logger.debug("%s: a transaction could not be aborted: %s", self._query, error)

    def sides(self, put_aside: pa.Table) -> set[Place]:
        return {self._side(row) for row in put_aside.select(["kind", "stream"]).to_pylist()}

    def _side(self, row: dict[str, Any]) -> Place:
        return (self._late if row["kind"] == aside.LATE else rejected(row["stream"])), SIDE

    def _end(self, marker: Marker) -> None:
        with durable("publish.commit"):
            self._transaction.commit()
        self.marker = marker

    def _last(self, marker: Marker, put_aside: pa.Table) -> dict[Place, Iterable[Body]]:
        mark = Record(marker.to_bytes(), key=self._query.encode())
        records: dict[Place, list[Record]] = {(self._marks, SIDE): [mark]}
        for row in put_aside.to_pylist():
            records.setdefault(self._side(row), []).append(self._put_aside(row))
        return {place: bodies(given, batch_bytes=self.batch_bytes(place[0])) for place, given in records.items()}

    def _put_aside(self, row: dict[str, Any]) -> Record:
        """As it came, with its origin, and why it is here, among the headers."""
        why = ("runnel.watermark", row["reason"]) if row["kind"] == aside.LATE else ("runnel.reason", row["reason"])
        origin = (
            ("runnel.query", self._query),
            ("runnel.topic", row["topic"]),
            ("runnel.partition", str(row["partition"])),
            ("runnel.offset", str(row["offset"])),
            ("runnel.timestamp", str(row["timestamp"])),
            why,
        )
        own = [(header["key"], header["value"]) for header in row["headers"] or ()]
        headers = (*own, *((name, text.encode()) for name, text in origin))
        return Record(row["value"], key=row["key"], headers=headers)  # of now: an old one could be retained no longer


def rejected(stream: str) -> str:
    """The topic of its rejected rows."""
    return f"{stream}.rejected"


def shared_out(table: pa.Table, topic: str, count: int, batch: int) -> dict[Place, pa.Table]:
    """Records to partitions: by their key; those without one in blocks, another partition first for each batch."""
    if not table.num_rows:
        return {}
    keys = pc.cast(table["key"], pa.binary()).combine_chunks()
    keys = keys if isinstance(keys, pa.Array) else pa.concat_arrays(keys.chunks)
    chosen = partitions_of(keys, count)
    spread = (np.arange(table.num_rows) // BLOCK + batch) % count
    chosen = np.where(chosen < 0, spread, chosen)
    return {
        (topic, int(partition)): table.take(pa.array(np.flatnonzero(chosen == partition)))
        for partition in np.unique(chosen)
    }


def bodies_of(table: pa.Table, batch_bytes: int = BATCH_BYTES) -> Iterator[Body]:
    whole = table.combine_chunks()
    headers = _column(whole, "headers")
    return column_bodies(
        _column(whole, "value"),
        _column(whole, "key"),
        _column(whole, "timestamp"),
        None if headers.null_count == len(headers) else headers,
        batch_bytes=batch_bytes,
    )


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
