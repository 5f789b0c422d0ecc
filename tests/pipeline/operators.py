"""What Spark can do with event time, each as a body and as the question to DuckDB that must have the same answer.

The answer is computed over all rows at once: over the log, without the records that were late or rejected. `k` below 0
marks the records that only bring the time forward, so that the last windows close; they are left out of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Reading
from tests.pipeline.scene import START, Event

LATE = 10  # seconds
SCHEMA = "id long, k long, n long, at timestamp"
Row = tuple[Any, ...]


class Operator(NamedTuple):
    """`key` are the columns that tell its rows apart, for a view."""

    body: Callable[..., DataFrame]
    sql: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    inputs: tuple[str, ...] = ("clicks",)
    repeated: float = 0.0

    def app(self, kind: str, *, rows: int, late: int = LATE, **reading: Any) -> App:
        """With the one output `result`, a view or a stream."""
        app = App("sums")
        streams = [
            app.stream(
                topic, schema=SCHEMA, time="at", late=f"{late} seconds", read=Reading(rows=rows, **reading), idle=None
            )
            for topic in self.inputs
        ]
        body = renamed(self.body)
        if kind == "view":
            app.view(*streams, key=list(self.key))(body)
        else:
            app.stream(*streams)(body)
        return app

    def expected(self, events: Iterable[Event]) -> list[Row]:
        """Over all of them at once."""
        known = list(events)
        connection = duckdb.connect()
        for topic in ("clicks", "payments"):
            rows = [(each.id, each.k, each.n, each.at) for each in known if each.topic == topic and each.k >= 0]
            columns = [pa.array([row[number] for row in rows], pa.int64()) for number in range(4)]
            connection.register(topic, pa.table(columns, names=["id", "k", "n", "t"]))
        found = connection.execute(self.sql).fetchall()
        connection.close()
        return in_order(found)

    def found(self, rows: Iterable[dict[str, Any]]) -> list[Row]:
        """What came of it, in the same form."""
        return in_order(tuple(row[name] for name in self.columns) for row in rows if row["k"] >= 0)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: tuple((value is None, value) for value in row))


def renamed(body: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def result(*frames: DataFrame) -> DataFrame:
        return body(*frames)

    return result


def since(column: str) -> Any:
    """Milliseconds since START."""
    return F.unix_millis(column) - F.lit(START)


# --- bodies


def tumbling(clicks):
    counted = clicks.groupBy(F.window("at", "20 seconds"), "k").agg(F.count("*").alias("c"), F.sum("n").alias("n"))
    return counted.select(since("window.start").alias("start"), "k", "c", "n")


def sliding(clicks):
    counted = clicks.groupBy(F.window("at", "20 seconds", "10 seconds"), "k").agg(F.count("*").alias("c"))
    return counted.select(since("window.start").alias("start"), "k", "c")


def session(clicks):
    counted = clicks.groupBy(F.session_window("at", "4 seconds"), "k").agg(F.count("*").alias("c"))
    return counted.select(since("session_window.start").alias("start"), "k", "c")


def by_moment(clicks):
    """Grouped by the event time itself, which Spark takes for late when it is at the watermark."""
    return clicks.groupBy("at", "k").agg(F.count("*").alias("c")).select(since("at").alias("start"), "k", "c")


def _joined(clicks, payments, how):
    near = F.expr("c.k = p.k and p.at between c.at and c.at + interval 5 seconds")
    joined = clicks.alias("c").join(payments.alias("p"), near, how)
    payment = F.coalesce("p.id", F.lit(0)).alias("payment")  # a key of a view must not be null
    return joined.select(F.col("c.id").alias("click"), payment, F.col("c.k").alias("k"))


def inner_join(clicks, payments):
    return _joined(clicks, payments, "inner")


def left_join(clicks, payments):
    return _joined(clicks, payments, "left")


def self_join(clicks):
    """Each click with the next ones of the same k: one input, which Spark reads by two sources."""
    near = F.expr("c.k = p.k and c.id < p.id and p.at between c.at and c.at + interval 3 seconds")
    joined = clicks.alias("c").join(clicks.alias("p"), near)
    return joined.select(F.col("c.id").alias("click"), F.col("p.id").alias("payment"), F.col("c.k").alias("k"))


def distinct(clicks):
    return clicks.dropDuplicates(["id", "at"]).select("id", "k")


def distinct_within(clicks):
    return clicks.dropDuplicatesWithinWatermark(["id"]).select("id", "k")


def mapped(clicks):
    return clicks.where("n > 30").select("id", (F.col("n") * 2).alias("n"), "k")


def distinct_then_counted(clicks):
    """Two operators that remember, one behind the other."""
    return tumbling(clicks.dropDuplicates(["id", "at"]))


def counted_twice(clicks):
    small = clicks.groupBy(F.window("at", "5 seconds"), "k").agg(F.count("*").alias("c"))
    counted = small.groupBy(F.window("window", "20 seconds"), "k").agg(F.sum("c").alias("c"))
    return counted.select(since("window.start").alias("start"), "k", "c")


def joined_then_counted(clicks, payments):
    near = F.expr("c.k = p.k and p.at between c.at and c.at + interval 5 seconds")
    joined = clicks.alias("c").join(payments.alias("p"), near, "left")
    rows = joined.select(F.col("c.at").alias("at"), F.col("c.k").alias("k"), F.col("p.id").alias("payment"))
    counted = rows.groupBy(F.window("at", "20 seconds"), "k").agg(
        F.count("*").alias("c"), F.count("payment").alias("n")
    )
    return counted.select(since("window.start").alias("start"), "k", "c", "n")


JOIN = "from clicks c {} join payments p on c.k = p.k and p.t between c.t and c.t + 5000"
OPERATORS = {
    "tumbling window": Operator(
        tumbling,
        "select t // 20000 * 20000, k, count(*), sum(n)::bigint from clicks group by 1, 2",
        ("start", "k", "c", "n"),
        ("start", "k"),
    ),
    "sliding window": Operator(
        sliding,
        """select start, k, count(*)
           from (select unnest([t // 10000 * 10000, t // 10000 * 10000 - 10000]) as start, k from clicks)
           group by 1, 2""",
        ("start", "k", "c"),
        ("start", "k"),
    ),
    "session window": Operator(
        session,
        """select min(t), k, count(*)
           from (select t, k, sum(is_first) over (partition by k order by t) as number
                 from (select t, k, coalesce(t - lag(t) over (partition by k order by t) > 4000, true)::int
                       as is_first from clicks))
           group by k, number""",
        ("start", "k", "c"),
        ("start", "k"),
    ),
    "moment": Operator(
        by_moment, "select t, k, count(*) from clicks group by 1, 2", ("start", "k", "c"), ("start", "k")
    ),
    "inner join": Operator(
        inner_join,
        f"select c.id, p.id {JOIN.format('inner')}",
        ("click", "payment"),
        ("click", "payment"),
        ("clicks", "payments"),
    ),
    "left join": Operator(
        left_join,
        f"select c.id, coalesce(p.id, 0) {JOIN.format('left')}",
        ("click", "payment"),
        ("click", "payment"),
        ("clicks", "payments"),
    ),
    "join with itself": Operator(
        self_join,
        """select c.id, p.id from clicks c join clicks p
           on c.k = p.k and c.id < p.id and p.t between c.t and c.t + 3000""",
        ("click", "payment"),
        ("click", "payment"),
    ),
    "duplicates": Operator(distinct, "select distinct id from clicks", ("id",), ("id",), repeated=0.3),
    "duplicates within the watermark": Operator(
        distinct_within, "select distinct id from clicks", ("id",), ("id",), repeated=0.3
    ),
    "stateless": Operator(mapped, "select id, n * 2 from clicks where n > 30", ("id", "n"), ("id",)),
    "duplicates, then a window": Operator(
        distinct_then_counted,
        """select t // 20000 * 20000, k, count(*), sum(n)::bigint
           from (select distinct id, t, k, n from clicks) group by 1, 2""",
        ("start", "k", "c", "n"),
        ("start", "k"),
        repeated=0.3,
    ),
    "a window, then a window": Operator(
        counted_twice,
        "select t // 20000 * 20000, k, count(*) from clicks group by 1, 2",
        ("start", "k", "c"),
        ("start", "k"),
    ),
    "left join, then a window": Operator(
        joined_then_counted,
        f"""select t // 20000 * 20000, k, count(*), count(payment)
            from (select c.t, c.k, p.id as payment {JOIN.format("left")}) group by 1, 2""",
        ("start", "k", "c", "n"),
        ("start", "k"),
        ("clicks", "payments"),
    ),
}
