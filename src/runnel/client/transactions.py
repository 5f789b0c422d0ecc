"""The transactions of any Kafka: where they stand, what they hold back, and how to end one.

A transaction is known in two places: its coordinator knows the transactional id, its state and its partitions; each
partition knows the producers that write to it, and where their open transactions begin. Readers of committed records
stop at the first of these.

A transaction hangs if a partition has it open and no coordinator will ever end it there. That is known for sure: a
coordinator lists a partition before its first record is written and until its marker is. So what was open before and
after the coordinator was asked, and was not listed in between, hangs.

librdkafka offers none of this, so it is asked over wires of our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from runnel.client.admin import Admin, TopicAndPartition
from runnel.client.brokers import Brokers
from runnel.client.errors import NotHanging, NothingOpen, UnknownTransaction
from runnel.client.texts import is_text
from runnel.client.wire import Wire
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api

Item = TypeVar("Item")

NONE = -1
ITEMS_OF_A_REQUEST = 500


class State(Enum):
    """By Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


WORDS: dict[str, str] = {state.value: state.word for state in State}
OPEN = (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)


class Transaction(NamedTuple):
    """A transactional id as its coordinator knows it. Times are in milliseconds; `started` only while it is open.

    `partitions` are those that have records of it and no end yet.
    """

    id: str
    state: str
    producer_id: int
    epoch: int
    timeout: int
    started: int | None
    partitions: tuple[TopicAndPartition, ...]

    @property
    def is_open(self) -> bool:
        return self.state in (state.word for state in OPEN)


class ProducerState(NamedTuple):
    """A producer as a partition knows it. `first_offset` is where its open transaction begins, if it has one."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    first_offset: int | None


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition, with what a coordinator knows of it."""

    producer: ProducerState
    known: Transaction | None

    @property
    def place(self) -> TopicAndPartition:
        return self.producer.topic, self.producer.partition

    @property
    def first_offset(self) -> int:
        return NONE if self.producer.first_offset is None else self.producer.first_offset

    @property
    def is_listed(self) -> bool:
        """Whether a coordinator will end it here."""
        return self.known is not None and self.place in self.known.partitions

    @property
    def since(self) -> int | None:
        """When it began; of one that its coordinator does not list nobody knows it."""
        return self.known.started if self.known is not None and self.is_listed else None


class Transactions:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    # --- what coordinators know

    def list(self, states: Iterable[State] = ()) -> Sequence[Transaction]:
        """All transactional ids, or those in some states, by name."""
        with Brokers(self._admin, "listing the transactions") as brokers:
            return brokers.settled(lambda: _all(brokers, states=[state.value for state in states]))

    def describe(self, transactional_id: str) -> Transaction:
        _require_text(transactional_id)
        with Brokers(self._admin, f'describing transaction "{transactional_id}"') as brokers:
            return brokers.settled(lambda: _described(brokers, transactional_id))

    # --- what partitions know

    def producers(self, places: Iterable[TopicAndPartition]) -> Sequence[ProducerState]:
        """The producers that the partitions remember."""
        with Brokers(self._admin, "describing the producers") as brokers:
            return brokers.settled(lambda: _producers(brokers, places))

    def open_in(self, places: Iterable[TopicAndPartition]) -> Sequence[OpenTransaction]:
        """The transactions that are open in these partitions, the first of each partition first."""
        with Brokers(self._admin, "describing the open transactions") as brokers:
            return brokers.settled(lambda: _open_in(brokers, places))

    def hanging(self, places: Iterable[TopicAndPartition]) -> Sequence[OpenTransaction]:
        """Those of them that hang."""
        with Brokers(self._admin, "looking for hanging transactions") as brokers:
            return brokers.settled(lambda: _hanging(brokers, places))

    # --- ending

    def abort(self, transactional_id: str) -> Transaction:
        """Abort what is open, everywhere, by initialising a producer of the same id: the one at work is fenced.

        The answer is the transaction as it was.
        """
        _require_text(transactional_id)
        with Brokers(self._admin, f'aborting transaction "{transactional_id}"') as brokers:
            before = brokers.settled(lambda: _described(brokers, transactional_id))
            if before.state != State.ONGOING.word:
                raise NothingOpen(
                    f'"{transactional_id}" has no open transaction that can be aborted: its state is {before.state}',
                    hint="what is being committed or aborted already ends by itself; nothing else has to be ended",
                )
            brokers.settled(lambda: _fence(brokers, before))
            return before

    def abort_hanging(
        self, topic: str, partition: int, *, first_offset: int | None = None, producer_id: int | None = None
    ) -> OpenTransaction:
        """Write the marker that ends a hanging transaction in one partition: by where it begins, or by its producer.

        One that a coordinator lists is refused: it would be aborted here and might be committed elsewhere.
        """
        with Brokers(self._admin, f"aborting a transaction in {topic}-{partition}") as brokers:
            found = brokers.settled(lambda: _open_in(brokers, [(topic, partition)]))
            wanted = [
                each
                for each in found
                if first_offset in (None, each.first_offset) and producer_id in (None, each.producer.producer_id)
            ]
            if len(wanted) != 1:
                raise _none_such(topic, partition, first_offset, producer_id)
            (each,) = wanted
            if each.known is not None and each.is_listed:
                raise NotHanging(each.producer.producer_id, each.known.id)
            if not _still_open(brokers.settled(lambda: _producers(brokers, [each.place])), each):
                raise _none_such(topic, partition, first_offset, producer_id)
            brokers.settled(lambda: _mark(brokers, each.producer))
            return each


