"""The numbers of a capture, as Prometheus gets them."""

import dataclasses
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runnel.app.capture_metrics import exposition
from runnel.capture.watching import Numbers

NUMBERS = Numbers(
    name="shop",
    is_streaming=False,
    rows=40,
    estimate=100,
    seconds_left=6.5,
    transactions=3,
    steps=9,
    lag_seconds=0.25,
    behind=4096,
    unit="bytes",
    retained=10_000,
    events={("shop.main.orders", "c"): 5, ("shop.main.orders", "d"): 1},
    rejected={"shop.main.orders": 2},
)


class Served:
    def __init__(self):
        self.numbers = NUMBERS
        self._serving = exposition("127.0.0.1:0", lambda: self.numbers)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self._serving.endpoint}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self):
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
            if sample.name.startswith("runnel_")
        }

    def close(self):
        self._serving.close()


@pytest.fixture
def served():
    served = Served()
    yield served
    served.close()


def test_every_number_is_served(served):
    assert served.samples() == {
        ("runnel_capture_events_total", "shop", "c", "shop.main.orders"): 5,
        ("runnel_capture_events_total", "shop", "d", "shop.main.orders"): 1,
        ("runnel_capture_rejected_total", "shop", "shop.main.orders"): 2,
        ("runnel_capture_transactions_total", "shop"): 3,
        ("runnel_capture_commits_total", "shop"): 9,
        ("runnel_capture_streaming", "shop"): 0,
        ("runnel_capture_snapshot_rows", "shop"): 40,
        ("runnel_capture_snapshot_rows_estimate", "shop"): 100,
        ("runnel_capture_snapshot_seconds_left", "shop"): 6.5,
        ("runnel_capture_lag_seconds", "shop"): 0.25,
        ("runnel_capture_lag_bytes", "shop"): 4096,
        ("runnel_capture_retained_bytes", "shop"): 10_000,
    }


def test_what_is_not_known_is_not_served(served):
    served.numbers = dataclasses.replace(NUMBERS, behind=None, retained=None, unit="", is_streaming=True)
    names = {name for name, *_ in served.samples()}
    assert not names & {
        "runnel_capture_lag_bytes", "runnel_capture_retained_bytes", "runnel_capture_snapshot_seconds_left",
    }  # fmt: skip


def test_a_capture_is_ready_when_it_reads_changes(served):
    assert served.get("/health") == (200, "healthy\n")
    assert served.get("/ready") == (503, "shop reads its tables\n")
    served.numbers = dataclasses.replace(NUMBERS, is_streaming=True)
    assert served.get("/ready") == (200, "ready\n")
    served.numbers = dataclasses.replace(NUMBERS, is_waiting=True)
    assert served.get("/ready") == (503, "shop waits for its database or the cluster\n")
    assert "runnel_capture_snapshot_seconds_left" not in {name for name, *_ in served.samples()}


def test_every_metric_of_a_capture_is_described(served):
    page = (Path(__file__).parents[3] / "docs/reference/capture-metrics.md").read_text()
    names = {name for name, *_ in served.samples()} | {"runnel_capture_lag_entries"}
    assert sorted(name for name in names if f"`{name}`" not in page) == []
