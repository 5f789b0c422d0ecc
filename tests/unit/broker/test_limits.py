from contextlib import suppress

import pytest

from runnel.broker.limits import LEAST_FETCH, RECEIVED_BYTES, SECONDS_FOR_A_TURN, Connections, Received, Unsent
from tests.unit.broker.socketless import Loop

LIMIT = 1_000


class Reader:
    """A connection that notes what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[str] = []

    def __repr__(self) -> str:
        return self.name

    def go_on_reading(self) -> None:
        self.told.append("go on")

    def give_up(self, reason: str) -> None:
        self.told.append(reason)

    @property
    def goes_on(self) -> bool:
        return self.told == ["go on"]


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


# --- Connections


def test_connections_are_admitted_up_to_the_limit():
    connections = Connections()
    assert [connections.admit("a", 2, 9) for _ in range(3)] == [None, None, "max.connections = 2 are open"]
    assert connections.total == 2


def test_each_address_has_its_own_limit():
    connections = Connections()
    assert connections.admit("a", 9, 1) is None
    assert connections.admit("a", 9, 1) == "max.connections.per.ip = 1 of them are open"
    assert connections.admit("b", 9, 1) is None


def test_a_connection_that_leaves_makes_room():
    connections = Connections()
    connections.admit("a", 1, 1)
    connections.release("a")
    assert connections.admit("a", 1, 1) is None


def test_a_limit_of_0_refuses_everybody():
    assert Connections().admit("a", 0, 1) == "max.connections = 0 are open"


# --- Received


def test_without_a_setting_there_is_a_limit_all_the_same(loop):
    received = Received(loop, -1)
    received.arriving = RECEIVED_BYTES - 1
    assert not received.is_full
    received.under_way = 1
    assert received.is_full


def test_all_go_on_when_there_is_room(loop):
    received = Received(loop, LIMIT)
    received.under_way = LIMIT
    first, *others = readers = [Reader(name) for name in "abc"]
    for reader in readers:
        received.wait(reader)
    received.under_way = 0
    received.made_room()
    assert all(reader.goes_on for reader in others)
    assert "go on" in first.told


def test_half_received_requests_go_on_one_at_a_time(loop):
    received = Received(loop, LIMIT)
    received.arriving = 2 * LIMIT
    first, second, third = readers = [Reader(name) for name in "abc"]
    for reader in readers:
        received.wait(reader)
    assert [reader.goes_on for reader in readers] == [True, False, False]
    received.forget(first)  # its request is whole
    assert [reader.goes_on for reader in readers] == [True, True, False]
    received.forget(second)
    assert third.goes_on


def test_whoever_has_the_turn_keeps_it_until_its_request_is_whole(loop):
    received = Received(loop, LIMIT)
    received.arriving = 2 * LIMIT
    first, second = Reader("a"), Reader("b")
    received.wait(first)
    received.wait(second)
    received.wait(first)  # more of it has come, and it is still not whole
    assert first.told == ["go on", "go on"]
    assert second.told == []


def test_requests_under_way_that_fill_the_limit_let_nobody_in(loop):
    """They will be answered and make room; each turn would add one more to what is held."""
    received = Received(loop, LIMIT)
    received.under_way = LIMIT
    reader = Reader("a")
    received.wait(reader)
    assert reader.told == []
    received.under_way = LIMIT - 1
    received.made_room()
    assert reader.goes_on


def test_a_request_that_stalls_in_its_turn_is_given_up(loop):
    received = Received(loop, LIMIT)
    received.arriving = 2 * LIMIT
    first, second = Reader("a"), Reader("b")
    received.wait(first)
    received.wait(second)
    loop.advance(SECONDS_FOR_A_TURN - 1)
    assert first.goes_on
    loop.advance(1)
    assert first.told == ["go on", f"its request was not whole after {SECONDS_FOR_A_TURN} s while memory was short"]
    received.forget(first)  # as the end of its connection does
    assert second.goes_on


def test_a_request_that_is_whole_in_its_turn_is_not_given_up(loop):
    received = Received(loop, LIMIT)
    received.arriving = 2 * LIMIT
    reader = Reader("a")
    received.wait(reader)
    received.forget(reader)
    loop.advance(2 * SECONDS_FOR_A_TURN)
    assert reader.told == ["go on"]


def test_a_connection_that_leaves_while_it_waits_gets_no_turn(loop):
    received = Received(loop, LIMIT)
    received.arriving = 2 * LIMIT
    first, second, third = Reader("a"), Reader("b"), Reader("c")
    for reader in (first, second, third):
        received.wait(reader)
    received.forget(second)
    received.forget(first)
    assert second.told == []
    assert third.goes_on


# --- Unsent


def test_a_fetch_gets_what_it_asks_for_while_little_is_unsent():
    assert Unsent(LIMIT * LEAST_FETCH).allowance(5_000_000) == 5_000_000


def test_the_more_is_unsent_the_less_a_fetch_gets():
    unsent = Unsent(10 * LEAST_FETCH)
    unsent.total = 8 * LEAST_FETCH
    assert unsent.allowance(5_000_000) == 2 * LEAST_FETCH


def test_a_fetch_gets_a_little_however_much_is_unsent():
    unsent = Unsent(10 * LEAST_FETCH)
    unsent.total = 100 * LEAST_FETCH
    assert unsent.allowance(5_000_000) == LEAST_FETCH
    assert unsent.allowance(10) == 10


def test_what_is_being_read_counts_as_unsent_until_it_is_read():
    unsent = Unsent(10 * LEAST_FETCH)
    with unsent.held(9 * LEAST_FETCH):
        assert unsent.allowance(5_000_000) == LEAST_FETCH
    assert unsent.allowance(5_000_000) == 10 * LEAST_FETCH


def test_what_could_not_be_read_is_not_counted_for_ever():
    unsent = Unsent()
    with suppress(OSError), unsent.held(9 * LEAST_FETCH):
        raise OSError("the disk")
    assert unsent.total == 0
