"""When alerts begin and end. Time is what the progress says."""

import pytest

from runnel.app.alerts import Alerts
from runnel.app.progress import AppProgress, QueryProgress
from runnel.graph.alert import Alert, AlertRule


class Told:
    """Alerts that are shown one query's progress, second by second; what they tell is `begins` or `ends`."""

    def __init__(self, alert, **rule):
        self.alerts = Alerts([AlertRule(alert, **rule)])

    def at(self, second, *, disk=None, **query):
        queries = (QueryProgress("pages", **query),)
        events = self.alerts.look(AppProgress("shop", second * 1000, second, queries, disk))
        return ["begins" if event.begins else "ends" for event in events]


@pytest.mark.parametrize("kind", ["late", "rejected"])
def test_a_share_of_the_rows_of_the_last_minutes(kind):
    told = Told(getattr(Alert, kind)(share=0.1, over="1 minute"))
    assert told.at(1, in_time=90, **{kind: 10}) == []  # a tenth is not above
    assert told.at(2, in_time=90, **{kind: 11}) == ["begins"]
    assert told.at(3, in_time=90, **{kind: 12}) == []
    assert told.at(62, in_time=90, **{kind: 12}) == []  # second 2 to 62: 1 of 1
    assert told.at(63, in_time=90, **{kind: 12}) == ["ends"]
    assert told.at(64, in_time=91, **{kind: 13}) == ["begins"]


def test_the_rows_of_a_short_first_look_count():
    assert Told(Alert.rejected()).at(0, in_time=100, rejected=1) == ["begins"]


def test_what_is_rejected_is_forgotten_after_a_while():
    told = Told(Alert.rejected(over="10 seconds"))
    assert told.at(1, in_time=1, rejected=1) == ["begins"]
    assert told.at(10, in_time=500, rejected=1) == []
    assert told.at(11, in_time=600, rejected=1) == ["ends"]


def test_a_lag_must_last():
    told = Told(Alert.lag(records=10, lasting="5 seconds"))
    assert told.at(1, lag={"clicks": 6, "orders": 5}) == []
    assert told.at(3, lag={"clicks": 10}) == []  # not above: it begins anew
    assert told.at(4, lag={"clicks": 11}) == []
    assert told.at(8, lag={"clicks": 11}) == []
    assert told.at(9, lag={"clicks": 11}) == ["begins"]
    assert told.at(10, lag=None) == []  # nobody knows
    assert told.at(11, lag={"clicks": 10}) == ["ends"]


def test_a_batch_that_is_slow_while_it_runs_and_behind():
    told = Told(Alert.slow(batch="2 seconds"))
    assert told.at(1) == []
    assert told.at(2, under_way=2.0) == []
    assert told.at(3, under_way=2.1) == ["begins"]
    assert told.at(4, seconds=3.0) == []
    assert told.at(5, seconds=3.0, under_way=0.5) == []
    assert told.at(6, seconds=1.0) == ["ends"]


def test_a_watermark_that_stands_still():
    told = Told(Alert.still(lasting="10 seconds"))
    assert told.at(1, has_time=True) == []  # nothing was read yet
    assert told.at(20, has_time=True, batches=1) == []
    assert told.at(29, has_time=True, batches=1, watermark=5) == []
    assert told.at(38, has_time=True, batches=2, watermark=5) == []
    assert told.at(47, has_time=True, batches=3, watermark=5) == []
    assert told.at(48, has_time=True, batches=3, watermark=5) == ["begins"]
    assert told.at(49, has_time=True, batches=3, watermark=6) == ["ends"]


def test_a_time_in_which_nothing_comes_is_none_in_which_the_watermark_stands_still():
    told = Told(Alert.still(lasting="10 seconds"))
    assert told.at(1, has_time=True, batches=1) == []
    assert told.at(2, has_time=True, batches=2, watermark=5) == []
    assert told.at(1_000, has_time=True, batches=2, watermark=5) == []
    assert told.at(1_001, has_time=True, batches=3, watermark=5) == []  # the batch of what came then
    assert told.at(1_002, has_time=True, batches=4, watermark=6) == []


def test_a_watermark_that_never_comes():
    told = Told(Alert.still(lasting="10 seconds"))
    assert told.at(0, has_time=True, batches=1) == []
    assert told.at(10, has_time=True, batches=2) == ["begins"]


def test_without_event_time_no_watermark_stands_still():
    told = Told(Alert.still(lasting="10 seconds"))
    assert [told.at(second, batches=1) for second in (0, 100)] == [[], []]


def test_a_disk_that_has_little_room():
    told = Told(Alert.disk(free=100))
    assert told.at(1) == []
    assert told.at(2, disk=100) == []
    assert told.at(3, disk=99) == ["begins"]
    assert told.at(4) == []
    assert told.at(5, disk=200) == ["ends"]


def test_a_rule_is_of_the_outputs_that_it_names():
    assert Told(Alert.rejected(), outputs=("other",)).at(1, rejected=1) == []
    assert Told(Alert.rejected(), outputs=("pages",)).at(1, rejected=1) == ["begins"]


def test_queries_are_apart():
    alerts = Alerts([AlertRule(Alert.rejected())])
    queries = (QueryProgress("pages", rejected=1), QueryProgress("stays"))
    assert [event.query for event in alerts.look(AppProgress("shop", 0, 0, queries))] == ["pages"]
    queries = (QueryProgress("pages", rejected=1), QueryProgress("stays", rejected=1))
    assert [event.query for event in alerts.look(AppProgress("shop", 0, 1, queries))] == ["stays"]
    assert len(alerts.active) == 2


def test_an_event_says_all_that_a_program_needs():
    alerts = Alerts([AlertRule(Alert.rejected(over="1 minute"), topic="ops")])
    progress = AppProgress("shop", 1_767_225_600_000, 30, (QueryProgress("pages", in_time=3, rejected=1),))
    (event,) = alerts.look(progress)
    assert event.key == "shop.pages.rejected"
    assert event.to_object() == {
        "app": "shop",
        "query": "pages",
        "alert": "rejected",
        "state": "begins",
        "what": "1 of the 4 rows of the last 60 s were rejected (25.00%), the limit is 0.00%",
        "value": 0.25,
        "limit": 0.0,
        "time": "2026-01-01T00:00:00.000+00:00",
    }
    assert alerts.active == ("pages: 1 of the 4 rows of the last 60 s were rejected (25.00%), the limit is 0.00%",)
