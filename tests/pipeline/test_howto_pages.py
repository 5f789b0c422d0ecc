"""The apps of the how-to pages run as they stand there, and answer what a batch query over the same records answers.

A page's Python blocks are one app. It gets records in disorder, some of them late and some broken, in several batches;
in the long runs it is also stopped and started again. In time + late + rejected is every record, for each output.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker
from runnel.app.loading import load_app
from runnel.errors import RunnelError
from runnel.graph.stream import Stream
from tests.pipeline.play import Play, Record, batch_answer, broken
from tests.pipeline.scene import Scene

HOWTO = Path(__file__).parents[2] / "docs/howto"
PYTHON = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLOSING = timedelta(days=1)
CLOSERS = {-1, "closer"}  # what the records hold that only bring the time forward
RECORDS = 260
PARTITIONS = 2
MINUTE = """date_trunc('minute', "at")"""
HOPS = f"{MINUTE} - interval (back) minutes"


@dataclass
class Page:
    """`rows` makes a row of each topic, `answers` is SQL for each output, or a function that checks what was found."""

    name: str
    seconds: float  # between two records
    back: int  # seconds that most of them lie behind at most, which is less than the lateness
    rows: dict[str, Callable]
    closers: dict[str, dict]
    answers: dict[str, object] = field(default_factory=dict)
    repeated: float = 0.0
    batch: int = 70

    def records(self, chance):
        """In the order in which they are sent."""
        sent = []
        for number in range(RECORDS):
            back = chance.uniform(0, 60 * self.back if chance.random() < 0.05 else self.back)
            at = START + timedelta(milliseconds=int(1000 * (number * self.seconds - back)) // 4 * 4)
            topic = chance.choice(list(self.rows))
            record = Record(topic, {**self.rows[topic](number + 1, chance), "at": at})
            if sent and chance.random() < self.repeated:
                record = chance.choice([each for each in sent if not each.is_broken])
            elif chance.random() < 0.04:
                record = record._replace(value=broken(record.row, chance), is_broken=True)
            sent.append(record)
        return sent

    def closing(self):
        return [Record(topic, {**row, "at": START + CLOSING}) for topic, row in self.closers.items()]


def answers(page):
    """Registers what an output of the page must answer, by the function's name."""

    def register(check):
        page.answers[check.__name__] = check
        return check

    return register


# --- windows

WINDOWS = Page(
    "windows",
    seconds=5,
    back=25,
    rows={
        "clicks": lambda number, chance: {
            "customer": chance.randrange(25),
            "page": f"p{chance.randrange(3)}",
            "seconds": chance.randrange(100),
        }
    },
    closers={"clicks": {"customer": -1, "page": "closer", "seconds": 0}},
    answers={
        "clicks_per_minute": f"""
            select {MINUTE} as window_start, page, count(*) as clicks, sum(seconds)::bigint as seconds
            from clicks group by all""",
        "closed_minutes": f"select {MINUTE} as minute, page, count(*) as clicks from clicks group by all",
        "last_five_minutes": f"""
            select {HOPS} as window_start, page, count(*) as clicks
            from clicks, range(5) backs(back) group by all""",
        "visits": """
            with pauses as (select *, "at" - lag("at") over (partition by customer order by "at") as pause from clicks),
            visits as (select *, count(*) filter (pause is null or pause > interval 2 minutes)
                                 over (partition by customer order by "at") as visit from pauses)
            select customer, count(*) as clicks, min_by(page, "at") as first_page, min("at") as session_window_start,
                   max("at") + interval 2 minutes as session_window_end
            from visits group by customer, visit""",
        "busiest_minutes": f"""
            select time_bucket(interval 10 minutes, minute) as window_start, max(clicks) as most
            from (select {MINUTE} as minute, count(*) as clicks from clicks group by 1) group by 1""",
    },
)

# --- joins

