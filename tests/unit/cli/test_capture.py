"""What `runnel capture` tells people: of its arguments, and on stderr while it runs."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from runnel.capture.lag import Pace
from runnel.capture.opening import SCHEMES
from runnel.capture.snapshots import Progress
from runnel.capture.watching import Numbers
from runnel.cli import capture, capture_options


class Flickering(threading.Event):
    """Set while it is waited for, and not right after: the database goes away at once."""

    def wait(self, timeout=None):
        return True


def test_that_changes_are_read_is_told_once_also_if_they_are_not_for_a_while(monkeypatch, capsys):
    monkeypatch.setattr(capture, "PROGRESS_SECONDS", 0.001)
    looks, done = iter(range(3)), threading.Event()

    class Watching:
        @property
        def numbers(self):
            if next(looks, None) is None:
                done.set()
            return SimpleNamespace(events={})

    work = SimpleNamespace(progress=Progress(2, 2), is_streaming=Flickering())
    capture._tell(work, Watching(), done)
    assert capsys.readouterr().err == "reading changes: 2 rows are read\n"


def test_rows_percent_and_time_left_are_told_of_the_tables(capsys):
    clock = [0.0]
    pace, work = Pace(lambda: clock[0]), SimpleNamespace(progress=Progress(1_000, 40_000_000))

    def told(seconds, read, shown):
        clock[0], work.progress.read = seconds, read
        assert capture._tell_rows(work, shown, pace) == read
        return capsys.readouterr().err

    assert told(0.0, 1_000, -1) == "reading tables: 1,000 rows of about 40,000,000 (0 %)\n"
    assert told(1.0, 1_000, 1_000) == ""  # as it was shown
    assert (
        told(10.0, 100_001_000 // 10, 1_000)
        == "reading tables: 10,000,100 rows of about 40,000,000 (25 %), 30 s left\n"
    )
    assert told(60.0, 20_000_000, 0) == "reading tables: 20,000,000 rows of about 40,000,000 (50 %), 1 min left\n"
    assert told(70.0, 41_000_000, 0).startswith(
        "reading tables: 41,000,000 rows of about 40,000,000 (100 %), 0 ms left"
    )


def test_a_time_left_of_hours_is_told_in_hours_and_of_an_unknown_number_of_rows_nothing_is(capsys):
    clock = [0.0]
    pace, work = Pace(lambda: clock[0]), SimpleNamespace(progress=Progress(0, 100_000))
    capture._tell_rows(work, 0, pace)
    clock[0], work.progress.read = 30.0, 400
    capture._tell_rows(work, 0, pace)
    assert capsys.readouterr().err == "reading tables: 400 rows of about 100,000 (0 %), 2 h 4 min left\n"
    work.progress.estimate = 0
    capture._tell_rows(work, 0, pace)
    assert capsys.readouterr().err == "reading tables: 400 rows\n"


def test_changes_are_told_with_the_lag_in_seconds_and_in_the_log():
    numbers = Numbers(
        name="shop",
        is_streaming=True,
        rows=10,
        estimate=10,
        seconds_left=None,
        transactions=4,
        steps=9,
        lag_seconds=1.25,
        behind=1_234_567,
        unit="bytes",
        retained=None,
        events={("shop.main.a", "c"): 1_000, ("shop.main.b", "u"): 234},
    )
    told = "reading changes: 1,234 events are written, 1.2 s behind, 1,234,567 bytes of the log behind"
    assert capture._changes_line(numbers) == told
    assert capture._changes_line(replace(numbers, rejected={"shop.main.a": 2})) == f"{told}, 2 rejected"
    assert (
        capture._changes_line(replace(numbers, behind=None))
        == "reading changes: 1,234 events are written, 1.2 s behind"
    )


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "sqlite"])
def test_the_help_names_the_address_of_every_kind_of_database(kind):
    (argument,) = capture_options.Url.__metadata__
    assert f"{kind}:" in argument.help
    assert kind in SCHEMES


def test_a_rate_that_is_no_number_is_wrong_usage(runnel):
    result = runnel("capture", "run", "shop", "sqlite:shop.db", "--snapshot-rate", "nan")
    assert (result.code, result.out) == (2, "")
    assert "\nError: Invalid value for '--snapshot-rate': 'nan' is no number." in result.err
