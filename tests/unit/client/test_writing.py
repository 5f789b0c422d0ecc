"""What a writer makes of the answers to its batches."""

from __future__ import annotations

import pickle

import pytest

from runnel.client import RecordTooLarge, Refused
from runnel.client.bodies import bodies
from runnel.client.errors import Fenced, Overdue, TransactionLost
from runnel.client.ticket import Generation, Ticket
from runnel.client.writing import write
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Codec, Record, parse_header, records_of
from tests.unit.client.scripted_cluster import PLACE, asked, produced, scripted_cluster

OTHER = ("orders", 1)
TICKET = Ticket("shop", 9, 4, Generation.SECOND, frozenset([PLACE, OTHER]))


def of(*values, batch_bytes=10_000):
    return bodies([Record(value, None, 1) for value in values], batch_bytes=batch_bytes)


def sequences(broker, index=0):
    """Of the batches that a partition was sent, in their order."""
    return [
        parse_header(each["records"]).base_sequence
        for body in asked(broker, Api.PRODUCE)
        for each in body["topic_data"][0]["partition_data"]
        if each["index"] == index
    ]


def test_a_batch_has_the_producer_of_the_ticket():
    with scripted_cluster({Api.PRODUCE: [produced(0)]}) as (cluster, broker):
        assert write(cluster, TICKET, {PLACE: of(b"a", b"b")}) == {PLACE: 2}
    (body,) = asked(broker, Api.PRODUCE)
    header = parse_header(body["topic_data"][0]["partition_data"][0]["records"])
    assert (body["transactional_id"], body["acks"]) == ("shop", -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.count) == (9, 4, 0, 2)
    assert header.is_transactional


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_what_is_compressed_already_is_not_compressed_again(codec):
    given = [body.compressed(Codec.ZSTD) for body in of(b"a", b"b" * 1_000)]
    with scripted_cluster({Api.PRODUCE: [produced(0)]}) as (cluster, broker):
        assert write(cluster, TICKET, {PLACE: given}, codec=codec) == {PLACE: 2}
    (body,) = asked(broker, Api.PRODUCE)
    batch = body["topic_data"][0]["partition_data"][0]["records"]
    assert parse_header(batch).is_transactional
    assert parse_header(batch).codec is Codec.ZSTD
    assert [record.value for record in records_of(batch)] == [b"a", b"b" * 1_000]


def test_batches_are_numbered_one_after_the_other():
    with scripted_cluster({Api.PRODUCE: [produced(0)]}) as (cluster, broker):
        assert write(cluster, TICKET, {PLACE: of(b"a", b"b", b"c", batch_bytes=1)}) == {PLACE: 3}
    assert sequences(broker) == [0, 1, 2]


def test_partitions_of_a_broker_share_a_request():
    with scripted_cluster({Api.PRODUCE: [produced(0, 0)]}, partitions=2) as (cluster, broker):
        assert write(cluster, TICKET, {PLACE: of(b"a"), OTHER: of(b"b", b"c")}) == {PLACE: 1, OTHER: 2}
    assert len(asked(broker, Api.PRODUCE)) == 1


def test_a_request_has_a_limit():
    large = b"x" * 3_000_000
    with scripted_cluster({Api.PRODUCE: [produced(0), produced(0, 0)]}, partitions=2) as (cluster, broker):
        write(cluster, TICKET, {PLACE: of(large), OTHER: of(large)})
    assert len(asked(broker, Api.PRODUCE)) == 2


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_what_passes_is_sent_again_with_the_same_number(code):
    with scripted_cluster({Api.PRODUCE: [produced(code), produced(0)]}) as (cluster, broker):
        write(cluster, TICKET, {PLACE: of(b"a", b"b", batch_bytes=1)})
    assert sequences(broker) == [0, 0, 1]


def test_only_the_partition_that_failed_is_sent_again():
    answers = [produced(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), produced(0)]
    answers[1]["responses"][0]["partition_responses"][0]["index"] = 1
    with scripted_cluster({Api.PRODUCE: answers}, partitions=2) as (cluster, broker):
        write(cluster, TICKET, {PLACE: of(b"a"), OTHER: of(b"b")})
    assert (sequences(broker, 0), sequences(broker, 1)) == ([0], [0, 0])


def test_a_batch_that_the_broker_has_already_is_written():
    with scripted_cluster({Api.PRODUCE: [b"", produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)]}) as (cluster, broker):
        assert write(cluster, TICKET, {PLACE: of(b"a")}) == {PLACE: 1}
    assert sequences(broker) == [0, 0]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_a_writer_with_an_old_epoch_is_fenced(code):
    with (
        scripted_cluster({Api.PRODUCE: [produced(code)]}) as (cluster, _),
        pytest.raises(Fenced, match='the producer "shop" is fenced: another one has taken over'),
    ):
        write(cluster, TICKET, {PLACE: of(b"a")})


def test_a_writer_whose_transaction_is_overdue_need_not_have_been_fenced_by_another():
    with (
        scripted_cluster({Api.PRODUCE: [produced(ErrorCode.INVALID_PRODUCER_EPOCH)]}) as (cluster, _),
        pytest.raises(Overdue, match='the transaction of "shop" cannot go on at orders-0: it is open for longer'),
    ):
        write(cluster, TICKET._replace(deadline=0.0), {PLACE: of(b"a")})


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ],
)
def test_a_transaction_that_cannot_go_on_is_told_with_the_partition(code):
    with (
        scripted_cluster({Api.PRODUCE: [produced(code, message="because")]}) as (cluster, _),
        pytest.raises(TransactionLost, match='transaction of "shop" cannot go on at orders-0: because'),
    ):
        write(cluster, TICKET, {PLACE: of(b"a")})


def test_the_worst_error_of_a_request_is_told():
    answer = produced(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.PRODUCER_FENCED)
    with scripted_cluster({Api.PRODUCE: [answer]}, partitions=2) as (cluster, _), pytest.raises(Fenced):
        write(cluster, TICKET, {PLACE: of(b"a"), OTHER: of(b"b")})


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, RecordTooLarge),
        (ErrorCode.INVALID_RECORD, Refused),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Refused),
    ],
)
def test_a_refusal_is_told(code, error):
    with scripted_cluster({Api.PRODUCE: [produced(code)]}) as (cluster, _), pytest.raises(error):
        write(cluster, TICKET, {PLACE: of(b"a")})


@pytest.mark.parametrize(("generation", "most"), [(Generation.FIRST, 11), (Generation.SECOND, 13)])
def test_the_version_says_of_which_generation_the_writer_is(generation, most):
    ticket = TICKET._replace(generation=generation)
    with scripted_cluster({Api.PRODUCE: [produced(0)]}) as (cluster, broker):
        write(cluster, ticket, {PLACE: of(b"a")})
    assert [version for key, version, _ in broker.asked if key == Api.PRODUCE] == [most]


def test_nothing_to_write_asks_nobody():
    with scripted_cluster({}) as (cluster, broker):
        assert write(cluster, TICKET, {PLACE: of()}) == {PLACE: 0}
    assert broker.asked == []


def test_a_ticket_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(TICKET)) == TICKET