SOON = 'c.customer = p.customer and p."at" between c."at" and c."at" + interval 1 minute'
JOINS = Page(
    "join-streams",
    seconds=4,
    back=15,
    rows={
        "clicks": lambda number, chance: {
            "id": number,
            "customer": chance.randrange(6),
            "page": f"p{chance.randrange(2)}",
        },
        "payments": lambda number, chance: {
            "id": number,
            "customer": chance.randrange(6),
            "cents": chance.randrange(10_000),
        },
    },
    closers={
        "clicks": {"id": -1, "customer": -1, "page": "closer"},
        "payments": {"id": -1, "customer": -1, "cents": 0},
    },
    answers={
        "paid_clicks": f"select p.id as payment, c.id as click, page, cents from clicks c join payments p on {SOON}",
        "clicks_and_payments": f"""
            select c.id as click, coalesce(p.id, 0) as payment, page, cents
            from clicks c left join payments p on {SOON}""",
        "all_clicks_and_payments": f"""
            select coalesce(c.id, 0) as click, coalesce(p.id, 0) as payment,
                   coalesce(c.customer, p.customer) as customer
            from clicks c full join payments p on {SOON}""",
        "double_clicks": """
            select a.customer, a.page, a.id as first, b.id as second from clicks a join clicks b
            on a.customer = b.customer and a.page = b.page and a.id <> b.id
            and b."at" between a."at" and a."at" + interval 5 seconds and (a."at" < b."at" or a.id < b.id)""",
        "income_per_minute": f"""
            select date_trunc('minute', c."at") as window_start, page, sum(coalesce(cents, 0))::bigint as cents
            from clicks c left join payments p on {SOON} group by all""",
    },
)

# --- duplicates

DUPLICATES = Page(
    "remove-duplicates",
    seconds=30,
    back=50,
    rows={
        "orders": lambda number, chance: {
            "id": f"order-{number}",
            "customer": chance.randrange(5),
            "cents": chance.randrange(10_000),
        }
    },
    closers={"orders": {"id": "closer", "customer": -1, "cents": 0}},
    repeated=0.3,
    answers={
        "distinct_orders": 'select distinct id, customer, cents, "at" from orders',
        "every_order": 'select distinct id, customer, cents, "at" from orders',
        "spent_per_hour": """
            select date_trunc('hour', "at") as window_start, customer, count(*) as orders, sum(cents)::bigint as cents
            from (select distinct * from orders) group by all""",
    },
)

# --- rates

RATES = Page(
    "rates-and-averages",
    seconds=4,
    back=8,
    rows={
        "readings": lambda number, chance: {
            "machine": f"m{chance.randrange(3)}",
            "celsius": chance.randrange(400) / 4,
            "ok": int(chance.random() < 0.8),
        }
    },
    closers={"readings": {"machine": "closer", "celsius": 0.0, "ok": 1}},
    answers={
        "readings_per_second": f"""
            select {MINUTE} as window_start, machine, count(*) / 60 as rate from readings group by all""",
        "share_of_errors": f"""
            select {MINUTE} as window_start, sum(1 - ok) / count(*) as errors from readings group by all""",
        "moving_average": f"""
            select {HOPS} + interval 5 minutes as until, machine, avg(celsius) as celsius, count(*) as readings
            from readings, range(5) backs(back) group by all""",
        "warming": f"""
            with means as (
                select {HOPS} + interval 5 minutes as until, machine, avg(celsius) as celsius
                from readings, range(5) backs(back) group by all)
            select b.until, b.machine, b.celsius - a.celsius as "by"
            from means a join means b on a.machine = b.machine and b.until = a.until + interval 1 minute""",
        "last_three": f"""
            select {MINUTE} as window_start, machine,
                   list_avg(list(celsius order by "at" desc, celsius desc)[1:3]) as celsius
            from readings group by all""",
    },
)

# --- sketches

SKETCHES = Page(
    "approximate-answers",
    seconds=40,
    back=25,
    rows={
        "clicks": lambda number, chance: {
            "id": number,
            "customer": chance.randrange(60),
            "page": f"p{min(chance.randrange(8), chance.randrange(8))}",
            "milliseconds": chance.randrange(3_000),
        }
    },
    closers={"clicks": {"id": -1, "customer": -1, "page": "closer", "milliseconds": 0}},
)


