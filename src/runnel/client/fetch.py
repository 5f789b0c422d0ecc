"""Reads a range of a partition's offsets as raw record batches, committed ones only.

    for fetched in Fetcher(cluster).read("orders", 0, start, end):
        decode(fetched.parts, fetched.start, fetched.end)

What comes are the bytes of the batches as they are in the log, compressed or not, checksums not looked at. No record is
touched here: whoever decodes them keeps the offsets from `start` to before `end`.

The next answer is asked for before the last one is handed out, so a broker works while its client decodes. Leaders that
move and connections that end are followed; if nothing moves on for the cluster's `timeout`, that is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from runnel.client import positions
from runnel.client.again import Again
from runnel.client.batches import Aborted, Seen, visible
from runnel.client.cluster import Cluster
from runnel.client.errors import Busy, OffsetsGone, Refused, TopicReplaced
from runnel.client.frames import LARGEST_ANSWER
from runnel.client.metadata import Leader, Place
from runnel.client.wire import Address, Sent, Wire
from runnel.errors import CorruptBatch
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api

FETCH_BYTES = 8 * 1024 * 1024
FIRST_BYTES = 1024 * 1024  # of the first answer at most, when nobody knows how large the records are
GUESSED_BYTES = 1024  # of a record
SPARE_BYTES = 64 * 1024
LONGEST_WAIT = 500  # milliseconds that a broker waits for records that are not there yet
READ_COMMITTED = 1


class FetchedBatches(NamedTuple):
    """All that is visible from offset `start` to before `end`: views of whole batches, which may reach beyond both."""

    parts: tuple[memoryview, ...]
    start: int
    end: int

    @property
    def size(self) -> int:
        return sum(len(part) for part in self.parts)


class Fetcher:
    def __init__(self, cluster: Cluster, *, fetch_bytes: int = FETCH_BYTES) -> None:
        self._cluster = cluster
        self._fetch_bytes = fetch_bytes

    def read(
        self, topic: str, partition: int, start: int, end: int, *, topic_id: UUID | None = None
    ) -> Iterator[FetchedBatches]:
        """The batches with offsets from `start` to before `end`, which is at most the end of what is committed.

        It ends when all of them were read, also where the last offsets have no records any more. OffsetsGone if records
        from `start` on were deleted; TopicReplaced if the topic is not the one with this id (the one it is at first).
        """
        reading = _Reading(self._cluster, (topic, partition), start, end, topic_id, self._fetch_bytes)
        try:
            yield from reading
        finally:
            reading.close()


class _Reading:
    """One range on its way, over a connection of its own."""

    def __init__(
        self, cluster: Cluster, place: Place, start: int, end: int, topic_id: UUID | None, fetch_bytes: int
    ) -> None:
        self._cluster = cluster
        self._place = place
        self._position = start
        self._end = end
        self._topic_id = topic_id
        self._most = fetch_bytes
        self._next_bytes = min(fetch_bytes, bytes_for(end - start))
        self._longest_wait = min(LONGEST_WAIT, round(cluster.timeout * 250))  # less than its answer may take
        self._wire: Wire | None = None
        self._at: Address = ("", 0)
        self._sent: Sent | None = None
        self._doing = f"reading {place[0]}-{place[1]} from offset {start:,}"

    def __iter__(self) -> Iterator[FetchedBatches]:
        while self._position < self._end:
            start = self._position
            seen = self._cluster.settled(self._attempt)
            self._position = min(seen.next_offset, self._end)
            if self._position < self._end:
                self._ask_ahead()
            if seen.parts:
                yield FetchedBatches(seen.parts, start, self._position)

    def close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is None:
            return
        if self._sent is None:
            self._cluster.give_back(self._at, wire)
        else:
            self._sent = None
            wire.close()

    # --- asking

    def _attempt(self) -> Seen:
        """The next batches; Again if there are none yet."""
        try:
            if self._sent is None:
                self._send()
            answer = self._receive()
        except BaseException:
            self._hang_up()
            raise
        return self._seen(self._checked(answer))

    def _ask_ahead(self) -> None:
        """What goes wrong here is met again when the answer is asked for."""
        try:
            self._send()
        except Exception:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = self._sent = None

    def _send(self) -> None:
        leader = self._leader()
        if self._wire is None or self._at != leader.node.address:
            self.close()
            self._wire, self._at = self._cluster.borrow(leader.node.address), leader.node.address
        self._sent = self._wire.send(Api.FETCH, self._request(leader), self._doing)

    def _receive(self) -> Message:
        assert self._wire is not None, "a request is under way"
        assert self._sent is not None, "a request is under way"
        answer = self._wire.receive(self._sent, self._doing)
        self._sent = None
        return answer

    def _leader(self) -> Leader:
        leader = self._cluster.leader(self._place)
        topic = self._cluster.topic(self._place[0])
        if self._topic_id is None:
            self._topic_id = topic.id
        if topic.id != self._topic_id:  # or what is remembered is of the one before
            topic = self._cluster.topic(self._place[0], fresh=True)
            leader = self._cluster.leader(self._place)
        if topic.id != self._topic_id:
            raise TopicReplaced(topic.name, str(self._topic_id), str(topic.id))
        return leader

    def _request(self, leader: Leader) -> Message:
        topic, number = self._place
        partition = partition_asked(number, leader.epoch, self._position, self._next_bytes)
        asked = [{"topic": topic, "topic_id": self._topic_id, "partitions": [partition]}]
        return fetch_request(asked, max_bytes=self._next_bytes, max_wait=self._longest_wait)

    # --- what came

    def _checked(self, answer: Message) -> Message:
        """The answer's part about the partition."""
        self._cluster.check(answer["error_code"], None, self._doing, topic=self._place[0])
        if not answer["responses"]:
            raise Again(Busy(self._doing, "the broker throttles this client"))
        told: Message = answer["responses"][0]["partitions"][0]
        if told["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
        self._cluster.check(told["error_code"], None, self._doing, topic=self._place[0])
        return told

    def _out_of_range(self) -> None:
        start = positions.earliest(self._cluster, [self._place])[self._place]
        end = positions.latest(self._cluster, [self._place])[self._place]
        if not start <= self._position <= end:
            raise OffsetsGone(*self._place, self._position, start, end)
        raise Again(Busy(self._doing, f"the broker does not know offset {self._position:,} yet"))

    def _seen(self, told: Message) -> Seen:
        records: memoryview = told["records"] or memoryview(b"")
        try:
            seen = seen_in(told, self._position, self._end)
        except CorruptBatch as error:
            raise Refused(self._doing, f"the answer of {self._at[0]}:{self._at[1]} has {error.what}") from None
        if seen.next_offset > self._position:
            self._guess_next(len(records), seen.next_offset)
            return seen
        if records:
            self._grow()
        # Nothing from here to the end of what is committed: compaction has taken the last offsets away. Or they are in
        # a remote tier that is slow: then Kafka's answer is the same.
        if told["last_stable_offset"] >= self._end:
            if self._position < positions.earliest_local(self._cluster, self._place):
                raise Again(Busy(self._doing, "its records are in a remote tier, which has not given them yet"))
            return Seen((), self._end)
        stable = f"{told['last_stable_offset']:,}"
        raise Again(
            Busy(self._doing, f"only what is before offset {stable} is committed, and {self._end:,} was asked for")
        )

    def _guess_next(self, size: int, next_offset: int) -> None:
        """Enough for the rest of the range, as far as its records are as large as those before."""
        rest = (self._end - next_offset) * size // (next_offset - self._position)
        self._next_bytes = min(self._most, rest + rest // 8 + SPARE_BYTES)

    def _grow(self) -> None:
        """A batch is larger than what was asked for, and the broker does not give it whole."""
        if self._next_bytes >= LARGEST_ANSWER // 2:
            raise Refused(self._doing, f"a batch of more than {self._next_bytes:,} bytes")
        self._next_bytes = min(LARGEST_ANSWER // 2, 4 * self._next_bytes)
        raise Again(Busy(self._doing, "a large batch"))


def fetch_request(topics: Sequence[Message], *, max_bytes: int, max_wait: int) -> Message:
    """For committed records; `max_wait` is in milliseconds."""
    return {
        "replica_id": -1,
        "max_wait": max_wait,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "isolation_level": READ_COMMITTED,
        "topics": topics,
        "forgotten_topics_data": (),
    }


def partition_asked(number: int, leader_epoch: int, offset: int, max_bytes: int) -> Message:
    return {
        "partition": number,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "partition_max_bytes": max_bytes,
    }


def bytes_for(records: int) -> int:
    """To be asked for at first, when nobody knows how large they are."""
    return min(FIRST_BYTES, records * GUESSED_BYTES + SPARE_BYTES)


def seen_in(told: Message, start: int, end: int) -> Seen:
    """What an answer's part about a partition shows of a range."""
    aborted = [Aborted(each["producer_id"], each["first_offset"]) for each in told["aborted_transactions"] or ()]
    return visible(told["records"] or memoryview(b""), aborted, start, end)
