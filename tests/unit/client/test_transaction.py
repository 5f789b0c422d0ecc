"""A producer that is fenced, and whose time was over: whether that was all."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from runnel.client import transaction as transactions
from runnel.client.errors import EndUnknown, Fenced, Overdue
from runnel.client.ticket import Generation
from runnel.client.transaction import LAST_EPOCH, Transaction
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.client.scripted_cluster import PLACE, asked, scripted_cluster

ID, EPOCH = 9, 4
NO_ANSWER = b""


def added(code=ErrorCode.NONE):
    told = [{"partition_index": 0, "partition_error_code": code}]
    return {
        "throttle_time": 0,
        "error_code": 0,
        "results_by_topic_v3_and_below": [{"name": "orders", "results_by_partition": told}],
    }


def ended(code):
    return {"throttle_time": 0, "error_code": code, "producer_id": ID, "producer_epoch": EPOCH}


def described(epoch=EPOCH + 1, state="CompleteAbort", producer=ID, code=ErrorCode.NONE):
    told = {
        "error_code": code,
        "transactional_id": "shop",
        "transaction_state": state,
        "transaction_timeout": 1_000,
        "transaction_start_time": -1,
        "producer_id": producer,
        "producer_epoch": epoch,
        "topics": [],
    }
    return {"throttle_time": 0, "transaction_states": [told]}


@contextmanager
def opened(
    monkeypatch,
    *ends,
    known,
    generation=Generation.FIRST,
    seconds=700,
    epoch=EPOCH,
    announce=True,
    serves_produce=True,
):
    """A transaction that has been open for so long, and how its coordinator answers to its ends."""
    clock = [0.0]
    monkeypatch.setattr(transactions, "_now", lambda: clock[0])
    monkeypatch.setattr(Transaction, "_find_generation", lambda self, doing: generation)
    answers = {
        Api.FIND_COORDINATOR: [NO_ANSWER],
        Api.INIT_PRODUCER_ID: [
            {"throttle_time": 0, "error_code": 0, "producer_id": ID, "producer_epoch": epoch},
        ],
        Api.ADD_PARTITIONS_TO_TXN: [added()],
        **({Api.PRODUCE: []} if serves_produce else {}),
        Api.END_TXN: list(ends),
        Api.DESCRIBE_TRANSACTIONS: [known],
    }
    with scripted_cluster(answers, timeout=1.0) as (cluster, broker):
        host, port = broker.address
        found = {"key": "shop", "node_id": 1, "host": host, "port": port, "error_code": 0, "error_message": None}
        broker.answers[Api.FIND_COORDINATOR] = [{"throttle_time": 0, "coordinators": [found]}]
        transaction = Transaction(cluster, "shop", timeout=600)
        transaction.begin([PLACE], announce=announce)
        clock[0] = seconds
        yield transaction, broker


FENCED = ended(ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(
    ("generation", "epoch"), [(Generation.FIRST, 5), (Generation.SECOND, 5), (Generation.SECOND, 6)]
)
@pytest.mark.parametrize("state", ["PrepareAbort", "CompleteAbort"])
def test_an_id_that_nobody_has_taken_goes_on_with_the_next_epoch(monkeypatch, generation, epoch, state):
    with opened(monkeypatch, FENCED, known=described(epoch, state), generation=generation) as (transaction, broker):
        with pytest.raises(Overdue, match="it was open for 700 s, longer than its time-out of 600 s"):
            transaction.commit()
        ticket = transaction.begin([PLACE])
    assert (ticket.producer_id, ticket.epoch) == (ID, epoch)
    assert len(asked(broker, Api.INIT_PRODUCER_ID)) == 1


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(described(EPOCH + 2), id="aborted, but further than by the time-out"),
        pytest.param(described(EPOCH + 1, "Empty"), id="initialised"),
        pytest.param(described(EPOCH + 1, "Ongoing"), id="with another transaction"),
        pytest.param(described(EPOCH + 1, "CompleteCommit"), id="that has committed"),
        pytest.param(described(0, producer=ID + 1), id="with another producer id"),
        pytest.param(described(EPOCH), id="without a new epoch"),
        pytest.param(described(code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), id="that may not be looked at"),
    ],
)
def test_one_that_may_have_been_taken_is_given_up(monkeypatch, known):
    with (
        opened(monkeypatch, FENCED, known=known) as (transaction, _),
        pytest.raises(Fenced, match="longer than its time-out of 600 s, or another one has taken over its id since"),
    ):
        transaction.commit()


def test_one_whose_time_is_not_over_is_not_even_looked_at(monkeypatch):
    with (
        opened(monkeypatch, FENCED, known=described(), seconds=500) as (transaction, broker),
        pytest.raises(Fenced, match="is fenced: another one has taken over its id"),
    ):
        transaction.commit()
    assert not asked(broker, Api.DESCRIBE_TRANSACTIONS)


@pytest.mark.parametrize("first", [NO_ANSWER, ended(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
def test_one_whose_end_was_not_answered_goes_on_where_ends_give_epochs(monkeypatch, first):
    """Had it been committed, the next epoch would be that of a commit, and a successor's be behind it."""
    with opened(monkeypatch, first, known=described(), generation=Generation.SECOND) as (transaction, broker):
        if first is NO_ANSWER:
            with pytest.raises(EndUnknown):
                transaction.commit()
        broker.answers[Api.END_TXN] = [first, FENCED] if first is not NO_ANSWER else [FENCED]
        transaction.init()
        ticket = transaction.begin([PLACE])
    assert (ticket.producer_id, ticket.epoch) == (ID, EPOCH + 1)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS])