def by_window(rows, minutes):
    found = defaultdict(list)
    for row in rows:
        since = (row["at"] - START) // timedelta(minutes=minutes)
        found[START + since * timedelta(minutes=minutes)].append(row)
    return found


@answers(SKETCHES)
def visitors_per_minute(found, rows, play, app):
    exact = {minute: len({row["customer"] for row in each}) for minute, each in by_window(rows, 1).items()}
    check_nearly({row["window_start"]: row["visitors"] for row in found}, exact, 0.1)


@answers(SKETCHES)
def minutes(found, rows, play, app):
    assert sorted(row["minute"] for row in found) == sorted(by_window(rows, 1))


@answers(SKETCHES)
def visitors_per_hour(found, rows, play, app):
    exact = {hour: len({row["customer"] for row in each}) for hour, each in by_window(rows, 60).items()}
    check_nearly({row["window_start"]: row["visitors"] for row in found}, exact, 0.1)


@answers(SKETCHES)
def response_times(found, rows, play, app):
    """Each is one of the values, of the right rank."""
    groups = {
        (minute, page): sorted(row["milliseconds"] for row in each if row["page"] == page)
        for minute, each in by_window(rows, 1).items()
        for page in {row["page"] for row in each}
    }
    assert {(row["window_start"], row["page"]) for row in found} == set(groups)
    for row in found:
        values = groups[row["window_start"], row["page"]]
        for share, value in ((0.5, row["median"]), (0.99, row["slowest"])):
            assert values[math.ceil(share * len(values)) - 1] == value


@answers(SKETCHES)
def popular_pages(found, rows, play, app):
    windows = by_window(rows, 10)
    assert {row["window_start"] for row in found} == set(windows)
    for row in found:
        exact = Counter(each["page"] for each in windows[row["window_start"]])
        assert row["clicks"] == [count for _, count in exact.most_common(3)]
        assert [exact[page] for page in row["pages"]] == row["clicks"]


@answers(SKETCHES)
def customers_of_the_hour(found, rows, play, app):
    assert {row["window_start"] for row in found} == set(by_window(rows, 60))
    assert {len(row["customers"]) for row in found} == {4 + 4 * 4_096}


@answers(SKETCHES)
def returning_customers(found, rows, play, app):
    """The view has caught up when the stream begins; so filters know who had been sent, and was in time for the view.

    The filters hold so few that none takes a customer for another.
    """
    view = next(output for output in app.graph.outputs if output.name == "customers_of_the_hour")
    known = rows_for(play, view)["clicks"]
    run = {id(record.row): bisect(play.ends, number) for number, record in enumerate(play.sent.values())}
    expected = set()
    for click in rows:
        seen = [row for row in known if run[id(row)] <= run[id(click)]]
        for hour, each in by_window(seen, 60).items():
            if click["at"] >= hour + timedelta(hours=1) and click["customer"] in {row["customer"] for row in each}:
                expected.add((click["id"], click["customer"], hour))
    assert expected
    assert {(row["id"], row["customer"], row["hour"]) for row in found} == expected


def check_nearly(found, exact, share):
    assert set(found) == set(exact)
    assert [key for key, value in exact.items() if abs(found[key] - value) > share * value] == []


# --- all of them


def app_of(page, directory):
    """As a reader of the page would have it in a file."""
    text = (HOWTO / f"{page.name}.md").read_text(encoding="utf-8")
    path = directory / f"howto_{page.name.replace('-', '_')}.py"
    path.write_text("\n".join(PYTHON.findall(text)), encoding="utf-8")
    return load_app(path)


