import logging
import struct
import tracemalloc

import pytest

from runnel.broker.connection import REQUESTS_AT_ONCE, REQUESTS_UNDER_WAY
from runnel.broker.lines import LINES_PER_PERIOD, PERIOD
from runnel.broker.request import LongPoll, Silence
from tests.unit.broker.socketless import Room, ask, fetch, frame, heartbeat, room


@pytest.fixture
def stage(monkeypatch):
    with room(monkeypatch) as made:
        yield made


# --- order and turns


def test_answers_leave_in_the_order_of_the_requests(stage: Room):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(ask(1) + ask(2) + ask(3))
    stage.handlers.later[3].set_result(stage.handlers.body())
    stage.handlers.later[2].set_result(stage.handlers.body())
    stage.loop.turn(2)
    assert transport.answers == []
    stage.handlers.later[1].set_result(stage.handlers.body())
    stage.loop.turn(2)
    assert transport.answers == [1, 2, 3]


def test_answers_of_the_same_moment_leave_together(stage: Room, monkeypatch):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    written = []
    monkeypatch.setattr(transport, "write", written.append)
    connection.data_received(ask(1) + ask(2) + ask(3) + ask(4))
    for number in (1, 2, 3):
        stage.handlers.later[number].set_result(stage.handlers.body())
    stage.loop.turn(3)
    assert len(written) == 1
    stage.handlers.later[4].set_result(stage.handlers.body())
    stage.loop.turn(3)
    transport.written = b"".join(written)
    assert (len(written), transport.answers) == (2, [1, 2, 3, 4])


def test_a_connection_begins_so_many_requests_and_no_more(stage: Room):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(b"".join(ask(number) for number in range(200)))
    stage.loop.turn(20)
    assert stage.handlers.ids == list(range(REQUESTS_UNDER_WAY))
    assert not transport.reading
    stage.handlers.later[0].set_result(stage.handlers.body())
    stage.loop.turn(3)
    assert stage.handlers.ids == list(range(REQUESTS_UNDER_WAY + 1))


def test_all_of_many_requests_are_answered_and_then_read_on(stage: Room):
    connection, transport = stage.connect()
    connection.data_received(b"".join(ask(number) for number in range(1_000)))
    stage.loop.turn(1_000)
    assert transport.answers == list(range(1_000))
    assert transport.reading


def test_a_connection_with_thousands_of_requests_lets_another_one_in_between(stage: Room):
    greedy, _ = stage.connect()
    modest, answered = stage.connect("10.0.0.2")
    greedy.data_received(b"".join(ask(number) for number in range(5_000)))
    modest.data_received(ask(7))
    assert answered.answers == [7]
    assert len(stage.handlers.begun) <= REQUESTS_AT_ONCE + 1
    stage.loop.turn()
    modest.data_received(ask(8))
    assert answered.answers == [7, 8]
    assert len(stage.handlers.begun) <= 2 * REQUESTS_AT_ONCE + 2


def test_a_fetch_is_begun_when_all_before_it_is_answered(stage: Room):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(ask(1) + fetch(2) + fetch(3) + ask(4))
    stage.loop.turn(3)
    assert stage.handlers.ids == [1]
    stage.handlers.later[1].set_result(stage.handlers.body())
    stage.loop.turn(3)
    assert stage.handlers.ids == [1, 2]
    assert not transport.reading


def test_a_fetch_that_comes_by_itself_is_begun_when_all_before_it_is_answered(stage: Room):
    stage.handlers.at_once = False
    connection, _ = stage.connect()
    connection.data_received(ask(1))
    connection.data_received(fetch(2))
    assert stage.handlers.ids == [1]
    stage.handlers.later[1].set_result(stage.handlers.body())
    stage.loop.turn(3)
    assert stage.handlers.ids == [1, 2]


def test_a_fetch_behind_a_request_that_is_answered_at_once_is_begun(stage: Room):
    connection, transport = stage.connect()
    stage.handlers.answer = lambda request: Silence()
    connection.data_received(ask(1) + fetch(2) + fetch(3) + ask(4))
    stage.loop.turn(5)
    assert stage.handlers.ids == [1, 2, 3, 4]
    assert transport.reading


# --- pieces


def test_a_request_that_comes_byte_by_byte_is_begun_when_it_is_whole(stage: Room):
    connection, transport = stage.connect()
    whole = ask(9)
    for byte in whole[:-1]:
        connection.data_received(bytes([byte]))
    assert stage.handlers.ids == []
    connection.data_received(whole[-1:])
    assert transport.answers == [9]


