"""An app that was stopped for a while and catches up, as after a redeploy: windows of event time show nothing of it.

Whoever counts by the time of the computing sees a peak that never was: all that piled up is counted at once.
"""

from __future__ import annotations

from bisect import bisect
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker, Reading
from tests.pipeline.operators import SCHEMA
from tests.pipeline.scene import HOUR, SECOND, START, Scene
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

MINUTE = 60  # seconds, and records: one each second
BEFORE, AWAY, AFTER = 2, 10, 2  # minutes
MINUTES = BEFORE + AWAY + AFTER
PARTITIONS = 3
ROWS = 250  # of a batch: what piles up takes several


def counting() -> App:
    app = App("redeployed")
    clicks = app.stream("clicks", schema=SCHEMA, time="at", late="1 minute", idle=None, read=Reading(rows=ROWS))

    @app.view(clicks, key="window")
    def clicks_per_minute(clicks):
        return clicks.groupBy(F.window("at", "1 minute")).count()

    @app.stream(clicks, key="minute")
    def rates(clicks):
        counted = clicks.groupBy(F.window("at", "1 minute")).count()
        return counted.select(F.col("window.start").alias("minute"), (F.col("count") / 60).alias("rate"))

    @app.view(clicks, key="moment")
    def clicks_by_moment(clicks):
        return clicks.groupBy(F.current_timestamp().alias("moment")).count()

    return app


def test_what_piled_up_while_an_app_was_stopped_is_no_peak_in_windows_of_event_time(tmp_path, spark):
    """Each step of the clock brings a minute of clicks, and the one on which the app starts again those of ten."""
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path)
        scene.make("clicks", partitions=PARTITIONS)
        clock: list[datetime] = []
        with scene.live(counting()) as queries:
            for minute in range(BEFORE):
                clock.append(datetime.now(UTC))
                send(scene, minute, evenly)
                wait_until_counted(queries, len(scene.sent))
        for minute in range(BEFORE, BEFORE + AWAY):
            send(scene, minute, unevenly)
        clock.append(datetime.now(UTC))
        with scene.live(counting()) as queries:
            wait_until_counted(queries, AWAY * MINUTE)
            assert all(query.done >= AWAY * MINUTE / ROWS for query in queries.values()), (
                "there was nothing to catch up"
            )
            for minute in range(BEFORE + AWAY, MINUTES):
                clock.append(datetime.now(UTC))
                send(scene, minute, evenly)
                wait_until_counted(queries, len(scene.sent) - BEFORE * MINUTE)
            scene.send_one("clicks", HOUR)
            wait_until(lambda: len(scene.values("rates")) >= MINUTES, lambda: "the stream tells its windows")
        counts = {row["window_start"]: row["count"] for row in scene.rows("clicks_per_minute")}
        rates = [(datetime.fromisoformat(each["minute"]), each["rate"]) for each in scene.values("rates")]
        moments = {row["moment"]: row["count"] for row in scene.rows("clicks_by_moment")}
    starts = [datetime.fromtimestamp(START / SECOND, UTC) + timedelta(minutes=each) for each in range(MINUTES)]
    assert [counts[start] for start in starts] == [MINUTE] * MINUTES
    assert sorted(rates) == [(start, 1.0) for start in starts]
    assert by_clock(moments, clock)[:-1] == [*[MINUTE] * BEFORE, AWAY * MINUTE, *[MINUTE] * (AFTER - 1)]


def send(scene, minute, partition_of):
    seconds = range(minute * MINUTE, (minute + 1) * MINUTE)
    scene.send_each("clicks", [(second * SECOND, partition_of(second)) for second in seconds])


def evenly(second):
    return second % PARTITIONS


def unevenly(second):
    """One partition has most of the first half, another most of the second, and the third a click of each minute."""
    if second % MINUTE == 0:
        return 2
    return 0 if second < (BEFORE + AWAY // 2) * MINUTE else 1


def wait_until_counted(queries, count):
    """By each of the queries. None may be late."""

    def is_counted():
        for query in queries.values():
            assert (query.totals.late, query.totals.rejected) == (0, 0), query.name
        return all(query.totals.in_time >= count for query in queries.values())

    wait_until(is_counted, lambda: f"{count} are counted by each of {queries}")


def by_clock(moments, clock):
    """How many were counted after each of its steps, and before the next."""
    counted = [0] * len(clock)
    for moment, count in moments.items():
        counted[bisect(clock, moment) - 1] += count
    return counted