def test_one_whose_end_may_stand_in_the_log_though_it_was_refused_is_given_up(monkeypatch, code):
    """Where ends give no epochs: the next one may be that of a successor."""
    with (
        opened(monkeypatch, ended(code), FENCED, known=described()) as (transaction, _),
        pytest.raises(Fenced),
    ):
        transaction.commit()


@pytest.mark.parametrize(
    "known", [described(EPOCH + 1, "CompleteCommit"), described(EPOCH + 2), described(EPOCH + 2, "Empty")]
)
def test_one_whose_end_was_not_answered_is_given_up_where_it_may_have_been_committed(monkeypatch, known):
    with opened(monkeypatch, NO_ANSWER, known=known, generation=Generation.SECOND) as (transaction, broker):
        with pytest.raises(EndUnknown):
            transaction.commit()
        broker.answers[Api.END_TXN] = [FENCED]
        with pytest.raises(Fenced):
            transaction.init()


def test_one_that_may_have_ended_before_is_given_up(monkeypatch):
    """The commit that was not answered may have taken place, and then the next epoch is that of a successor."""
    with opened(monkeypatch, NO_ANSWER, known=described()) as (transaction, broker):
        with pytest.raises(EndUnknown):
            transaction.commit()
        broker.answers[Api.END_TXN] = [FENCED]
        with pytest.raises(Fenced):
            transaction.init()
    assert not asked(broker, Api.DESCRIBE_TRANSACTIONS)


def test_a_commit_that_is_answered_by_an_unknown_error_may_have_taken_place(monkeypatch):
    with (
        opened(monkeypatch, ended(ErrorCode.UNKNOWN_SERVER_ERROR), known=described()) as (transaction, _),
        pytest.raises(EndUnknown, match="its coordinator answers with an unknown error"),
    ):
        transaction.commit()