def test_requests_that_are_cut_anywhere_are_put_together_again(stage: Room):
    whole = ask(1) + ask(2, 300) + ask(3)
    for cut in range(1, len(whole)):
        connection, transport = stage.connect()
        connection.data_received(whole[:cut])
        connection.data_received(whole[cut:])
        assert transport.answers == [1, 2, 3]
        connection.connection_lost(None)


def test_a_request_in_many_small_pieces_costs_about_its_size(stage: Room):
    connection, _ = stage.connect()
    size = 400_000
    connection.data_received(struct.pack(">i", size))
    tracemalloc.start()
    try:
        for number in range(size // 2 - 1):
            connection.data_received(number.to_bytes(2, "big", signed=False) if number < 65536 else b"ab")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 * size


@pytest.mark.parametrize("length", [-1, 0, 7, 104_857_601])
def test_an_impossible_length_ends_the_connection(stage: Room, caplog, length):
    connection, transport = stage.connect()
    connection.data_received(struct.pack(">i", length))
    assert transport.aborted
    assert [record.getMessage() for record in caplog.records] == [
        f"the connection of 10.0.0.1 is closed: it announced a request of {length:,} bytes; at least 8 and at most "
        "socket.request.max.bytes = 104,857,600 are taken"
    ]


def test_what_comes_after_bytes_that_are_no_request_is_not_looked_at(stage: Room):
    connection, transport = stage.connect()
    connection.data_received(frame(struct.pack(">hhih", 999, 0, 1, -1)) + ask(2))
    connection.data_received(ask(3))
    stage.loop.turn(3)
    assert transport.aborted
    assert stage.handlers.begun == []


def test_bad_clients_fill_the_log_with_so_many_lines_and_no_more(stage: Room, caplog):
    for _ in range(10 * LINES_PER_PERIOD):
        connection, _ = stage.connect()
        connection.data_received(b"\xff" * 8)
        connection.connection_lost(None)
    assert len(caplog.records) == LINES_PER_PERIOD
    stage.clock.advance(PERIOD)
    connection, _ = stage.connect()
    connection.data_received(b"\xff" * 8)
    assert caplog.records[LINES_PER_PERIOD].getMessage() == "180 more lines like these were left out"


def test_a_handler_that_fails_again_and_again_does_not_fill_the_log(stage: Room, caplog):
    def fail(_: object) -> None:
        raise ValueError("a defect")

    stage.handlers.answer = fail
    for _ in range(100):
        connection, transport = stage.connect()
        connection.data_received(ask(1))
        assert transport.aborted
        connection.connection_lost(None)
    assert len(caplog.records) <= LINES_PER_PERIOD
    assert "a defect" in caplog.text
    assert caplog.records[0].levelno == logging.ERROR


def test_an_answer_that_fails_later_ends_the_connection(stage: Room, caplog):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(ask(1))
    stage.handlers.later[1].set_exception(ValueError("a defect"))
    stage.loop.turn(2)
    assert transport.aborted
    assert "API_VERSIONS v0 of 10.0.0.1 failed" in caplog.text


# --- clients that do not read


def test_nothing_is_begun_for_a_client_that_does_not_take_its_answers(stage: Room):
    connection, transport = stage.connect()
    connection.pause_writing()
    connection.data_received(ask(1) + ask(2))
    stage.loop.turn(3)
    assert stage.handlers.begun == []
    assert not transport.reading
    connection.resume_writing()
    assert transport.answers == [1, 2]
    assert transport.reading


def test_what_a_client_has_not_taken_is_counted_until_it_is_taken(stage: Room):
    connection, transport = stage.connect()
    transport.unsent = 5_000_000
    connection.pause_writing()
    assert stage.server.unsent.total == 5_000_000
    connection.resume_writing()
    assert stage.server.unsent.total == 0


def test_what_a_client_has_not_taken_is_no_longer_counted_when_it_is_gone(stage: Room):
    connection, transport = stage.connect()
    transport.unsent = 5_000_000
    connection.pause_writing()
    connection.connection_lost(None)
    assert stage.server.unsent.total == 0


def test_a_request_is_counted_from_its_first_byte_to_its_answer(stage: Room):
    stage.handlers.at_once = False
    received = stage.server.received
    connection, _ = stage.connect()
    whole = ask(1, 1_000)
    connection.data_received(whole[:100])
    assert (received.arriving, received.under_way) == (100, 0)
    connection.data_received(whole[100:])
    assert (received.arriving, received.under_way) == (0, len(whole))
    stage.handlers.later[1].set_result(stage.handlers.body())
    stage.loop.turn(2)
    assert (received.arriving, received.under_way) == (0, 0)


@pytest.mark.parametrize("data", [ask(1)[:9], ask(1), ask(1) + ask(2)[:-1], ask(1) + b"\xff" * 9, ask(1) * 100])
def test_nothing_stays_counted_of_a_connection_that_is_lost(stage: Room, data):
    stage.handlers.at_once = False
    connection, _ = stage.connect()
    connection.data_received(data)
    connection.connection_lost(None)
    assert (stage.server.received.arriving, stage.server.received.under_way) == (0, 0)
    assert stage.server.connections == set()


def test_a_long_poll_is_cancelled_when_its_client_is_gone(stage: Room):
    polls = []

    def wait(_: object) -> LongPoll:
        polls.append(LongPoll(loop=stage.loop))
        return polls[-1]

    stage.handlers.answer = wait
    connection, _ = stage.connect()
    connection.data_received(fetch(1))
    connection.connection_lost(None)
    assert polls[0].cancelled()


def test_an_answer_for_a_client_that_is_gone_is_dropped(stage: Room):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(ask(1))
    connection.connection_lost(None)
    stage.handlers.later[1].set_result(stage.handlers.body())
    stage.loop.turn(2)
    assert transport.written == b""


def test_a_request_that_asks_for_silence_gets_it(stage: Room):
    stage.handlers.answer = lambda request: Silence() if request.correlation_id == 1 else stage.handlers.body()
    connection, transport = stage.connect()
    connection.data_received(ask(1) + ask(2))
    assert transport.answers == [2]


# --- throttling


def test_a_throttled_client_gets_its_answer_first_and_is_mute_then(stage: Room):
    stage.handlers.answer = lambda request: stage.handlers.body(throttle_time=500 if request.correlation_id == 1 else 0)
    connection, transport = stage.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    stage.loop.turn(3)
    assert transport.answers == [1]
    assert not transport.reading
    stage.loop.advance(0.499)
    assert transport.answers == [1]
    stage.loop.advance(0.001)
    assert transport.answers == [1, 2]
    assert transport.reading
    assert stage.server.counters.throttled == 1


def test_a_mute_client_that_leaves_leaves_nothing_behind(stage: Room):
    stage.handlers.answer = lambda _: stage.handlers.body(throttle_time=500)
    connection, transport = stage.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    connection.connection_lost(None)
    stage.loop.advance(1)
    assert transport.answers == [1]


# --- limits


def test_connections_beyond_the_limit_are_refused_until_one_leaves(monkeypatch, caplog):
    with room(monkeypatch, max_connections=2) as stage:
        first, _ = stage.connect()
        stage.connect()
        refused, transport = stage.connect()
        assert transport.aborted
        assert caplog.messages == ["a connection from 10.0.0.1 was refused: max.connections = 2 are open"]
        refused.data_received(ask(1))
        refused.connection_lost(None)
        assert len(stage.server.connections) == 2
        first.connection_lost(None)
        _, transport = stage.connect()
        assert not transport.aborted


def test_connections_of_one_address_are_counted_apart(monkeypatch, caplog):
    with room(monkeypatch, max_connections_per_ip=1) as stage:
        stage.connect("10.0.0.1")
        _, refused = stage.connect("10.0.0.1")
        _, taken = stage.connect("10.0.0.2")
        assert (refused.aborted, taken.aborted) == (True, False)
        assert caplog.messages == [
            "a connection from 10.0.0.1 was refused: max.connections.per.ip = 1 of them are open"
        ]
        assert stage.server.counters.refused_connections == 1


def test_an_address_is_the_same_by_a_listener_of_both_families(monkeypatch):
    with room(monkeypatch, max_connections_per_ip=1) as stage:
        first, _ = stage.connect("::ffff:10.0.0.1")
        _, refused = stage.connect("10.0.0.1")
        other, _ = stage.connect("2001:db8::1")
        assert (first.host, other.host) == ("10.0.0.1", "2001:db8::1")
        assert refused.aborted


def test_large_requests_wait_while_memory_is_short_and_small_ones_do_not(monkeypatch):
    with room(monkeypatch, queued_max_request_bytes=1_000_000, socket_request_max_bytes=1_000_000) as stage:
        large = ask(1, 900_000)
        first, reads = stage.connect()
        second, waits = stage.connect()
        small, answered = stage.connect()
        first.data_received(large[:800_000])
        second.data_received(large[:800_000])
        assert (reads.reading, waits.reading) in ((True, False), (True, True))
        third, last = stage.connect()
        third.data_received(large[:200_000])
        assert not last.reading
        small.data_received(ask(5))
        assert answered.answers == [5]


def test_half_sent_requests_that_fill_the_memory_go_on_one_at_a_time(monkeypatch):
    with room(monkeypatch, queued_max_request_bytes=1_000_000, socket_request_max_bytes=1_000_000) as stage:
        large = ask(1, 900_000)
        clients = [stage.connect() for _ in range(5)]
        for connection, transport in clients:
            if transport.reading:
                connection.data_received(large[:400_000])
        for _ in range(5):
            assert sum(transport.reading for _, transport in clients) >= 1
            for connection, transport in clients:
                if transport.reading and not transport.answers:
                    connection.data_received(large[400_000:] if connection._arrived else large)
                    break
            stage.loop.turn(3)
        assert [transport.answers for _, transport in clients] == [[1]] * 5


# --- idle and stopping


def test_a_silent_connection_is_closed_after_its_time(monkeypatch):
    with room(monkeypatch, connections_max_idle_ms=1_000) as stage:
        _, silent = stage.connect()
        stage.clock.advance(600)
        busy, other = stage.connect()
        busy.data_received(ask(1))
        stage.clock.advance(600)
        stage.server.close_idle()
        assert (silent.aborted, other.aborted) == (True, False)


def test_a_connection_that_waits_for_its_answer_is_not_idle(monkeypatch):
    with room(monkeypatch, connections_max_idle_ms=1_000) as stage:
        stage.handlers.at_once = False
        connection, transport = stage.connect()
        connection.data_received(ask(1))
        stage.clock.advance(10_000)
        stage.server.close_idle()
        assert not transport.aborted


def test_a_client_that_has_not_taken_its_answers_for_long_is_closed(monkeypatch):
    with room(monkeypatch, connections_max_idle_ms=1_000) as stage:
        connection, transport = stage.connect()
        connection.pause_writing()
        connection.data_received(ask(1))
        stage.clock.advance(1_001)
        stage.server.close_idle()
        assert transport.aborted


def test_a_client_that_takes_long_to_send_its_request_is_not_silent(monkeypatch):
    with room(monkeypatch, connections_max_idle_ms=1_000) as stage:
        connection, transport = stage.connect()
        request = ask(1, size=1_000)
        for start in range(0, 800, 200):
            connection.data_received(request[start : start + 200])
            stage.clock.advance(600)
            stage.server.close_idle()
        assert not transport.aborted
        stage.clock.advance(1_001)
        stage.server.close_idle()
        assert transport.aborted


def test_a_client_that_takes_long_to_take_its_answer_is_not_silent(monkeypatch):
    with room(monkeypatch, connections_max_idle_ms=1_000) as stage:
        connection, transport = stage.connect()
        connection.data_received(ask(1))
        transport.unsent = 1_000
        connection.pause_writing()
        for _ in range(4):
            stage.clock.advance(600)
            transport.unsent -= 200
            stage.server.close_idle()
        assert not transport.aborted
        stage.clock.advance(1_001)
        stage.server.close_idle()
        assert transport.aborted


def test_a_client_is_not_silent_when_its_answer_took_long(monkeypatch):
    with room(monkeypatch, connections_max_idle_ms=1_000) as stage:
        stage.handlers.at_once = False
        connection, transport = stage.connect()
        connection.data_received(ask(1))
        stage.clock.advance(10_000)
        stage.server.close_idle()
        stage.handlers.later[1].set_result(stage.handlers.body())
        stage.loop.turn(3)
        stage.clock.advance(600)
        stage.server.close_idle()
        assert (transport.answers, transport.aborted) == ([1], False)


def test_without_a_limit_nobody_is_idle(monkeypatch):
    with room(monkeypatch, connections_max_idle_ms=-1) as stage:
        _, transport = stage.connect()
        stage.clock.advance(10**12)
        stage.server.close_idle()
        assert not transport.aborted


def test_a_stop_answers_what_is_under_way_and_begins_nothing_more(stage: Room):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(ask(1) + ask(2) + fetch(3))
    connection.stop()
    assert not transport.closed
    for number in (2, 1):
        stage.handlers.later[number].set_result(stage.handlers.body())
    stage.loop.turn(3)
    assert transport.answers == [1, 2]
    assert transport.closed
    connection.data_received(ask(4))
    assert stage.handlers.ids == [1, 2]


def test_a_stop_closes_a_connection_without_requests_at_once(stage: Room):
    connection, transport = stage.connect()
    connection.stop()
    assert transport.closed


def test_a_stop_does_not_wait_until_a_throttled_client_may_talk_again(stage: Room):
    stage.handlers.answer = lambda request: stage.handlers.body(throttle_time=60_000)
    connection, transport = stage.connect()
    connection.data_received(heartbeat(1))
    connection.stop()
    assert (transport.answers, transport.closed) == ([1], True)
