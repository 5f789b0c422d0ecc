"""One transaction, many writers: whole or not at all for readers, and only the newest owner may write.

Everything holds for both generations of Kafka's transactions: a client of the first one can speak to every cluster.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa
import pytest

from runnel.client import RecordTooLarge, Refused, Transactions, UnknownTopic, positions
from runnel.client import transaction as transactions
from runnel.client.bodies import bodies
from runnel.client.cluster import Cluster
from runnel.client.column_bodies import column_bodies
from runnel.client.errors import EndUnknown, Fenced, NothingOpen, Overdue, TransactionLost, Unreachable
from runnel.client.ticket import Generation
from runnel.client.transaction import Transaction
from runnel.client.wire import Wire
from runnel.client.writing import NotInTransaction, write
from runnel.protocol.versions import Api
from runnel.records import Codec, Record
from tests.contract.other_process import write_from_here
from tests.contract.raw_reading import final_values, lost_answers, read, values

LIMIT = 120.0


@pytest.fixture
def cluster(bootstrap):
    with Cluster(bootstrap, timeout=LIMIT) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def processes():
    """Two others, which inherit nothing: what a writer needs is in its ticket."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        yield processes


@pytest.fixture(params=Generation)
def generation(request, monkeypatch):
    if request.param is Generation.FIRST:
        monkeypatch.setattr(Transaction, "_find_generation", lambda self, doing: Generation.FIRST)
    return request.param


@pytest.fixture
def transaction(cluster, name, generation):
    transaction = Transaction(cluster, name)
    transaction.init()
    assert transaction.generation is generation
    return transaction


@pytest.fixture
def unannounced(monkeypatch):
    """Nothing is announced that need not be, also right behind an end."""
    monkeypatch.setattr(transactions, "MARKED_SECONDS", 0.0)


def places(topic, *partitions):
    return [(topic, partition) for partition in partitions]


def of(*texts):
    return bodies([Record(text) for text in texts])


def committed(cluster, transaction, topic, *texts, partition=0):
    ticket = transaction.begin([(topic, partition)])
    write(cluster, ticket, {(topic, partition): of(*texts)})
    transaction.commit()


# --- whole


def test_writers_in_other_processes_write_one_transaction(cluster, transaction, wide, processes):
    for number in range(3):
        before = [final_values(cluster, wide, partition) for partition in range(3)]
        ticket = transaction.begin(places(wide, 0, 1, 2))
        writers = [
            processes.submit(write_from_here, cluster, ticket, (wide, partition), [b"%d" % number] * 100)
            for partition in (0, 1)
        ]
        assert os.getpid() not in [writer.result() for writer in writers]
        write(cluster, ticket, {(wide, 2): of(b"marker %d" % number)})
        assert [values(cluster, wide, partition) for partition in range(3)] == before
        transaction.commit()
    assert (
        final_values(cluster, wide, 0) == final_values(cluster, wide, 1) == [b"0"] * 100 + [b"1"] * 100 + [b"2"] * 100
    )
    assert final_values(cluster, wide, 2) == [b"marker 0", b"marker 1", b"marker 2"]


def test_a_transaction_that_is_aborted_is_not_seen_and_the_next_is(cluster, transaction, topic):
    committed(cluster, transaction, topic, b"first")
    ticket = transaction.begin([(topic, 0)])
    write(cluster, ticket, {(topic, 0): of(b"never")})
    transaction.abort()
    committed(cluster, transaction, topic, b"second")
    assert final_values(cluster, topic) == [b"first", b"second"]


def test_a_transaction_of_nothing_can_be_committed_and_aborted(cluster, transaction, topic):
    transaction.begin([(topic, 0)])
    transaction.commit()
    transaction.begin([(topic, 0)])
    transaction.abort()
    committed(cluster, transaction, topic, b"something")
    assert final_values(cluster, topic) == [b"something"]


def test_a_transaction_of_several_topics_is_one(cluster, transaction, topic, wide):
    ticket = transaction.begin([*places(topic, 0), *places(wide, 1, 2)])
    write(cluster, ticket, {(topic, 0): of(b"a"), (wide, 1): of(b"b"), (wide, 2): of(b"c")})
    assert values(cluster, topic) == []
    transaction.commit()
    assert final_values(cluster, topic) == [b"a"]
    assert [final_values(cluster, wide, partition) for partition in range(3)] == [[], [b"b"], [b"c"]]