def _require_text(transactional_id: str) -> None:
    if not is_text(transactional_id):
        raise UnknownTransaction(transactional_id)


def _none_such(topic: str, partition: int, first_offset: int | None, producer_id: int | None) -> NothingOpen:
    which = f"begins at offset {first_offset}" if first_offset is not None else f"is of producer {producer_id}"
    return NothingOpen(
        f"{topic}-{partition} has no open transaction that {which}",
        hint="`runnel transactions producers TOPIC` shows those that are open",
    )


# --- coordinators


def _all(brokers: Brokers, *, states: Sequence[str] = (), producers: Sequence[int] = ()) -> list[Transaction]:
    filters = {"state_filters": states, "producer_id_filters": producers}
    found: list[Transaction] = []
    for wire in brokers.all():
        answer = wire.ask(Api.LIST_TRANSACTIONS, filters, brokers.doing)
        brokers.check(answer)
        names = [each["transactional_id"] for each in answer["transaction_states"]]
        found += _described_at(brokers, wire, names)
    return sorted(found)


def _described(brokers: Brokers, name: str) -> Transaction:
    found = _described_at(brokers, brokers.coordinator(name), [name])
    if not found:
        raise UnknownTransaction(name)
    return found[0]


def _described_at(brokers: Brokers, wire: Wire, names: Sequence[str]) -> list[Transaction]:
    """Those of them that are there."""
    found = []
    for part in _parts(names):
        answer = wire.ask(Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": part}, brokers.doing)
        for told in answer["transaction_states"]:
            if told["error_code"] != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                brokers.check(told)
                found.append(_transaction(told))
    return found


def _transaction(told: Message) -> Transaction:
    state: str = told["transaction_state"]
    known = Transaction(
        told["transactional_id"],
        WORDS.get(state, state),
        told["producer_id"],
        told["producer_epoch"],
        told["transaction_timeout"],
        told["transaction_start_time"] if told["transaction_start_time"] >= 0 else None,
        tuple(sorted((topic["topic"], number) for topic in told["topics"] for number in topic["partitions"])),
    )
    return known if known.is_open else known._replace(started=None)  # a broker may still tell that of the last one


def _fence(brokers: Brokers, known: Transaction) -> None:
    # With the same time-out, because it is kept for the id.
    asked = {"transactional_id": known.id, "transaction_timeout": known.timeout}
    brokers.check(brokers.coordinator(known.id).ask(Api.INIT_PRODUCER_ID, asked, brokers.doing))


# --- partitions


def _producers(brokers: Brokers, places: Iterable[TopicAndPartition]) -> list[ProducerState]:
    found = []
    for wire, own in brokers.by_leader(places):
        for part in _parts(own):
            answer = wire.ask(Api.DESCRIBE_PRODUCERS, {"topics": by_topic(part)}, brokers.doing)
            for topic in answer["topics"]:
                for told in topic["partitions"]:
                    brokers.check(told, topic=topic["name"])
                    place = topic["name"], told["partition_index"]
                    found += [_producer(place, each) for each in told["active_producers"]]
    return sorted(found, key=lambda each: each[:3])


def by_topic(places: Iterable[TopicAndPartition]) -> list[Message]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return [{"name": topic, "partition_indexes": numbers} for topic, numbers in topics.items()]


def _producer(place: TopicAndPartition, told: Message) -> ProducerState:
    first_offset = told["current_txn_start_offset"]
    return ProducerState(
        *place,
        told["producer_id"],
        told["producer_epoch"],
        told["last_sequence"],
        told["last_timestamp"],
        told["coordinator_epoch"],
        first_offset if first_offset >= 0 else None,
    )


def _open_in(brokers: Brokers, places: Iterable[TopicAndPartition]) -> list[OpenTransaction]:
    writing = [each for each in _producers(brokers, places) if each.first_offset is not None]
    ids = sorted({each.producer_id for each in writing})
    known = {each.producer_id: each for each in _all(brokers, producers=ids)} if ids else {}
    found = [OpenTransaction(each, known.get(each.producer_id)) for each in writing]
    return sorted(found, key=lambda each: (each.place, each.first_offset))


def _hanging(brokers: Brokers, places: Iterable[TopicAndPartition]) -> list[OpenTransaction]:
    unlisted = [each for each in _open_in(brokers, places) if not each.is_listed]
    again = _producers(brokers, {each.place for each in unlisted})
    return [each for each in unlisted if _still_open(again, each)]


def _still_open(producers: Iterable[ProducerState], found: OpenTransaction) -> bool:
    return any(
        (each.topic, each.partition) == found.place
        and (each.producer_id, each.first_offset) == (found.producer.producer_id, found.first_offset)
        for each in producers
    )


def _mark(brokers: Brokers, producer: ProducerState) -> None:
    place = producer.topic, producer.partition
    ((wire, _),) = brokers.by_leader([place])
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "topics": by_topic([place]),
        "coordinator_epoch": max(0, producer.coordinator_epoch),  # no coordinator has ever ended one of it: the first
    }
    answer = wire.ask(Api.WRITE_TXN_MARKERS, {"markers": [marker]}, brokers.doing)
    for told in answer["markers"][0]["topics"][0]["partitions"]:
        brokers.check(told, topic=producer.topic)


def _parts(items: Sequence[Item]) -> list[Sequence[Item]]:
    """A request about very many would keep its broker from the others."""
    return [items[start : start + ITEMS_OF_A_REQUEST] for start in range(0, len(items), ITEMS_OF_A_REQUEST)]
