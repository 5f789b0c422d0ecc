"""One transaction, many writers: the side that begins and ends it.

    transaction = Transaction(cluster, "shop.orders")
    transaction.init()                                   # fences whoever used the id before
    ticket = transaction.begin([("orders", 0), ("orders", 1)])
    ...                                                  # writers anywhere: write(cluster, ticket, ...)
    transaction.commit()                                 # when all of them are done

A transaction belongs to a producer id and an epoch, not to a connection. Every transaction here has an epoch of its
own, so a writer that was left behind by an earlier one is refused. Where the cluster's transactions are of the second
generation, the end of each gives the next epoch; where they are of the first, it is asked for when one begins.

Where they are of the second generation, a partition joins with the first batch that is written to it. So a transaction
need not be announced to its coordinator (`announce=False`), which saves a question for each. It is for one whose writer
is near: the cluster does not know that it is open before something was written, and then `joined` is to be called. One
that follows another one at once is announced all the same, unless the cluster is Runnel's. Both answer an end before
its markers are written. Kafka lets a batch that comes meanwhile wait for 20 ms, where one who announces is told at
once; Runnel lets either wait until the markers are there, and no longer.

Commit only when no writer is at work any more: Kafka refuses them from the moment that a partition has the marker of
the end, which is a little later than the end.

After an error other than Fenced, `init` ends what is open and makes the next `begin` possible. To be fenced is final:
another one has initialised the same id since, and this one must stop.

A transaction that is open for longer than its time-out is aborted by the cluster, which fences its producer as if
another one had come. Where it is sure that none has, that is Overdue, and not Fenced: the id stays with this one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

from runnel.client.again import words
from runnel.client.cluster import Cluster
from runnel.client.errors import (
    EndUnknown,
    Fenced,
    NothingOpen,
    Overdue,
    Refused,
    TimedOut,
    TransactionLost,
    Unreachable,
)
from runnel.client.metadata import Node, Place
from runnel.client.ticket import FENCED, LOST, Generation, Ticket
from runnel.client.wire import SOFTWARE
from runnel.errors import Permanent, Transient
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.own import OwnApi
from runnel.protocol.versions import Api

Answer = TypeVar("Answer")

NO_ID = NO_EPOCH = -1
FEATURE = "transaction.version"
OWN_EPOCH_SINCE = 3  # the version of InitProducerId to which a producer can bring its id and epoch
FOR_CLIENTS = 3  # the newest version of AddPartitionsToTxn that is not for brokers alone
ABORTED = frozenset({"PrepareAbort", "CompleteAbort"})  # states, by Kafka's names
JOINS_SINCE = 12  # the version of Produce that adds its partitions by itself
MARKED_SECONDS = 0.02  # after which an end that was answered is taken to have its markers
UNSURE = 1  # epoch further, where it is not known whether the coordinator has the transaction open
LAST_EPOCH = 2**15 - 2  # that a client may have
# Where there is one, a clock that goes on while the machine sleeps.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
MOVED_COORDINATOR = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Transaction:
    def __init__(self, cluster: Cluster, transactional_id: str, *, timeout: float = 60.0) -> None:
        """`timeout` is how long a transaction may be open before the cluster aborts it, in seconds."""
        self.id = transactional_id
        self.timeout = timeout
        self._cluster = cluster
        self._coordinator: Node | None = None
        self._generation = Generation.FIRST
        self._producer_id = NO_ID
        self._epoch = NO_EPOCH
        self._is_used = False  # whether a transaction was begun with this epoch
        self._is_open = False
        self._is_announced = False
        self._may_follow_at_once = False  # whether a batch waits inside the cluster for the markers of the last end
        self._takes_joins = False  # whether a partition joins by what is written to it
        self._ended = -math.inf
        self._further = 0  # epochs that its time-out alone may take it further; 0: it cannot be told from a successor
        self._began = 0.0

    @property
    def generation(self) -> Generation:
        return self._generation

    def init(self) -> None:
        """Take the transactional id over: what another one has open under it is aborted, and it is fenced.

        Again later, it is for this producer alone: what it has open is aborted, and it gets a new epoch; Fenced if
        another one has taken over in between.
        """
        if self._producer_id == NO_ID:
            self._initialise()
        else:
            self._next_epoch()

    def begin(self, places: Iterable[Place], *, announce: bool = True) -> Ticket:
        """Open a transaction for these partitions; the ticket is for their writers.

        One that is not announced, where that can be, is open for its cluster from its first batch on. If there is none,
        it cannot be committed: TransactionLost.
        """
        if self._producer_id == NO_ID:
            self._initialise()
        if self._is_used:
            self.init()
        wanted = frozenset(places)
        self._is_used = self._is_open = True
        self._further = 0
        self._began = _now()
        deadline = time.time() + self.timeout
        self._is_announced = announce or not self._can_join_by_writing
        self._join(wanted, f'beginning a transaction of "{self.id}"')
        if wanted:
            self._further = self._most_further if self._is_announced else UNSURE
        return Ticket(self.id, self._producer_id, self._epoch, self._generation, wanted, deadline)

    def widen(self, ticket: Ticket, places: Iterable[Place]) -> Ticket:
        """More partitions for the transaction that is open; the ticket for those who write to them."""
        self._refuse_unless_open("widen")
        wanted = frozenset(places)
        self._join(wanted, f'adding partitions to the transaction of "{self.id}"')
        return ticket._replace(places=ticket.places | wanted)

    def joined(self) -> None:
        """Something was written into the transaction that is open: its coordinator knows of it now."""
        self._refuse_unless_open("write to")
        self._further = self._most_further

    def commit(self) -> None:
        """Make all that was written visible, at once. To be called when every writer is done.

        TransactionLost if it cannot be committed, and nothing was; EndUnknown if nobody can tell.
        """
        self._refuse_unless_open("commit")
        self._end(committed=True)

    def abort(self) -> None:
        """Nothing of what was written will be seen."""
        self._refuse_unless_open("abort")
        self._end(committed=False)

    # --- inside

    def _refuse_unless_open(self, what: str) -> None:
        if not self._is_open:
            raise NothingOpen(f'"{self.id}" has no open transaction to {what}', hint="begin one first")

    def _initialise(self) -> None:
        doing = f'initialising "{self.id}"'
        self._generation = self._settled(lambda: self._find_generation(doing))
        self._settled(lambda: self._look_at_coordinator(doing))
        self._settled(lambda: self._ask_epoch(NO_ID, NO_EPOCH, doing))

    def _next_epoch(self) -> None:
        """For this producer, if no other one has taken over.

        An end is asked for first, whether anything is open or not: to one that is fenced, Kafka answers so. To
        InitProducerId it does so, too, but aborts what the newer one has open, which is fenced by that.
        """
        doing = f'initialising "{self.id}" again'
        try:
            self._end(committed=False)
        except TransactionLost:
            self._is_open = False  # there was nothing, or it was committed after all
        if self._is_used:
            own = self._producer_id, self._epoch
            self._settled(lambda: self._ask_epoch(*own, doing))

    def _ask_epoch(self, producer_id: int, epoch: int, doing: str) -> None:
        asked = {
            "transactional_id": self.id,
            "transaction_timeout": round(self.timeout * 1_000),
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }
        answer = self._ask(Api.INIT_PRODUCER_ID, asked, doing, least=OWN_EPOCH_SINCE)
        self._check(answer["error_code"], doing)
        self._producer_id, self._epoch = answer["producer_id"], answer["producer_epoch"]
        self._is_used = self._is_open = False

    def _find_generation(self, doing: str) -> Generation:
        told = self._ask(Api.API_VERSIONS, SOFTWARE, doing)
        level = next((each["max_version_level"] for each in told["finalized_features"] if each["name"] == FEATURE), 0)
        return Generation.SECOND if level >= Generation.SECOND else Generation.FIRST

    def _look_at_coordinator(self, doing: str) -> None:
        coordinator = self._coordinator or self._cluster.coordinator(self.id, doing)
        with self._cluster.wire(coordinator.address) as wire:
            self._may_follow_at_once = wire.serves(OwnApi.COMPACT_TOPIC)  # Runnel's own
            self._takes_joins = (wire.version(Api.PRODUCE) or 0) >= JOINS_SINCE

    @property
    def _most_further(self) -> int:
        return 1 if self._generation is Generation.FIRST else 2

    @property
    def _further_unanswered(self) -> int:
        """Of an end that was not answered, nobody knows whether it was one. Where each end gives the next epoch, that
        one is behind no successor's, whichever it was.
        """
        return 0 if self._generation is Generation.FIRST else UNSURE

    @property
    def _can_join_by_writing(self) -> bool:
        if self._generation is Generation.FIRST or not self._takes_joins:
            return False
        return self._may_follow_at_once or _now() - self._ended >= MARKED_SECONDS

    def _join(self, places: frozenset[Place], doing: str) -> None:
        """Announce the partitions; or look only whether they are there, if they join with what is written to them."""
        if self._is_announced:
            self._settled(lambda: self._add(places, doing))
        else:
            self._cluster.settled(lambda: self._cluster.by_leader(places))

    def _add(self, places: frozenset[Place], doing: str) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(places):
            self._cluster.leader((topic, partition))  # raises if it is not there
            topics.setdefault(topic, []).append(partition)
        asked = {
            "v3_and_below_transactional_id": self.id,
            "v3_and_below_producer_id": self._producer_id,
            "v3_and_below_producer_epoch": self._epoch,
            "v3_and_below_topics": [{"name": name, "partitions": numbers} for name, numbers in topics.items()],
        }
        if not topics:
            return
        answer = self._ask(Api.ADD_PARTITIONS_TO_TXN, asked, doing, most=FOR_CLIENTS)
        for topic in answer["results_by_topic_v3_and_below"]:
            for told in topic["results_by_partition"]:
                # One that was not attempted stands beside the one that is the reason.
                if told["partition_error_code"] != ErrorCode.OPERATION_NOT_ATTEMPTED:
                    self._check(told["partition_error_code"], doing, topic=topic["name"])

    def _end(self, *, committed: bool) -> None:
        doing = f'{"committing" if committed else "aborting"} the transaction of "{self.id}"'
        try:
            self._settled(lambda: self._ask_end(doing, committed=committed))
        except (Unreachable, TimedOut) as error:
            if committed:
                raise EndUnknown(self.id, error.what) from None
            raise

    def _ask_end(self, doing: str, *, committed: bool) -> None:
        asked = {
            "transactional_id": self.id,
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
            "committed": committed,
        }
        further, self._further = self._further, min(self._further, self._further_unanswered)
        answer = self._ask(Api.END_TXN, asked, doing, most=self._generation.most(Api.END_TXN))
        code = answer["error_code"]
        if committed and code == ErrorCode.UNKNOWN_SERVER_ERROR:  # Kafka, when another owner comes at that moment
            raise EndUnknown(self.id, "its coordinator answers with an unknown error")
        if code in FENCED or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # behind others it may have taken place
            self._further = further
        if code in FENCED and (overdue := self._overdue) and self._take_back(doing):
            raise Overdue(self.id, "its coordinator", overdue)
        self._check(code, doing)
        self._is_open = False
        self._ended = _now()
        if self._generation is Generation.SECOND:
            self._producer_id, self._epoch = answer["producer_id"], answer["producer_epoch"]
            self._is_used = False

    def _take_back(self, doing: str) -> bool:
        """Whether it was the time-out alone: then the epoch is ours that it has left to nobody.

        A transaction that was open when its time was over is aborted now, and one epoch further, or two where each end
        gives another one. Whoever takes over aborts it in the same way, and is given one more epoch then, in a state
        that is not that of an abort; if it aborts anything itself, it is still further. And one that is only about to
        take over will fence us. Where nobody told us that it was open, a successor found nothing to abort: then the
        first epoch behind ours is that of an abort by the time-out alone, and the second one may be its own.
        """
        if not self._further:
            return False
        try:
            answer = self._ask(Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": [self.id]}, doing)
            (known,) = answer["transaction_states"]
            self._cluster.check(known["error_code"], None, doing)
        except Permanent:  # it cannot be asked
            return False
        epoch = known["producer_epoch"]
        is_aborted = known["transaction_state"] in ABORTED and known["producer_id"] == self._producer_id
        if not is_aborted or not 1 <= epoch - self._epoch <= self._further or epoch > LAST_EPOCH:
            return False
        self._epoch = epoch
        self._ended = _now()
        self._is_used = self._is_open = False
        self._further = 0
        return True

    # --- the coordinator

    def _ask(self, api: Api, body: Message, doing: str, *, least: int = 0, most: int | None = None) -> Message:
        if self._coordinator is None:
            self._coordinator = self._cluster.coordinator(self.id, doing)
        return self._cluster.ask(self._coordinator, api, body, doing, least=least, most=most)

    def _settled(self, attempt: Callable[[], Answer]) -> Answer:
        def looked_for() -> Answer:
            try:
                return attempt()
            except Transient:
                self._coordinator = None
                raise

        return self._cluster.settled(looked_for)

    def _check(self, code: int, doing: str, *, topic: str = "") -> None:
        if code == ErrorCode.NONE:
            return
        if code in MOVED_COORDINATOR:
            self._coordinator = None
        if code in FENCED:
            raise Fenced(self.id, self._overdue)
        if code in LOST and (overdue := self._overdue):
            raise Overdue(self.id, "its coordinator", overdue)
        if code in LOST:
            raise TransactionLost(self.id, "its coordinator", words(code))
        if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            self._refuse_timeout(doing)
        self._cluster.check(code, None, doing, topic=topic)

    @property
    def _overdue(self) -> str:
        """In words, if it is open for longer than it may be."""
        seconds = _now() - self._began
        if not self._is_open or seconds <= self.timeout:
            return ""
        return f"it was open for {seconds:.0f} s, longer than its time-out of {self.timeout:g} s"

    def _refuse_timeout(self, doing: str) -> NoReturn:
        hint = "the cluster's transaction.max.timeout.ms is the longest"
        raise Refused(doing, f"a time-out of {self.timeout:g} s for transactions is not allowed", hint=hint)


def _now() -> float:
    return time.clock_gettime(CLOCK)