def test_a_transaction_can_be_widened_while_it_is_open(cluster, transaction, topic, wide):
    ticket = transaction.begin([(topic, 0)])
    write(cluster, ticket, {(topic, 0): of(b"a")})
    wider = transaction.widen(ticket, places(wide, 1, 2))
    write(cluster, wider, {(wide, 1): of(b"b")})
    assert values(cluster, topic) == values(cluster, wide, 1) == []
    transaction.commit()
    assert (final_values(cluster, topic), final_values(cluster, wide, 1)) == ([b"a"], [b"b"])
    with pytest.raises(NothingOpen, match="no open transaction to widen"):
        transaction.widen(wider, [(wide, 0)])


def test_the_cluster_knows_of_the_transaction_while_it_is_open(cluster, transaction, admin, topic, name):
    transaction.begin([(topic, 0)])
    told = Transactions(admin).describe(name)
    assert (told.state, told.partitions) == ("ongoing", ((topic, 0),))
    transaction.abort()
    assert Transactions(admin).describe(name).state != "ongoing"


# --- what is written


@pytest.mark.parametrize("codec", Codec)
def test_many_batches_are_written_in_order(cluster, transaction, topic, codec):
    expected = [b"%d" % number * 100 for number in range(2_000)]
    ticket = transaction.begin([(topic, 0)])
    write(cluster, ticket, {(topic, 0): bodies(map(Record, expected), batch_bytes=20_000)}, codec=codec)
    transaction.commit()
    assert final_values(cluster, topic) == expected


def test_one_writer_can_go_on_in_the_same_transaction(cluster, transaction, topic):
    ticket = transaction.begin([(topic, 0)])
    next_sequences = write(cluster, ticket, {(topic, 0): of(b"0", b"1")})
    assert next_sequences == {(topic, 0): 2}
    write(cluster, ticket, {(topic, 0): of(b"2")}, sequences=next_sequences)
    transaction.commit()
    assert final_values(cluster, topic) == [b"0", b"1", b"2"]


def test_records_and_columns_arrive_alike(cluster, transaction, wide):
    """Keys, times, headers and nulls."""
    now = time.time_ns() // 1_000_000
    records = [
        Record(b"v", b"k", now, (("h", b"1"), ("none", None))),
        Record(None, b"k", now + 5),
        Record(b"", None, now - 5),
        Record(b"x" * 1_000, b"y" * 300, now),
    ]
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [[{"key": name, "value": value} for name, value in record.headers] for record in records]
    columns = column_bodies(
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.timestamp for record in records]),
        pa.array(headers, header),
    )
    ticket = transaction.begin(places(wide, 0, 1))
    write(cluster, ticket, {(wide, 0): bodies(records), (wide, 1): columns})
    transaction.commit()
    expected = [record._replace(offset=offset) for offset, record in enumerate(records)]
    assert [final_values(cluster, wide, partition) for partition in (0, 1)] == 2 * [[each.value for each in expected]]
    assert read(cluster, wide, 0) == read(cluster, wide, 1) == expected


# --- answers that get lost


@pytest.mark.usefixtures("unannounced")
@pytest.mark.parametrize("announce", [True, False])
def test_nothing_is_written_twice_or_lost_when_answers_get_lost(cluster, transaction, wide, monkeypatch, announce):
    expected = {partition: [] for partition in range(3)}
    with lost_answers(monkeypatch, every=3) as lost:
        for number in range(8):
            ticket = transaction.begin(places(wide, 0, 1, 2), announce=announce)
            texts = [b"%d %d" % (number, each) for each in range(30 + 7 * number)]  # not always as many batches
            contents = {place: bodies(map(Record, texts), batch_bytes=200) for place in places(wide, 0, 1, 2)}
            write(cluster, ticket, contents)
            if number % 3 == 2:
                transaction.abort()
            else:
                transaction.commit()
                for partition in range(3):
                    expected[partition] += texts
    assert {Api.PRODUCE, Api.END_TXN} <= set(lost)
    assert {partition: final_values(cluster, wide, partition) for partition in range(3)} == expected


