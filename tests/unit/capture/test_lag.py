"""How far behind, in time."""

from runnel.capture.envelope import Envelope
from runnel.capture.events import Began, Ended, Passed, Position
from runnel.capture.lag import Lag, Pace
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Selection
from runnel.capture.stream import Stream
from tests.unit.capture.customers import NoSource

SECOND = 1_000_000


def transaction(number, committed):
    return [Began(str(number), committed), Ended(str(number), {"at": number}, committed)]


def reading():
    envelope = Envelope("p", NoSource(), Selection())
    return Stream(envelope, Position({"at": 0}), transactions=False), envelope.lag


def test_while_changes_come_it_is_the_age_of_the_last_one():
    stream, lag = reading()
    stream.tell(transaction(1, 10 * SECOND), Outgoing(), 14 * SECOND)
    assert lag.seconds(14 * SECOND) == 4.0
    assert lag.transactions == 1
    stream.tell([Began("2", 11 * SECOND)], Outgoing(), 15 * SECOND)
    assert lag.seconds(15 * SECOND) == 5.0


def test_a_source_with_nothing_more_is_not_behind_however_old_the_last_change_is():
    stream, lag = reading()
    stream.tell(transaction(1, 10 * SECOND), Outgoing(), 14 * SECOND)
    stream.tell([], Outgoing(), 15 * SECOND)
    assert lag.seconds(15 * SECOND) == 0.0
    stream.tell(transaction(2, 16 * SECOND), Outgoing(), 17 * SECOND)
    stream.tell([Passed({"at": 9})], Outgoing(), 900 * SECOND)
    assert lag.seconds(901 * SECOND) == 0.0


def test_a_source_that_passes_what_is_not_for_us_is_behind_until_there_is_no_more_of_it():
    stream, lag = reading()
    stream.tell([Passed({"at": 9}, 10 * SECOND)], Outgoing(), 14 * SECOND)
    assert lag.seconds(14 * SECOND) == 4.0
    assert lag.transactions == 0
    stream.tell([Passed({"at": 19})], Outgoing(), 20 * SECOND)
    assert lag.seconds(20 * SECOND) == 0.0


def test_a_clock_of_the_database_that_is_ahead_shows_no_lag_and_one_that_is_behind_shows_more():
    stream, lag = reading()
    stream.tell(transaction(1, 7_200 * SECOND), Outgoing(), 14 * SECOND)
    assert lag.seconds(15 * SECOND) == 0.0
    stream.tell(transaction(2, -7_200 * SECOND), Outgoing(), 16 * SECOND)
    assert lag.seconds(16 * SECOND) == 7_216.0
    stream.tell([], Outgoing(), 17 * SECOND)
    assert lag.seconds(17 * SECOND) == 0.0


def test_without_readings_it_grows():
    stream, lag = reading()
    stream.tell([], Outgoing(), 15 * SECOND)
    assert lag.seconds(60 * SECOND) == 45.0


def test_before_the_first_reading_nothing_is_said():
    assert Lag().seconds(SECOND) == 0.0


def test_the_time_left_is_by_the_rate_of_the_last_minute():
    clock = [0.0]
    pace = Pace(lambda: clock[0])
    assert pace.seconds_left(100) is None
    pace.see(0)
    assert pace.seconds_left(100) is None
    clock[0] = 10.0
    pace.see(100)
    assert pace.seconds_left(50) == 5.0
    assert pace.seconds_left(-5) == 0.0
    clock[0] = 70.0
    pace.see(100)  # nothing for a minute
    clock[0] = 80.0
    pace.see(110)
    assert pace.seconds_left(70) == 490.0
