"""The demo of the pipeline, run with small numbers; and its check, which must notice what an app could do wrong."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import examples

DEMO = Path(next(iter(examples.__path__))) / "pipeline_demo.py"
SMALL = ["--history", "400", "--live", "20"]


@pytest.mark.servers
def test_the_demo_ends_well_and_leaves_nothing_behind(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, str(DEMO), *SMALL, "--picture", str(tmp_path / "demo.svg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "each of them once: counted, late or rejected" in done.stdout
    assert "long_stays" in (tmp_path / "demo.svg").read_text()
    assert os.listdir(tmp_path) == ["demo.svg"]


# --- the check itself


@dataclass(frozen=True)
class Record:
    value: bytes
    partition: int = 0
    offset: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


@pytest.fixture
def demo(monkeypatch):
    """Three clicks: one in time, a long stay; one late; one broken. All is right."""
    monkeypatch.syspath_prepend(str(DEMO.parent))
    import pipeline_demo  # noqa: PLC0415

    @dataclass
    class Told(pipeline_demo.Demo):
        topics: dict[str, list[Record]] = field(default_factory=dict)
        counts: Counter[tuple[str, str]] = field(default_factory=Counter)

        def read(self, topic):
            return self.topics.get(topic, [])

        def view(self):
            return self.counts

    @dataclass
    class Sent:
        sent: int = 3

    in_time = Record(click("2026-01-01T12:00:30+00:00"), 0, 0)
    late = Record(click("2026-01-01T11:00:00+00:00"), 0, 1)
    broken = Record(in_time.value[:20], 1, 0)
    queries = (pipeline_demo.VIEW, pipeline_demo.STREAM)
    told = Told(None, None, Sent(), 0, 0, lambda _: None)
    told.counts[("2026-01-01 12:00", "tea")] = 1
    told.topics = {
        "clicks": [in_time, late, broken],
        "clicks.rejected": [put_aside(broken, query) for query in queries],
        "clicks_per_minute.late": [put_aside(late, queries[0])],
        "long_stays.late": [put_aside(late, queries[1])],
        "long_stays": [Record(json.dumps({"customer_id": 7, "page": "tea", "seconds": 55}).encode())],
    }
    return told


def click(at: str) -> bytes:
    return json.dumps({"page": "tea", "customer_id": 7, "seconds": 55, "at": at}).encode()


def put_aside(record: Record, query: str) -> Record:
    origin = {"runnel.query": query, "runnel.partition": str(record.partition), "runnel.offset": str(record.offset)}
    return Record(record.value, headers=tuple((name, text.encode()) for name, text in origin.items()))


def test_the_check_finds_nothing_wrong_with_what_is_right(demo):
    demo.check()
    assert demo.broken == []
    assert {query: found.all for query, found in demo.sums.items()} == {"clicks_per_minute": 3, "long_stays": 3}


def test_the_check_notices_a_click_that_was_counted_twice(demo):
    demo.counts[("2026-01-01 12:00", "tea")] = 2
    demo.check()
    assert any("clicks_per_minute says 2" in each for each in demo.broken)


def test_the_check_notices_a_row_that_was_told_late_twice(demo):
    demo.topics["clicks_per_minute.late"] *= 2
    demo.check()
    assert any("aside more than once" in each for each in demo.broken)


def test_the_check_notices_a_late_row_that_is_nowhere(demo):
    demo.topics["clicks_per_minute.late"] = []
    demo.check()
    assert any("clicks_per_minute has 2 of 3 clicks" in each for each in demo.broken)


def test_the_check_notices_a_broken_row_that_is_nowhere(demo):
    demo.topics["clicks.rejected"] = []
    demo.check()
    assert any("took the broken click" in each for each in demo.broken)


def test_the_check_notices_a_record_that_a_stream_has_twice(demo):
    demo.topics["long_stays"] *= 2
    demo.check()
    assert any("long_stays has 2 records, and 1 are right" in each for each in demo.broken)


def test_the_check_notices_a_click_that_the_log_has_lost(demo):
    demo.clicks.sent = 4
    demo.check()
    assert any("4 clicks were sent, and the topic has 3" in each for each in demo.broken)