def test_a_commit_without_an_answer_is_told_and_can_be_looked_up(bootstrap, transaction, topic, monkeypatch):
    ticket = transaction.begin([(topic, 0)])
    with Cluster(bootstrap) as cluster:
        write(cluster, ticket, {(topic, 0): of(b"committed, nobody knows")})
        receive = Wire.receive

        def lose_the_end(self, sent, doing, **rest):
            answer = receive(self, sent, doing, **rest)
            if sent.api_key == Api.END_TXN:
                raise Unreachable(self.address, "lost by the test")
            return answer

        transaction._cluster = cluster
        with monkeypatch.context() as patch:
            patch.setattr(Wire, "receive", lose_the_end)
            cluster.timeout = 0.2
            with pytest.raises(EndUnknown, match=r"whether the transaction of .* was committed is not known"):
                transaction.commit()
        cluster.timeout = LIMIT
        transaction.init()
        assert final_values(cluster, topic) == [b"committed, nobody knows"]
        committed(cluster, transaction, topic, b"next")
        assert final_values(cluster, topic) == [b"committed, nobody knows", b"next"]


def test_what_was_never_ended_is_aborted_by_the_next_init(cluster, transaction, topic):
    ticket = transaction.begin([(topic, 0)])
    write(cluster, ticket, {(topic, 0): of(b"never")})
    transaction.init()
    committed(cluster, transaction, topic, b"next")
    assert final_values(cluster, topic) == [b"next"]


# --- who may write


def test_a_writer_that_was_left_behind_is_refused(cluster, transaction, topic):
    ticket = transaction.begin([(topic, 0)])
    write(cluster, ticket, {(topic, 0): of(b"in time")})
    transaction.commit()
    assert final_values(cluster, topic) == [b"in time"]
    with pytest.raises((Fenced, TransactionLost)):
        write(cluster, ticket, {(topic, 0): of(b"late")}, sequences={(topic, 0): 1})
    next_ticket = transaction.begin([(topic, 0)])
    with pytest.raises(Fenced):
        write(cluster, ticket, {(topic, 0): of(b"later")}, sequences={(topic, 0): 1})
    write(cluster, next_ticket, {(topic, 0): of(b"next")})
    with pytest.raises(Fenced):
        write(cluster, ticket, {(topic, 0): of(b"latest")}, sequences={(topic, 0): 1})
    transaction.commit()
    assert final_values(cluster, topic) == [b"in time", b"next"]


def test_a_writer_of_an_aborted_transaction_is_refused(cluster, transaction, topic):
    ticket = transaction.begin([(topic, 0)])
    transaction.abort()
    assert final_values(cluster, topic) == []
    with pytest.raises((Fenced, TransactionLost)):
        write(cluster, ticket, {(topic, 0): of(b"late")})
    transaction.begin([(topic, 0)])
    with pytest.raises(Fenced):
        write(cluster, ticket, {(topic, 0): of(b"later")})
    transaction.commit()
    assert final_values(cluster, topic) == []


def test_a_second_owner_fences_the_first_and_aborts_what_it_has_open(cluster, transaction, topic, name):
    ticket = transaction.begin([(topic, 0)])
    write(cluster, ticket, {(topic, 0): of(b"of the first")})
    second = Transaction(cluster, name)
    second.init()
    with pytest.raises(Fenced):
        write(cluster, ticket, {(topic, 0): of(b"more of the first")}, sequences={(topic, 0): 1})
    with pytest.raises(Fenced, match=f'the producer "{name}" is fenced: another one has taken over'):
        transaction.commit()
    committed(cluster, second, topic, b"of the second")
    assert final_values(cluster, topic) == [b"of the second"]


def test_one_that_is_fenced_cannot_take_the_id_back(cluster, transaction, topic, name):
    committed(cluster, transaction, topic, b"of the first")
    second = Transaction(cluster, name)
    second.init()
    ticket = second.begin([(topic, 0)])
    with pytest.raises(Fenced):
        transaction.begin([(topic, 0)])
    with pytest.raises(Fenced):
        transaction.init()
    write(cluster, ticket, {(topic, 0): of(b"of the second")})
    second.commit()
    assert final_values(cluster, topic) == [b"of the first", b"of the second"]


