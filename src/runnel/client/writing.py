"""Writes into a transaction that somebody else begins and ends, from any process that has its ticket.

    write(cluster, ticket, {("orders", 0): bodies(records)})

Each partition of a transaction has one writer. All partitions are written side by side, a batch of each at a time, and
the next ones are encoded while brokers store the last. A batch that was sent and not answered is sent again: its number
tells the broker whether it has it.

TransactionLost says that the transaction is to be aborted, Fenced that another one has taken over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from runnel.client.again import Again, words
from runnel.client.bodies import Body
from runnel.client.cluster import Cluster
from runnel.client.errors import Busy, Fenced, Overdue, TransactionLost
from runnel.client.metadata import Node, Place
from runnel.client.ticket import FENCED, LOST, Ticket
from runnel.client.wire import Sent, Wire
from runnel.errors import Permanent, RunnelError
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import SEQUENCES, TRANSACTIONAL, Codec, Producer, batch_around

REQUEST_BYTES = 4 * 1024 * 1024
ALL_REPLICAS = -1
ITS_OWN_TIME_OUT = 30_000  # a broker's, in milliseconds
WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class NotInTransaction(Permanent):
    def __init__(self, transactional_id: str, topic: str, partition: int) -> None:
        super().__init__(
            f'{topic}-{partition} is not part of the transaction of "{transactional_id}"',
            hint="name all partitions when the transaction begins",
        )


def write(
    cluster: Cluster,
    ticket: Ticket,
    contents: Mapping[Place, Iterable[Body]],
    *,
    codec: Codec = Codec.NONE,
    sequences: Mapping[Place, int] | None = None,
) -> dict[Place, int]:
    """Write all that the partitions are given; when it returns, every broker has it.

    The answer is the next sequence number of each partition, with which the same writer may go on in the same
    transaction.
    """
    for place in contents:
        if place not in ticket.places:
            raise NotInTransaction(ticket.transactional_id, *place)
    lanes = [
        _Lane(ticket, place, iter(given), codec, (sequences or {}).get(place, 0)) for place, given in contents.items()
    ]
    writing = _Writing(cluster, ticket, lanes)
    while writing.has_more:
        cluster.settled(writing.round)
    return {lane.place: lane.sequence for lane in lanes}


class _Lane:
    """The batches of one partition, in their order: the one that is under way, and the one behind it."""

    def __init__(self, ticket: Ticket, place: Place, given: Iterator[Body], codec: Codec, sequence: int) -> None:
        self.place = place
        self.sequence = sequence
        self._ticket = ticket
        self._given = given
        self._codec = codec
        self.batch: bytes | None = None
        self._count = 0
        self._ahead: tuple[bytes, int] | None = None
        self._prepare(sequence)
        self._take()

    def written(self) -> None:
        """What is under way has arrived."""
        self.sequence = (self.sequence + self._count) % SEQUENCES
        if self._ahead is None:
            self._prepare(self.sequence)
        self._take()

    def look_ahead(self) -> None:
        if self._ahead is None and self.batch is not None:
            self._prepare((self.sequence + self._count) % SEQUENCES)

    def _take(self) -> None:
        self.batch, self._count = self._ahead or (None, 0)
        self._ahead = None

    def _prepare(self, sequence: int) -> None:
        body = next(self._given, None)
        if body is not None:
            producer = Producer(self._ticket.producer_id, self._ticket.epoch, sequence)
            codec = self._codec if body.codec is Codec.NONE else Codec.NONE
            attributes = TRANSACTIONAL | body.codec
            batch = batch_around(body.data, body.contents, codec=codec, producer=producer, attributes=attributes)
            self._ahead = batch, body.contents.count


class _Writing:
    def __init__(self, cluster: Cluster, ticket: Ticket, lanes: list[_Lane]) -> None:
        self._cluster = cluster
        self._ticket = ticket
        self._lanes = {lane.place: lane for lane in lanes if lane.batch is not None}
        self._doing = f'writing in the transaction of "{ticket.transactional_id}"'

    @property
    def has_more(self) -> bool:
        return bool(self._lanes)

    def round(self) -> None:
        """Send a batch of each partition, as many as fit into a request to each broker, and take the answers.

        A broker that fails does not keep the answers of the others from being counted.
        """
        under_way: list[tuple[Node, Wire, Sent]] = []
        errors: list[RunnelError | Again] = []
        for node, lanes in self._by_leader().items():
            try:
                under_way.append((node, *self._send(node, lanes)))
            except RunnelError as error:
                errors.append(error)
        try:
            for lane in self._lanes.values():
                lane.look_ahead()
            while under_way:
                try:
                    errors += self._count(self._receive(*under_way.pop(0)))
                except RunnelError as error:
                    errors.append(error)
        finally:
            for _, wire, _ in under_way:  # what was to be sent next raised
                wire.close()
        if errors:
            raise min(errors, key=_urgency)

    def _by_leader(self) -> dict[Node, list[_Lane]]:
        led: dict[Node, list[_Lane]] = {}
        room: dict[Node, int] = {}
        for lane in self._lanes.values():
            assert lane.batch is not None, "a lane with nothing to send is taken away"
            node = self._cluster.leader(lane.place).node
            left = room.get(node, REQUEST_BYTES)
            if node not in led or len(lane.batch) <= left:
                led.setdefault(node, []).append(lane)
                room[node] = left - len(lane.batch)
        return led

    def _send(self, node: Node, lanes: list[_Lane]) -> tuple[Wire, Sent]:
        wire = self._cluster.borrow(node.address)
        try:
            most = self._ticket.generation.most(Api.PRODUCE)
            return wire, wire.send(Api.PRODUCE, self._request(lanes), self._doing, most=most)
        except BaseException:
            wire.close()
            raise

    def _receive(self, node: Node, wire: Wire, sent: Sent) -> Message:
        try:
            answer = wire.receive(sent, self._doing)
        except BaseException:
            wire.close()
            raise
        self._cluster.give_back(node.address, wire)
        return answer

    def _request(self, lanes: list[_Lane]) -> Message:
        topics: dict[str, list[Message]] = {}
        for lane in lanes:
            topics.setdefault(lane.place[0], []).append({"index": lane.place[1], "records": lane.batch})
        return {
            "transactional_id": self._ticket.transactional_id,
            "acks": ALL_REPLICAS,
            "timeout": ITS_OWN_TIME_OUT,
            "topic_data": [
                {"name": name, "topic_id": self._cluster.topic(name).id, "partition_data": partitions}
                for name, partitions in topics.items()
            ],
        }

    def _count(self, answer: Message) -> list[RunnelError | Again]:
        """Take what was written out of the way; the errors of the others."""
        errors = []
        names = self._names()
        for topic in answer["responses"]:
            name = topic["name"] or names.get(topic["topic_id"], "")
            for told in topic["partition_responses"]:
                lane = self._lanes.get((name, told["index"]))
                if lane is None:
                    continue
                if told["error_code"] not in WRITTEN:
                    errors.append(self._error(lane, told))
                    continue
                lane.written()
                if lane.batch is None:
                    del self._lanes[lane.place]
        return errors

    def _names(self) -> dict[UUID | None, str]:
        return {self._cluster.topic(name).id: name for name, _ in self._lanes}

    def _error(self, lane: _Lane, told: Message) -> RunnelError | Again:
        code, (topic, number) = told["error_code"], lane.place
        name = self._ticket.transactional_id
        if code in FENCED and time.time() > self._ticket.deadline:
            return Overdue(name, f"{topic}-{number}", "it is open for longer than its time-out")
        if code in FENCED:
            return Fenced(name)
        if code in LOST:
            return TransactionLost(name, f"{topic}-{number}", told["error_message"] or words(code))
        try:
            self._cluster.check(code, told["error_message"], f"writing to {topic}-{number}", topic=topic)
        except (RunnelError, Again) as error:
            return error
        return Again(Busy(self._doing, "no answer for a partition"))


def _urgency(error: RunnelError | Again) -> int:
    """What cannot be helped by trying again is told first."""
    if isinstance(error, Again):
        return 3
    if isinstance(error, Permanent):
        return 0
    return 1 if isinstance(error, TransactionLost) else 2