def test_one_that_never_began_is_given_up(monkeypatch):
    with opened(monkeypatch, FENCED, known=described()) as (transaction, broker):
        broker.answers[Api.INIT_PRODUCER_ID] = [{**broker.answers[Api.INIT_PRODUCER_ID][0], "producer_epoch": 5}]
        broker.answers[Api.END_TXN] = [ended(ErrorCode.NONE)]
        transaction.abort()
        broker.answers[Api.ADD_PARTITIONS_TO_TXN] = [added(ErrorCode.PRODUCER_FENCED)]
        with pytest.raises(Fenced):
            transaction.begin([PLACE])
        monkeypatch.setattr(transactions, "_now", lambda: 9_999.0)
        broker.answers[Api.END_TXN] = [FENCED]
        with pytest.raises(Fenced):
            transaction.init()
    assert not asked(broker, Api.DESCRIBE_TRANSACTIONS)


def test_one_that_was_not_announced_goes_on_if_something_was_written(monkeypatch):
    given = {"known": described(), "generation": Generation.SECOND, "announce": False}
    with opened(monkeypatch, FENCED, **given) as (transaction, broker):
        transaction.joined()
        with pytest.raises(Overdue):
            transaction.commit()
        assert not asked(broker, Api.ADD_PARTITIONS_TO_TXN)
        ticket = transaction.begin([PLACE], announce=False)
    assert (ticket.producer_id, ticket.epoch) == (ID, EPOCH + 1)


def test_one_of_which_nothing_is_known_to_be_written_goes_on_where_only_the_time_out_can_have_aborted_it(monkeypatch):
    """As one whose first batch was stored, and the answer to it lost."""
    given = {"known": described(), "generation": Generation.SECOND, "announce": False}
    with opened(monkeypatch, FENCED, **given) as (transaction, _):
        transaction.init()
        ticket = transaction.begin([PLACE], announce=False)
    assert (ticket.producer_id, ticket.epoch) == (ID, EPOCH + 1)


@pytest.mark.parametrize(
    "known", [described(EPOCH + 2), described(EPOCH + 1, "Empty"), described(EPOCH + 1, "Ongoing")]
)
def test_one_of_which_nothing_is_known_to_be_written_is_given_up_where_a_successor_may_have_been(monkeypatch, known):
    """Its coordinator may never have had it open: a successor then has the next epoch, and the one behind its abort."""
    given = {"known": known, "generation": Generation.SECOND, "announce": False}
    with opened(monkeypatch, FENCED, **given) as (transaction, _), pytest.raises(Fenced):
        transaction.init()


def test_one_of_the_first_generation_is_announced_always(monkeypatch):
    given = {"known": described(), "announce": False}
    with opened(monkeypatch, FENCED, **given) as (transaction, broker), pytest.raises(Overdue):
        transaction.commit()
    assert len(asked(broker, Api.ADD_PARTITIONS_TO_TXN)) == 1


def test_one_is_announced_where_what_is_written_does_not_join_by_itself(monkeypatch):
    given = {"known": described(), "generation": Generation.SECOND, "announce": False, "serves_produce": False}
    with opened(monkeypatch, FENCED, **given) as (_, broker):
        assert len(asked(broker, Api.ADD_PARTITIONS_TO_TXN)) == 1


@pytest.mark.parametrize(("seconds", "asks"), [(0.01, 1), (0.03, 0)])
def test_one_right_behind_another_is_announced_where_markers_may_be_on_their_way(monkeypatch, seconds, asks):
    given = {"known": described(), "generation": Generation.SECOND, "announce": False, "seconds": 10}
    with opened(monkeypatch, ended(ErrorCode.NONE), **given) as (transaction, broker):
        transaction.commit()
        monkeypatch.setattr(transactions, "_now", lambda: 10 + seconds)
        transaction.begin([PLACE], announce=False)
    assert len(asked(broker, Api.ADD_PARTITIONS_TO_TXN)) == asks


def test_the_last_epoch_is_left_to_the_cluster(monkeypatch):
    """It needs one to fence with."""
    known = described(LAST_EPOCH + 1)
    with opened(monkeypatch, FENCED, known=known, epoch=LAST_EPOCH) as (transaction, _), pytest.raises(Fenced):
        transaction.commit()