def test_many_owners_that_start_at_once_leave_one(cluster, name, topic, transaction):
    """However they come in between each other: what is visible is whole, and the last one can write.

    Kafka may answer a commit with an unknown error when another one comes at that moment: then nobody knows.
    """
    ends, unknown = [], []

    def own(number):
        with Cluster(cluster.bootstrap, timeout=LIMIT) as own_cluster:
            one = Transaction(own_cluster, name)
            try:
                one.init()
                ticket = one.begin([(topic, 0)])
                write(own_cluster, ticket, {(topic, 0): of(b"%d" % number, b"%d" % number)})
                one.commit()
                ends.append(b"%d" % number)
            except (Fenced, TransactionLost):
                pass
            except EndUnknown:
                unknown.append(b"%d" % number)

    threads = [threading.Thread(target=own, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = final_values(cluster, topic)
    assert found[::2] == found[1::2]
    assert sorted(ends) == sorted(each for each in found[::2] if each not in unknown)


@pytest.fixture
def overdue(cluster, name, topic, generation):
    """A transaction that the cluster has aborted, because it was open for too long; and its ticket."""
    transaction = Transaction(cluster, name, timeout=2)
    transaction.init()
    return aborted_by_time(cluster, transaction, topic, announce=True)


def aborted_by_time(cluster, transaction, topic, *, announce):
    ticket = transaction.begin([(topic, 0)], announce=announce)
    write(cluster, ticket, {(topic, 0): of(b"too slow")})
    deadline = time.monotonic() + LIMIT  # a cluster looks for such transactions now and then
    while positions.latest(cluster, [(topic, 0)])[topic, 0] == 0:
        assert time.monotonic() < deadline, "the transaction is still open"
        time.sleep(0.05)
    return transaction, ticket


def test_one_that_was_not_announced_and_lasts_too_long_goes_on_though_its_batch_was_never_answered(
    cluster, name, topic, generation
):
    transaction = Transaction(cluster, name, timeout=2)
    transaction.init()
    aborted_by_time(cluster, transaction, topic, announce=False)  # and nobody says that it has joined
    transaction.init()
    committed(cluster, transaction, topic, b"again")
    assert final_values(cluster, topic) == [b"again"]


def test_a_transaction_that_lasts_longer_than_its_time_out_is_lost_and_the_next_one_can_begin(cluster, topic, overdue):
    transaction, ticket = overdue
    with pytest.raises(TransactionLost):
        write(cluster, ticket, {(topic, 0): of(b"later")}, sequences={(topic, 0): 1})
    with pytest.raises(Overdue, match=r"open for \d+ s, longer than its time-out of 2 s"):
        transaction.commit()
    committed(cluster, transaction, topic, b"again")
    with pytest.raises((Fenced, TransactionLost)):
        write(cluster, ticket, {(topic, 0): of(b"much later")}, sequences={(topic, 0): 2})
    transaction.init()
    committed(cluster, transaction, topic, b"and again")
    assert final_values(cluster, topic) == [b"again", b"and again"]


def test_whoever_took_over_after_the_time_out_stays(cluster, name, topic, overdue):
    """Whatever it has done since: nothing, or an abort, by which it looks most like one whose time was over."""
    transaction, _ = overdue
    successor = Transaction(cluster, name)
    successor.init()
    with pytest.raises(Fenced, match="longer than its time-out of 2 s, or another one has taken over its id since"):
        transaction.commit()
    successor.begin([(topic, 0)])
    with pytest.raises(Fenced):
        transaction.abort()
    successor.abort()
    with pytest.raises(Fenced):
        transaction.init()
    committed(cluster, successor, topic, b"of the successor")
    assert final_values(cluster, topic) == [b"of the successor"]


# --- not announced: a partition joins with its first batch, where transactions are of the second generation


@pytest.mark.usefixtures("unannounced")
def test_what_is_not_announced_is_one_transaction_with_one_question_less(
    cluster, transaction, topic, wide, generation, monkeypatch
):
    committed(cluster, transaction, topic, b"before")
    transaction.init()
    asked = []
    send = Wire.send

    def noted(self, api_key, *given, **named):
        asked.append(Api(api_key))
        return send(self, api_key, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Wire, "send", noted)
        ticket = transaction.begin([*places(topic, 0), *places(wide, 1)], announce=False)
        write(cluster, ticket, {(topic, 0): of(b"a"), (wide, 1): of(b"b")})
        transaction.joined()
    is_first = generation is Generation.FIRST
    assert asked.count(Api.ADD_PARTITIONS_TO_TXN) == is_first  # Kafka may ask to write again while the last one ends
    assert (values(cluster, topic), values(cluster, wide, 1)) == ([b"before"], [])
    wider = transaction.widen(ticket, places(wide, 2))
    write(cluster, wider, {(wide, 2): of(b"c")})
    transaction.commit()
    assert final_values(cluster, topic) == [b"before", b"a"]
    assert [final_values(cluster, wide, partition) for partition in range(3)] == [[], [b"b"], [b"c"]]


@pytest.mark.usefixtures("unannounced")
@pytest.mark.parametrize("is_written", [True, False])
def test_a_writer_that_was_left_behind_by_what_was_not_announced_is_refused(cluster, transaction, topic, is_written):
    """Whether the cluster has ever heard of its transaction or not: its partition does not join the next one."""
    ticket = transaction.begin([(topic, 0)], announce=False)
    if is_written:
        write(cluster, ticket, {(topic, 0): of(b"in time")})
        transaction.commit()
    else:
        transaction.abort()
    expected = final_values(cluster, topic)
    late = {(topic, 0): int(is_written)}
    with pytest.raises((Fenced, TransactionLost)):
        write(cluster, ticket, {(topic, 0): of(b"late")}, sequences=late)
    following = transaction.begin([(topic, 0)], announce=False)
    with pytest.raises(Fenced):
        write(cluster, ticket, {(topic, 0): of(b"later")}, sequences=late)
    write(cluster, following, {(topic, 0): of(b"next")})
    with pytest.raises(Fenced):
        write(cluster, ticket, {(topic, 0): of(b"latest")}, sequences=late)
    transaction.commit()
    assert final_values(cluster, topic) == [*expected, b"next"]


@pytest.mark.usefixtures("unannounced")
def test_what_is_not_announced_is_aborted_by_the_next_owner_who_fences_the_first(cluster, transaction, topic, name):
    ticket = transaction.begin([(topic, 0)], announce=False)
    write(cluster, ticket, {(topic, 0): of(b"of the first")})
    second = Transaction(cluster, name)
    second.init()
    with pytest.raises(Fenced):
        write(cluster, ticket, {(topic, 0): of(b"more of the first")}, sequences={(topic, 0): 1})
    with pytest.raises(Fenced):
        transaction.commit()
    committed(cluster, second, topic, b"of the second")
    third = Transaction(cluster, name)
    third.init()

    def write_unheard_of():  # nobody is asked before, unless it is of the first generation
        write(cluster, second.begin([(topic, 0)], announce=False), {(topic, 0): of(b"never")})

    with pytest.raises(Fenced):
        write_unheard_of()
    assert final_values(cluster, topic) == [b"of the second"]


@pytest.mark.usefixtures("unannounced")
def test_nothing_cannot_be_committed_if_it_is_not_announced_and_the_next_one_can(
    cluster, transaction, topic, generation
):
    transaction.begin([(topic, 0)], announce=False)
    if generation is Generation.SECOND:
        with pytest.raises(TransactionLost):
            transaction.commit()
    else:
        transaction.commit()
    transaction.init()
    committed(cluster, transaction, topic, b"next")
    assert final_values(cluster, topic) == [b"next"]


# --- what is wrong


def test_a_topic_that_is_not_there_is_told_when_the_transaction_begins(cluster, name):
    transaction = Transaction(cluster, name)
    with pytest.raises(UnknownTopic, match=f'there is no topic "{name}-missing"'):
        transaction.begin([(f"{name}-missing", 0)])


def test_a_partition_that_is_not_part_of_the_transaction_is_told(cluster, transaction, wide):
    ticket = transaction.begin([(wide, 0)])
    with pytest.raises(NotInTransaction, match=f"{wide}-1 is not part of the transaction"):
        write(cluster, ticket, {(wide, 1): of(b"x")})
    transaction.abort()


def test_a_record_that_is_too_large_is_told_and_the_rest_can_be_written_again(cluster, transaction, topic):
    ticket = transaction.begin([(topic, 0)])
    with pytest.raises(RecordTooLarge):
        write(cluster, ticket, {(topic, 0): of(b"small", b"x" * 2_000_000)})
    transaction.abort()
    committed(cluster, transaction, topic, b"small")
    assert final_values(cluster, topic) == [b"small"]


def test_a_time_out_that_the_cluster_does_not_allow_is_told(cluster, name):
    with pytest.raises(Refused, match="a time-out of 86400 s for transactions is not allowed"):
        Transaction(cluster, name, timeout=86_400).init()


def test_an_end_without_a_beginning_is_told(cluster, name):
    transaction = Transaction(cluster, name)
    with pytest.raises(NothingOpen, match="has no open transaction to commit"):
        transaction.commit()
    with pytest.raises(NothingOpen, match="has no open transaction to abort"):
        transaction.abort()
    with pytest.raises(NothingOpen, match="has no open transaction to write to"):
        transaction.joined()
