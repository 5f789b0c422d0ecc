"""The demo of the pipeline, run with small numbers; and its check, which must notice what an app could do wrong."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

import examples

DEMO = Path(next(iter(examples.__path__))) / "shop_demo.py"
SMALL = ["--history", "400", "--seconds", "1", "--live", "20"]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.servers
def test_the_demo_ends_well_and_leaves_nothing_behind(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, str(DEMO), *SMALL, "--picture", str(tmp_path / "demo.svg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "each of them once: counted, late or rejected" in done.stdout
    assert "paid_orders" in (tmp_path / "demo.svg").read_text()
    assert os.listdir(tmp_path) == ["demo.svg"]


@pytest.mark.soak
def test_a_demo_that_is_kept_goes_on_until_ctrl_c_and_leaves_nothing_behind(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, str(DEMO), *SMALL, "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        told = running.stdout
        assert told is not None
        assert any("it goes on until Ctrl-C" in line and "..." in line for line in told)
        running.send_signal(signal.SIGINT)
        assert (told.read(), running.wait()) == ("", 0)
    assert os.listdir(tmp_path) == []


# --- the check itself


@dataclass(frozen=True)
class Record:
    topic: str
    value: bytes
    partition: int = 0
    offset: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass
class Sent:
    sent: Counter[str]


@dataclass
class Known:
    """Customers, as a database has them."""

    rows: set[tuple[int, str, str]]

    def of_country(self, country):
        return {row for row in self.rows if row[2] == country}


@pytest.fixture
def demo(monkeypatch):
    """Three clicks: one in time, one late, one broken; an order that is paid, and its payment; two customers. All is
    right.
    """
    monkeypatch.syspath_prepend(str(DEMO.parent))
    import shop_demo  # noqa: PLC0415

    @dataclass
    class Told(shop_demo.Demo):
        topics: dict[str, list[Record]] = field(default_factory=dict)
        views: dict[str, list[dict[str, object]]] = field(default_factory=dict)

        def read(self, *topics):
            return [record for topic in topics for record in self.topics.get(topic, [])]

        def view(self, name):
            return self.views[name]

    click = {"page": "tea", "customer_id": 7, "seconds": 55}
    in_time = record("clicks", click | {"at": "2026-01-01T12:00:30+00:00"}, 0, 0)
    late = record("clicks", click | {"at": "2026-01-01T11:00:00+00:00"}, 0, 1)
    broken = Record("clicks", in_time.value[:20], 1, 0)
    order = {"order_id": 1, "customer_id": 7, "product": "tea", "cents": 250}
    customers = Known({(1, "Anne", "NO"), (2, "Bjarne", "SE")})
    told = Told(None, None, Sent(Counter(clicks=3, orders=1, payments=1)), customers, 0, 0, 0, lambda _: None)
    told.topics = {
        "clicks": [in_time, late, broken],
        "clicks.rejected": [put_aside(broken, shop_demo.CLICKS_VIEW)],
        "clicks_per_minute.late": [put_aside(late, shop_demo.CLICKS_VIEW)],
        "orders": [record("orders", order | {"ordered_at": "2026-01-01T12:00:31+00:00"})],
        "payments": [record("payments", {"order_id": 1, "paid_at": "2026-01-01T12:00:40+00:00"})],
        "paid_orders": [record("paid_orders", order | {"paid_at": "2026-01-01T12:00:40+00:00"})],
    }
    told.views = {
        "clicks_per_minute": [{"window_start": NOON, "page": "tea", "count": 1}],
        "income_per_minute": [{"window_start": NOON, "product": "tea", "orders": 1, "cents": 250}],
        "norwegian_customers": [{"id": 1, "name": "Anne", "country": "NO"}],
    }
    return told


def record(topic: str, row: dict[str, object], partition: int = 0, offset: int = 0) -> Record:
    return Record(topic, json.dumps(row).encode(), partition, offset)


def put_aside(record: Record, query: str) -> Record:
    origin = {
        "runnel.query": query,
        "runnel.topic": record.topic,
        "runnel.partition": str(record.partition),
        "runnel.offset": str(record.offset),
    }
    return Record("", record.value, headers=tuple((name, text.encode()) for name, text in origin.items()))


def test_the_check_finds_nothing_wrong_with_what_is_right(demo):
    demo.check()
    assert demo.broken == []
    sums = {"clicks_per_minute": 3, "paid_orders": 2, "income_per_minute": 1}
    assert {query: found.all for query, found in demo.sums.items()} == sums


def test_the_check_notices_a_click_that_was_counted_twice(demo):
    demo.views["clicks_per_minute"][0]["count"] = 2
    demo.check()
    assert any("'tea', 2), which is not right" in each for each in demo.broken)
    assert any("clicks_per_minute has 4 of 3 records" in each for each in demo.broken)


def test_the_check_notices_a_row_that_was_told_late_twice(demo):
    demo.topics["clicks_per_minute.late"] *= 2
    demo.check()
    assert any("aside more than once" in each for each in demo.broken)


def test_the_check_notices_a_late_row_that_is_nowhere(demo):
    demo.topics["clicks_per_minute.late"] = []
    demo.check()
    assert any("clicks_per_minute has 2 of 3 records" in each for each in demo.broken)


def test_the_check_notices_a_broken_row_that_is_nowhere(demo):
    demo.topics["clicks.rejected"] = []
    demo.check()
    assert any("which is broken" in each for each in demo.broken)


def test_the_check_notices_a_record_that_a_stream_has_twice(demo):
    demo.topics["paid_orders"] *= 2
    demo.check()
    assert any("paid_orders has (1, 7, 'tea', 250" in each for each in demo.broken)


def test_the_check_notices_a_payment_that_was_not_joined(demo):
    demo.topics["paid_orders"] = []
    demo.views["income_per_minute"] = []
    demo.check()
    assert any("paid_orders lacks (1, 7, 'tea', 250" in each for each in demo.broken)


def test_the_check_notices_income_that_is_wrong(demo):
    demo.views["income_per_minute"][0]["cents"] = 251
    demo.check()
    assert any("income_per_minute lacks" in each for each in demo.broken)


def test_the_check_notices_a_click_that_the_log_has_lost(demo):
    demo.traffic.sent["clicks"] = 4
    demo.check()
    assert any("4 records were sent to clicks, and it has 3" in each for each in demo.broken)


def test_the_check_notices_a_customer_who_was_forgotten(demo):
    demo.views["norwegian_customers"] = []
    demo.check()
    assert demo.broken == ["norwegian_customers lacks (1, 'Anne', 'NO')"]


def test_the_check_notices_a_customer_who_has_moved_away(demo):
    demo.customers.rows = {(1, "Anne", "SE")}
    demo.check()
    assert demo.broken == ["norwegian_customers has (1, 'Anne', 'NO'), which the database has not"]


class Clock:
    """A minute passes with each look; what the app does in it is `each_minute`."""

    def __init__(self, each_minute):
        self.minutes = 0
        self._each_minute = each_minute

    def monotonic(self):
        return self.minutes * 60.0

    def sleep(self, _):
        self.minutes += 1
        self._each_minute(self.minutes)


@dataclass
class Quiet:
    """An app that neither ends nor says anything."""

    data: Path
    has_ended: bool = False


def test_an_app_that_is_slow_is_waited_for_as_long_as_it_writes(demo, tmp_path, monkeypatch):
    clock = Clock(lambda minute: (tmp_path / "offsets").mkdir() if minute == 4 else None)
    monkeypatch.setattr("shop_demo.time", clock)
    demo.app = Quiet(tmp_path)
    demo.wait(lambda: clock.minutes == 8)
    assert clock.minutes == 8


def test_an_app_that_writes_nothing_is_given_up_and_breaks_no_promise(demo, tmp_path, monkeypatch):
    import shop_demo  # noqa: PLC0415

    monkeypatch.setattr("shop_demo.time", Clock(lambda _: None))
    demo.app = Quiet(tmp_path)
    demo.doing = "Spark starts"
    with pytest.raises(shop_demo.Stuck, match="written nothing for 300 seconds: Spark starts") as stuck:
        demo.wait(lambda: False)
    demo.stuck = str(stuck.value)
    assert "Broken promises" not in shop_demo.failure(demo, tmp_path)
    assert "Spark starts" in shop_demo.failure(demo, tmp_path)


def test_an_app_that_writes_for_ever_and_gets_nowhere_is_given_up(demo, tmp_path, monkeypatch):
    import shop_demo  # noqa: PLC0415

    monkeypatch.setattr("shop_demo.time", Clock(lambda minute: (tmp_path / str(minute)).touch()))
    demo.app = Quiet(tmp_path)
    with pytest.raises(shop_demo.Stuck, match="nothing came of it within 30 minutes"):
        demo.wait(lambda: False)