def lived_through(page, seed, scene, directory, *, parts):
    """The records come in parts, and after each of them the app runs until it has caught up."""
    chance = random.Random(f"{page.name} {seed}")
    play = Play(scene, PARTITIONS)
    play.make(page.rows)
    records = page.records(chance)
    app = app_of(page, directory)
    for start, end in pairwise(RECORDS * part // parts for part in range(parts + 1)):
        play.send(records[start:end] if end < RECORDS else [*records[start:], *page.closing()], chance)
        app = app_of(page, directory)
        play.run(app, rows=page.batch)
    return play, app


def is_closer(row):
    edge = START + CLOSING - timedelta(hours=1)
    return any(
        value >= edge if isinstance(value, datetime) else isinstance(value, int | str) and value in CLOSERS
        for value in row.values()
    )


def rows_for(play, output):
    """What the query had to answer for: of a stream that another output derives, what that one had."""
    source = output
    while not isinstance(source.inputs[0].noun, Stream):
        assert play.late(source) == 0
        source = source.inputs[0].noun
    rest = play.rest(source)
    return {topic: [row for row in rows if not is_closer(row)] for topic, rows in rest.items()}


def check(play, app, page):
    outputs = {output.name: output for output in app.graph.outputs}
    assert set(page.answers) == set(outputs)
    for name, expected in page.answers.items():
        output = outputs[name]
        rows = rows_for(play, output)
        found = [row for row in play.found(output) if not is_closer(row)]
        if callable(expected):
            expected(found, rows["clicks"], play, app)
            continue
        streams = {each.noun.name: each.noun for other in outputs.values() for each in other.inputs}
        answer = batch_answer(expected, [streams[topic] for topic in rows], rows)
        assert_same(name, answer.of(found), answer.rows)


def assert_same(name, found, expected):
    assert expected, f"{name}: the records were too few to tell"
    assert len(found) == len(expected), name
    for row, other in zip(found, expected, strict=True):
        nearly = [pytest.approx(value, abs=1e-5) if isinstance(value, float) else value for value in other]
        assert list(row) == nearly, name


PAGES = pytest.mark.parametrize("page", [WINDOWS, JOINS, DUPLICATES, RATES, SKETCHES], ids=lambda page: page.name)


@pytest.mark.servers
@PAGES
def test_the_app_of_a_page_answers_as_a_batch_query(tmp_path, spark, page):
    with Broker() as broker:
        play, app = lived_through(page, 1, Scene(broker, spark, tmp_path / "data"), tmp_path, parts=1)
        check(play, app, page)
        assert any(play.late(output) for output in app.graph.outputs), "nothing was late"


@pytest.mark.soak
@PAGES
def test_the_app_of_a_page_answers_as_a_batch_query_for_a_long_time(tmp_path, spark, seed, rounds, told, page):
    for number in told(range(max(1, rounds // 10))):
        with Broker() as broker:
            directory = tmp_path / str(number)
            directory.mkdir()
            scene = Scene(broker, spark, directory / "data")
            check(*lived_through(page, f"{seed} {number}", scene, directory, parts=1 + number % 3), page)


# --- what the pages say that cannot be done

CLICKS = "id long, customer long, page string, at timestamp"
REFUSED = {
    "count_distinct": (
        "Distinct aggregations",
        lambda c, p: per_minute(c).agg(F.count_distinct("customer").alias("n")),
    ),
    "first": ("first.. depends on the order", lambda c, p: per_minute(c).agg(F.first("page").alias("page"))),
    "a list without an order": (
        "collect_list.. depends on the order",
        lambda c, p: per_minute(c).agg(F.collect_list("page").alias("pages")),
    ),
    "an aggregate without a window": ("without watermark", lambda c, p: c.groupBy("page").count()),
    "a left anti join": ("LeftAnti", lambda c, p: c.join(p, "customer", "leftanti")),
    "an outer join without a bound": ("watermark", lambda c, p: c.join(p.select("customer"), "customer", "left")),
}


def per_minute(clicks):
    return clicks.groupBy(F.window("at", "1 minute"))


@pytest.mark.servers
def test_what_the_pages_say_is_refused_is_refused(tmp_path, spark):
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path)
        scene.make("clicks", "payments", partitions=1)
        for said, body in REFUSED.values():
            app = App("refused")
            clicks, payments = (
                app.stream(topic, schema=CLICKS, time="at", late="1 minute") for topic in ("clicks", "payments")
            )

            def result(clicks, payments, body=body):
                return body(clicks, payments)

            app.stream(clicks, payments)(result)
            with pytest.raises(RunnelError, match=said):
                scene.run(app)
