from contextlib import contextmanager

import pytest

from runnel.views.catalog import Catalog
from runnel.views.errors import Fenced, StoreLocked, StoreUnreachable, ViewTaken
from tests.contract.views.clicks import CLICKS, QUERY, claimed, content, marker, seen, told


def test_a_later_claim_fences_the_earlier_writer_for_good(store):
    with claimed(store) as first:
        first.apply(seen(("a", 1)), marker(0))
        with claimed(store) as second:
            for _ in range(2):
                with pytest.raises(Fenced, match="stop this copy") as caught:
                    first.apply(seen(("a", 99), ("b", 99)), marker(1))
                assert (caught.value.view, caught.value.query) == ("clicks", QUERY)
            second.apply(seen(("a", 2)), marker(1))
            with pytest.raises(Fenced):
                first.apply(seen(("a", 99)), marker(2))
        with pytest.raises(Fenced):
            first.apply(seen(("a", 99)), marker(2))
    assert content(store) == {"a": 2}
    assert told(store) == [(0, "insert", "a", None, 1), (1, "update", "a", 1, 2)]


def test_a_fenced_writer_reads_no_marker_and_trims_nothing(store):
    with claimed(store) as first, claimed(store):
        with pytest.raises(Fenced):
            first.marker()
        with pytest.raises(Fenced):
            first.trim()


def test_a_fenced_writer_is_fenced_on_a_repeat_too(store):
    with claimed(store) as first:
        first.apply(seen(("a", 1)), marker(0))
        with claimed(store), pytest.raises(Fenced):
            first.apply(seen(("a", 1)), marker(0))


def test_the_successor_sees_the_marker_of_the_one_before(store):
    with claimed(store) as first:
        first.apply(seen(("a", 1)), marker(7, at=1))
    with claimed(store) as second:
        assert second.marker() == marker(7, at=1)


def test_a_writer_that_claims_again_goes_on(store):
    with claimed(store) as first:
        with claimed(store):
            pass
        first.claim()
        first.apply(seen(("a", 1)), marker(0))
    assert content(store) == {"a": 1}


def test_a_claim_of_one_view_fences_nobody_of_another(store):
    other = type(CLICKS)("other", CLICKS.key, CLICKS.schema)
    with claimed(store) as writer:
        with claimed(store, other):
            pass
        writer.apply(seen(("a", 1)), marker(0))
    assert content(store) == {"a": 1}


def test_a_view_of_another_query_is_refused(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        with store.writer(CLICKS, "other.query") as stranger, pytest.raises(ViewTaken) as caught:
            stranger.claim()
        assert caught.value.owner == QUERY
        writer.apply(seen(("a", 2)), marker(1))
    assert content(store) == {"a": 2}


def test_a_writer_that_hangs_in_its_transaction_does_not_keep_its_successor_waiting_for_ever(open_at, kind):
    store = open_at(patience=0.3)
    with claimed(store) as first, store.writer(CLICKS, QUERY) as second:
        first.apply(seen(("a", 1)), marker(0))
        with hanging(first):
            if kind == "sqlite":  # nobody can take the file's lock from another process
                with pytest.raises(StoreLocked, match=r"written to by another process for 0\.3 s"):
                    second.claim()
            else:
                second.claim()
                second.apply(seen(("a", 2)), marker(1))
        if kind == "postgres":
            with pytest.raises(StoreUnreachable):
                first.apply(seen(("a", 99)), marker(1))
            with pytest.raises(Fenced):
                first.apply(seen(("a", 99)), marker(1))
            assert content(store) == {"a": 2}
        else:
            second.claim()
            assert content(store) == {"a": 1}


@contextmanager
def hanging(writer):
    """A writer in the middle of a transaction, which it never commits."""
    with writer._database.writing():
        Catalog(writer._database).find("clicks", hold=True)
        writer._database.run(f'DELETE FROM {writer._database.schema}"clicks"')
        yield


def test_a_claim_comes_before_a_batch_or_after_it_never_into_it(open_at, kind, monkeypatch):
    store = open_at(patience=0.3)
    with claimed(store) as first, store.writer(CLICKS, QUERY) as second:
        first.apply(seen(("a", 1)), marker(0))
        claims = []
        in_the_middle(monkeypatch, first, lambda: claims.append(claim(second)))
        if kind == "sqlite":
            first.apply(seen(("a", 2)), marker(1))
            assert claims == [StoreLocked]
        else:
            with pytest.raises(StoreUnreachable):
                first.apply(seen(("a", 2)), marker(1))
            assert claims == [None]
            assert content(store) == {"a": 1}
            assert second.marker() == marker(0)


def in_the_middle(monkeypatch, writer, action):
    """Do something when the writer has found that its claim is in force, and is about to write."""
    database = writer._database
    run = database.run

    def run_after_action(statement, *values):
        if statement.startswith("INSERT INTO") and "runnel_touched" in statement.split("(")[0]:
            action()
        return run(statement, *values)

    monkeypatch.setattr(database, "run", run_after_action)


def claim(writer):
    try:
        writer.claim()
    except StoreLocked as error:
        return type(error)
    return None
