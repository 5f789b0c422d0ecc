"""Exactly once into the topics: records and the position they lead to are one Kafka transaction.

    publisher = Publisher(cluster, "shop", admin)
    state = publisher.open()                   # whoever wrote under this name before is fenced
    publisher.publish(outgoing, state.at(position))

A crash leaves all of it or nothing. Where nobody could tell whether a transaction was committed, the state's topic is
asked, and it is written again if it was not. A transaction that the cluster has aborted is written again, and told in
the log; one that was given in parts and lasts too long for a second time is not, because the third would, too.

The time of a record is that of its change, but never later than the present: a cluster refuses what lies too far ahead
of its own clock (`message.timestamp.after.max.ms`), and a database's clock may be anywhere.

A record that is larger than its topic takes goes to `<topic>.rejected` in the same transaction (see `rejections`).
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from runnel.capture import rejections
from runnel.capture.events import Position
from runnel.capture.outgoing import Outgoing, Page
from runnel.capture.rejections import Refused, put_aside, size_of
from runnel.capture.signals import CONFIGS as SIGNAL_CONFIGS
from runnel.capture.signals import Signals
from runnel.capture.state import WHOLE_STEPS, State, read_state, topic_of
from runnel.client import positions
from runnel.client.admin import Admin
from runnel.client.bodies import Body, bodies
from runnel.client.cluster import Cluster
from runnel.client.column_bodies import column_bodies
from runnel.client.columns import HEADERS
from runnel.client.committed import committed
from runnel.client.errors import EndUnknown, Overdue, RecordTooLarge, TopicExists, TransactionLost
from runnel.client.limits import Limits
from runnel.client.metadata import Place
from runnel.client.partitioning import partitions_of
from runnel.client.ticket import Ticket
from runnel.client.transaction import Transaction
from runnel.client.writing import write
from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.durable import durable
from runnel.errors import RunnelError
from runnel.records import Codec, Record

logger = logging.getLogger(__name__)

TRANSACTION_SECONDS = 300.0
ATTEMPTS = 2  # of parts that take longer than that
STATE_CONFIGS = {"cleanup.policy": "compact"}
# A topic of changes is the database's history: nothing of it goes by itself. It is not compacted unless somebody says
# so, because a truncated table has an event without a key.
TOPIC_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1"}


Divided: TypeAlias = dict[Place, tuple[Any, ...]]  # columns: values, keys, times, headers
Contents: TypeAlias = dict[Place, Iterator[Body]]


class TooMuch(Exception):
    """More bytes than an array holds, or a record."""


class Abandoned(Exception):
    """Raised by parts of which nothing is to be committed."""


class Publisher:
    """`events` counts what was committed, by topic and what was done; `rejected` what was refused, by topic."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        admin: Callable[[], AbstractContextManager[Admin]],
        *,
        partitions: int | None = None,
        configs: Mapping[str, str] | None = None,
        codec: Codec = Codec.NONE,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`partitions` and `configs` are of topics that are not there yet."""
        self.name = name
        self.state = State()
        self.signals = Signals(cluster, name)
        self.events: Counter[tuple[str, str]] = Counter()
        self.rejected: Counter[str] = Counter()
        self._cluster = cluster
        self._admin = admin
        self._partitions = partitions
        self._configs = {**TOPIC_CONFIGS, **(configs or {})}
        self._codec = codec
        self._clock = clock
        self._transaction = Transaction(cluster, topic_of(name), timeout=TRANSACTION_SECONDS)
        self._limits = Limits(cluster)
        self._counts: dict[str, int] = {}
        self._written: Counter[tuple[str, str]] = Counter()  # in the transaction that is open
        self._refused: Counter[str] = Counter()
        self._advice: dict[str, str] = {}  # what to do about them

    def open(self) -> State:
        """Take over; what was committed last."""
        self._have(topic_of(self.name), 1, STATE_CONFIGS)
        self._have(self.signals.topic, 1, SIGNAL_CONFIGS)
        with durable("capture.init"):
            self._transaction.init()
        self.state = read_state(self._cluster, self.name)
        return self.state

    def written(self, topic: str) -> Iterable[tuple[bytes | None, bytes | None]]:
        """Keys and values that are committed in a small topic; nothing if it is not there."""
        return committed(self._cluster, topic) if topic in self._cluster.all_topics() else ()

    def lacks(self, topics: Collection[str]) -> set[str]:
        """Those of them in which nothing was ever written, or which are not there. A topic is not made for nothing; it
        may be made before its first record goes to where rejected ones go.
        """
        there = self._cluster.all_topics()
        empty = [topic for topic in topics if topic in there and rejections.topic_of(topic) not in there]
        ends = positions.written(self._cluster, [place for topic in empty for place in there[topic].places])
        filled = {topic for (topic, _), end in ends.items() if end}
        return {topic for topic in topics if topic not in there} | set(empty) - filled

    def publish(self, outgoing: Outgoing, state: State) -> State:
        """Write these records and the state they lead to, at once. The answer is the state as it was written."""
        return self._published(lambda: [outgoing], lambda: state)

    def publish_parts(self, parts: Callable[[], Iterable[Outgoing]], state: Callable[[], State]) -> State:
        """As `publish`, of more records than fit into memory. `parts` may be called again; `state` is asked for behind
        them. Overdue if they take longer than a transaction may, time and again.
        """
        try:
            return self._published(parts, state, attempts=ATTEMPTS)
        except Abandoned:
            with suppress(RunnelError):  # otherwise the cluster does it when its time is over
                self._transaction.abort()
            raise

    # --- inside

    def _published(
        self, parts: Callable[[], Iterable[Outgoing]], state: Callable[[], State], *, attempts: float = math.inf
    ) -> State:
        step = self.state.step + 1
        overdue = 0
        while True:
            try:
                with _ended(parts()) as given:
                    self._write(given, lambda: replace(state(), step=step))
                break
            except EndUnknown:
                self._transaction.init()
                if read_state(self._cluster, self.name).step == step:
                    break
            except TransactionLost as error:
                overdue += isinstance(error, Overdue)
                if overdue >= attempts:
                    raise
                logger.warning("capture %s writes again what was not committed: %s", self.name, error.what)
                self._transaction.init()
            except RecordTooLarge as error:
                self._transaction.init()
                self._limits.refused(error)
        self.state = replace(state(), step=step)
        self.events.update(self._written)
        self._count_refused()
        return self.state

    def _write(self, parts: Iterable[Outgoing], state: Callable[[], State]) -> None:
        self._written, self._refused = Counter(), Counter()
        own = topic_of(self.name), 0
        ticket: Ticket | None = None
        sequences: dict[Place, int] = {}
        held: Contents = {}  # the last part goes with the state: that is one answer less to wait for
        for divided in (each for part in parts for each in self._divided(part, state().position)):
            if held and ticket is not None:
                with durable("capture.write"):
                    sequences |= self._write_contents(ticket, held, sequences)
            ticket = self._with_places(ticket, [*divided, own])
            held = {
                place: column_bodies(*columns, batch_bytes=self._limits.batch_bytes(place[0]))
                for place, columns in divided.items()
            }
        self._write_last(self._with_places(ticket, [own]), held, own, state(), sequences)
        with durable("capture.commit"):
            self._transaction.commit()

    def _with_places(self, ticket: Ticket | None, places: list[Place]) -> Ticket:
        if ticket is None:
            return self._transaction.begin(places, announce=False)
        new = [place for place in places if place not in ticket.places]
        return self._transaction.widen(ticket, new) if new else ticket

    def _write_last(
        self, ticket: Ticket, held: Contents, own: Place, state: State, sequences: Mapping[Place, int]
    ) -> None:
        changes = state.changes_from(self.state, is_whole=state.step % WHOLE_STEPS == 1)
        body = bodies(Record(None if value is None else value.encode(), key.encode()) for key, value in changes)
        with durable("capture.write") if held else nullcontext(), durable("capture.state"):
            self._write_contents(ticket, {**held, own: body}, sequences)

    def _write_contents(self, ticket: Ticket, contents: Contents, sequences: Mapping[Place, int]) -> dict[Place, int]:
        following = write(self._cluster, ticket, contents, codec=self._codec, sequences=sequences)
        self._transaction.joined()
        return following

    def _divided(self, outgoing: Outgoing, position: Position | None) -> list[Divided]:
        """The records by partition, and those that are put aside. Those without a key are in the first one, so that
        they stay in order.
        """
        found: list[Divided] = [{}]
        refused: Divided = {}
        aside = Outgoing()
        for topic, page in outgoing.pages.items():
            places = self._places(topic)
            self._written.update({(topic, each): count for each, count in Counter(page.operations).items()})
            for number, columns in enumerate(self._taken(topic, page, aside, position)):
                if number == len(found):
                    found.append({})
                if len(columns[0]):
                    found[number] |= self._by_partition(topic, columns, len(places))
        for topic, page in aside.pages.items():
            refused |= self._by_partition(topic, self._columns(page), len(self._places(topic)))
        return [each for each in (*found, refused) if each]

    def _by_partition(self, topic: str, columns: tuple[Any, ...], count: int) -> Divided:
        if count == 1:
            return {(topic, 0): columns}
        chosen = partitions_of(columns[1], count)
        chosen[chosen < 0] = 0
        found: Divided = {}
        for partition in range(count):
            rows = pa.array((chosen == partition).nonzero()[0])
            if len(rows):
                found[topic, partition] = _rows(columns, rows)
        return found

    def _taken(self, topic: str, page: Page, aside: Outgoing, position: Position | None) -> list[tuple[Any, ...]]:
        """The columns of a page without the records that the topic does not take; those are put aside. They are several
        where one array does not hold them.
        """
        try:
            columns = self._columns(page)
        except TooMuch:
            if len(page.keys) > 1:
                return [each for half in page.halves() for each in self._taken(topic, half, aside, position)]
            size = size_of(page.keys[0], page.values[0], page.headers[0])
            self._put_aside([Refused(topic, page, 0, size, *self._limits.fresh(topic))], aside, position)
            return []
        return [self._within_limits(topic, page, columns, aside, position)]

    def _within_limits(
        self, topic: str, page: Page, columns: tuple[Any, ...], aside: Outgoing, position: Position | None
    ) -> tuple[Any, ...]:
        whole = _size(columns)
        if whole <= self._limits.of(topic, whole):
            return columns
        if _largest(page, columns) <= self._limits.of(topic, whole):
            return columns
        limit = self._limits.fresh(topic)
        sizes = _sizes(page, columns)
        refused = [Refused(topic, page, row, size, *limit) for row, size in enumerate(sizes) if size > limit.bytes]
        if not refused:
            return columns
        self._put_aside(refused, aside, position)
        left = {each.row for each in refused}
        return _rows(columns, pa.array([row for row in range(len(sizes)) if row not in left], pa.int64()))

    def _put_aside(self, refused: list[Refused], aside: Outgoing, position: Position | None) -> None:
        topic = refused[0].topic
        own = rejections.topic_of(topic)
        self._places(own)  # make it
        room = self._limits.fresh(own).bytes
        for each in refused:
            put_aside(each, self.name, position, room, aside)
        self._refused[topic] += len(refused)
        self._advice[topic] = refused[0].advice

    def _columns(self, page: Page) -> tuple[Any, ...]:
        values, keys, times, headers = _columns(page)
        return values, keys, pc.min_element_wise(times, self._clock.now()), headers

    def _count_refused(self) -> None:
        for topic, count in self._refused.items():
            if topic not in self.rejected:
                logger.warning(
                    "capture %s: %s too large for topic %s, and went to %s with the key; %s",
                    self.name,
                    "a record was" if count == 1 else f"{count:,} records were",
                    topic,
                    rejections.topic_of(topic),
                    self._advice[topic],
                )
            self.rejected[topic] += count

    def _places(self, topic: str) -> list[Place]:
        if topic not in self._counts:
            self._have(topic, self._partitions, self._configs)
            self._counts[topic] = len(self._cluster.topic(topic).places)
        return [(topic, number) for number in range(self._counts[topic])]

    def _have(self, topic: str, partitions: int | None, configs: Mapping[str, str]) -> None:
        """Make a topic, unless it is there. All are asked for, because one that is not there would be waited for."""
        if topic in self._cluster.all_topics(internal=True):
            return
        with self._admin() as admin, durable("capture.topic"), suppress(TopicExists):
            admin.create(topic, partitions=partitions, configs=configs)
        self._cluster.topic(topic, fresh=True)


@contextmanager
def admin_of(bootstrap: str, settings: Mapping[str, str] | None = None) -> Iterator[Admin]:
    with Admin(bootstrap, settings=dict(settings or {})) as admin:
        yield admin


@contextmanager
def _ended(parts: Iterable[Outgoing]) -> Iterator[Iterable[Outgoing]]:
    """What makes the parts lets go of what it reads them from, before somebody else makes them again."""
    try:
        yield parts
    finally:
        if isinstance(parts, Generator):
            parts.close()


def _columns(page: Page) -> tuple[Any, ...]:
    values, keys = _binary(page.values), _binary(page.keys)
    times = pa.array(page.times, pa.int64())
    if not page.has_headers:
        return values, keys, times, None
    headers = [[{"key": name, "value": text.encode()} for name, text in each] for each in page.headers]
    return values, keys, times, pa.array(headers, HEADERS)


def _binary(parts: list[str | bytes | None]) -> Any:
    """TooMuch, of 2 GiB: then Arrow makes several arrays of them, or none."""
    try:
        found = pa.array(parts, pa.binary())
    except pa.ArrowCapacityError:
        raise TooMuch from None
    if isinstance(found, pa.ChunkedArray):
        raise TooMuch
    return found


def _rows(columns: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
    return tuple(None if each is None else each.take(rows) for each in columns)


def _size(columns: tuple[Any, ...]) -> int:
    """Of all records of a page, at most, as if they were one batch."""
    values, keys, _, headers = columns
    inside = 0 if headers is None else headers.nbytes
    return int(values.nbytes + keys.nbytes + inside + len(values) * size_of(None, None, ()))


def _largest(page: Page, columns: tuple[Any, ...]) -> int:
    if page.has_headers:
        return max(_sizes(page, columns))
    return int(pc.max(_lengths(columns)).as_py()) + size_of(None, None, ())


def _sizes(page: Page, columns: tuple[Any, ...]) -> list[int]:
    """Of each record, as if it were a batch of its own."""
    lengths = _lengths(columns).to_pylist()
    return [length + size_of(None, None, own) for length, own in zip(lengths, page.headers, strict=True)]


def _lengths(columns: tuple[Any, ...]) -> Any:
    """Of keys and values together."""
    values, keys, _, _ = columns
    return pc.add(*(pc.fill_null(pc.binary_length(each), 0) for each in (values, keys)))
