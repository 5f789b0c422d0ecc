"""What a reader of a view takes for seen, and which rows count."""

import sqlite3
import threading

from benchmarks import pipeline_load
from benchmarks.pipeline_load import PAGES, Rows, Seen, read_view


def test_a_newer_number_of_a_page_tells_that_the_older_ones_are_in(tmp_path):
    path = tmp_path / "views.sqlite"
    seen = Seen(2 * PAGES)
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {pipeline_load.VIEW} (page, newest)")
        rows = [(f"p{page}", PAGES + page) for page in range(PAGES)]
        connection.executemany(f"INSERT INTO {pipeline_load.VIEW} VALUES (?, ?)", rows)
    connection.close()
    read_view(seen, str(path), threading.Event())
    assert seen.missing == 0
    assert all(seen.at)


def test_the_first_rows_are_not_counted():
    rows = Rows(sent=[0.0] * 20, seen=[1.0] * 5 + [0.25] * 15, warm=5)
    assert rows.latencies == [250.0] * 15
    assert rows.percentiles["p99"] == 250.0


def test_rows_between_two_moments_are_those_that_were_sent_then():
    rows = Rows(sent=[1.0, 2.0, 3.0, 4.0], seen=[9.0, 2.1, 3.25, 4.5], warm=1)
    assert rows.between(0.0, 3.5) == [rows.latencies[0], 250.0]
    assert rows.between(3.5, 9.0) == [500.0]
