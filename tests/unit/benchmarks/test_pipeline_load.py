"""What a reader of a view takes for seen."""

import sqlite3
import threading

from benchmarks import pipeline_load
from benchmarks.pipeline_load import PAGES, Load, read_view


def test_a_newer_number_of_a_page_tells_that_the_older_ones_are_in(tmp_path):
    path = tmp_path / "views.sqlite"
    count = 2 * PAGES
    load = Load("127.0.0.1:1", "in", rate=count, seconds=1)
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {pipeline_load.VIEW} (page, newest)")
        rows = [(f"p{page}", PAGES + page) for page in range(PAGES)]
        connection.executemany(f"INSERT INTO {pipeline_load.VIEW} VALUES (?, ?)", rows)
    connection.close()
    read_view(load, str(path), threading.Event())
    assert load.missing == 0
    assert all(load.seen)


def test_the_first_seconds_are_not_counted():
    load = Load("127.0.0.1:1", "in", rate=10, seconds=2)
    load.sent = [0.0] * 20
    load.seen = [1.0] * 5 + [0.25] * 15
    assert load.latencies(warm_up=0.5) == [250.0] * 15
