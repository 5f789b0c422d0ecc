"""How an app is doing, as plain data."""

import json

from runnel.app.progress import QueryProgress, Rate, State, moment, size


def test_a_rate_is_over_the_last_seconds():
    rate = Rate(over=10)
    assert rate.see(0, 0) == 0
    assert rate.see(5, 100) == 20
    assert rate.see(10, 200) == 20
    assert rate.see(20, 200) == 0  # since second 10


def test_a_rate_needs_two_looks():
    assert Rate().see(3, 1_000) == 0


def test_the_lag_is_the_sum_over_the_inputs_and_may_be_unknown():
    assert QueryProgress("pages").behind is None
    assert QueryProgress("pages", lag={"clicks": 3, "orders": 4}).behind == 7


def test_a_line_says_what_is_known():
    assert str(QueryProgress("pages")) == "0 batches, 0 rows, 0 late, 0 rejected, 0 rows/s"
    assert str(QueryProgress("pages", batches=1, in_time=1)).startswith("1 batch, 1 row, 0 late")
    full = QueryProgress(
        "pages",
        State.RUNS,
        batches=1_200,
        in_time=5,
        late=1,
        rejected=2,
        gone=3,
        rows_per_second=12.4,
        lag={"clicks": 1_000},
        watermark=1_767_225_600_000,
        open_windows=4,
        seconds=0.25,
        steps={"plan": 0.05, "body": 0.2},
    )
    assert str(full) == (
        "1,200 batches, 5 rows, 1 late, 2 rejected, 3 gone, 12 rows/s, 1,000 behind, watermark 2026-01-01T00:00:00Z, "
        "4 open windows, last batch 0.250 s (plan 0.050, body 0.200)"
    )


def test_it_goes_into_json():
    found = json.loads(json.dumps(QueryProgress("pages", State.WAITS, lag={"clicks": 1}).to_object()))
    assert (found["name"], found["state"], found["lag"]) == ("pages", "waits", {"clicks": 1})


def test_sizes_and_moments_in_words():
    assert [size(1023), size(1024), size(5 * 1024**3), size(3 * 1024**4)] == [
        "1,023 B",
        "1.0 KiB",
        "5.0 GiB",
        "3.0 TiB",
    ]
    assert moment(0) == "1970-01-01T00:00:00Z"
