"""An app's numbers and its health, over HTTP."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runnel.app.metrics import exposition
from runnel.app.progress import AppProgress, QueryProgress, State

QUERY = QueryProgress(
    "pages",
    State.RUNS,
    batches=3,
    in_time=10,
    late=2,
    rejected=1,
    lag={"clicks": 7, "orders": 0},
    watermark=1_767_225_600_500,
    open_windows=4,
    state_bytes=2_000,
    seconds=0.5,
    steps={"body": 0.4},
    seconds_by_step={"body": 1.5},
    age=10.0,
)


class Served:
    def __init__(self):
        self.progress = AppProgress("shop", 1_767_225_700_000, 60, (QUERY,), 123, ("one",))
        self.looked = 0.0
        self.exposition = exposition("127.0.0.1:0", lambda: self.progress, lambda: self.looked)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.exposition.endpoint}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self):
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {
            (sample.name, *(value for name, value in sorted(sample.labels.items()) if name not in ("app", "query"))):
            sample.value
            for family in families
            for sample in family.samples
            if sample.name.startswith("runnel")
        }  # fmt: skip


@pytest.fixture
def served():
    served = Served()
    yield served
    served.exposition.close()


def test_every_number_is_served(served):
    assert served.samples() == {
        ("runnel_query_batches_total",): 3,
        ("runnel_query_rows_total", "in_time"): 10,
        ("runnel_query_rows_total", "late"): 2,
        ("runnel_query_rows_total", "rejected"): 1,
        ("runnel_query_rows_total", "gone"): 0,
        ("runnel_query_step_seconds_total", "body"): 1.5,
        ("runnel_query_running",): 1,
        ("runnel_query_watermark_seconds",): 1_767_225_600.5,
        ("runnel_query_batch_seconds",): 0.5,
        ("runnel_query_batch_under_way_seconds",): 0,
        ("runnel_query_last_batch_timestamp_seconds",): 1_767_225_690,
        ("runnel_query_open_windows",): 4,
        ("runnel_query_state_bytes",): 2_000,
        ("runnel_query_lag_records", "clicks"): 7,
        ("runnel_query_lag_records", "orders"): 0,
        ("runnel_app_alerts",): 1,
        ("runnel_app_disk_free_bytes",): 123,
    }


def test_what_is_not_known_is_not_served(served):
    served.progress = AppProgress("shop", 0, 0, (QueryProgress("pages"),))
    assert ("runnel_query_watermark_seconds",) not in served.samples()
    assert served.samples()["runnel_query_running",] == 0


def test_every_metric_of_the_app_is_described(served):
    page = (Path(__file__).parents[3] / "docs/reference/app-metrics.md").read_text()
    names = {name for name, *_ in served.samples()} | {"runnel_query_state_rows"}
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_an_app_is_healthy_while_it_starts_and_while_it_looks(served):
    assert served.get("/health") == (200, "healthy\n")
    served.looked = None
    assert served.get("/health")[0] == 200
    served.looked = 61.0
    assert served.get("/health") == (503, "the app has not looked at its queries for 61 s\n")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State.BEGINS, "pages has not begun\n"),
        (State.WAITS, "pages waits, and goes on by itself\n"),
        (State.ENDED, "pages has ended\n"),
    ],
)
def test_an_app_is_ready_while_every_query_runs(served, state, said):
    assert served.get("/ready") == (200, "ready\n")
    served.progress = AppProgress("shop", 0, 0, (QUERY, QueryProgress("pages", state)))
    assert served.get("/ready") == (503, said)


def test_other_paths_are_not_there(served):
    assert served.get("/")[0] == 404
