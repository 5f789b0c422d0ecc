"""What a compaction knows of transactions while it goes through a log from the start.

All transactions in what may be cleaned have ended. The data of an aborted one can go at once. A marker stays as long
as data of its transaction was met, so it outlives the data by one round: whoever reads while the segments are swapped
finds with the old data the old marker.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from runnel.errors import InvalidBatch
from runnel.records import BatchHeader, parse_marker


class Transactions:
    def __init__(self, aborted: Iterable[tuple[int, int, int]]) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}  # first and last offset, by producer, in order
        for producer_id, first, last in sorted(aborted, key=lambda transaction: transaction[1]):
            self._aborted.setdefault(producer_id, []).append((first, last))
        self._with_data: set[tuple[int, int]] = set()  # producer and last offset of aborted ones whose data was met
        self._committed: set[int] = set()  # producers of whose committed transaction data was met

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this batch of data belongs to an aborted transaction."""
        return self._aborted_one(header) is not None

    def meet(self, header: BatchHeader) -> bool:
        """The next batch of data in the log; the answer is whether it was aborted."""
        if not header.is_transactional:
            return False
        last = self._aborted_one(header)
        if last is None:
            self._committed.add(header.producer_id)
            return False
        self._with_data.add((header.producer_id, last))
        return True

    def meet_marker(self, header: BatchHeader, batch: bytes) -> bool:
        """The next marker in the log; the answer is whether all data of its transaction is gone."""
        try:
            committed = parse_marker(batch).committed
        except InvalidBatch:  # a marker of another kind, of which nothing is known
            return header.count == 0
        if not committed:
            return (header.producer_id, header.base_offset) not in self._with_data
        met = header.producer_id in self._committed
        self._committed.discard(header.producer_id)
        return not met

    def keeps(self, producer_id: int, last_offset: int) -> bool:
        """Whether an aborted transaction still concerns somebody: its data was met in this round."""
        return (producer_id, last_offset) in self._with_data

    def _aborted_one(self, header: BatchHeader) -> int | None:
        """The last offset of the aborted transaction to which this batch belongs."""
        known = self._aborted.get(header.producer_id)
        if known is None or not header.is_transactional:
            return None
        number = bisect_right(known, header.base_offset, key=lambda transaction: transaction[0]) - 1
        return known[number][1] if number >= 0 and header.base_offset <= known[number][1] else None
