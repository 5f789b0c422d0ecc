"""The files of a part of a table."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from runnel.pipeline.tables import latest as module
from runnel.pipeline.tables.latest import GONE, KEY, Latest, records_schema
from runnel.pipeline.tables.versions import Span, Versions

SCHEMA = pa.schema([("n", pa.int64())])


def latest_of(**rows):
    told = [{KEY: key.encode(), GONE: n is None, "n": n} for key, n in rows.items()]
    return Latest.empty(SCHEMA).apply(pa.Table.from_pylist(told, records_schema(SCHEMA)))


def held(latest):
    return {row[KEY].decode(): row["n"] for row in latest.rows().to_pylist()}


def names(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir())


@pytest.fixture
def versions(tmp_path):
    return Versions(tmp_path, SCHEMA)


@pytest.fixture
def with_bases(monkeypatch):
    monkeypatch.setattr(module, "FEW", 1)


def test_a_version_comes_back_as_it_was(versions):
    versions.keep(7, latest_of(a=1, b=2))
    assert held(versions.at(7)) == {"a": 1, "b": 2}
    assert versions.at(8) is None


def test_a_version_on_a_base_comes_back_and_shares_it(versions, with_bases, tmp_path):
    versions.keep(7, latest_of(a=1, b=2))
    changed = versions.at(7).apply(pa.Table.from_pylist([{KEY: b"a", GONE: False, "n": 3}], records_schema(SCHEMA)))
    versions.keep(9, changed)
    assert names(tmp_path) == ["7.base.arrow", "7.delta.arrow", "9.delta.arrow"]
    assert held(versions.at(9)) == {"a": 3, "b": 2}
    assert held(versions.at(7)) == {"a": 1, "b": 2}


def test_a_repeat_writes_the_same_bytes(versions, with_bases, tmp_path):
    versions.keep(7, latest_of(a=1, b=2))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    versions.keep(7, latest_of(a=1, b=2))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("missing", ["7.base.arrow", "7.delta.arrow"])
def test_a_version_that_lost_a_file_is_none(versions, with_bases, tmp_path, missing):
    versions.keep(7, latest_of(a=1, b=2))
    (tmp_path / missing).unlink()
    assert versions.at(7) is None


def test_a_version_of_another_schema_is_none(versions, tmp_path):
    versions.keep(7, latest_of(a=1))
    assert Versions(tmp_path, pa.schema([("n", pa.int32())])).at(7) is None
    assert Versions(tmp_path, pa.schema([("n", pa.int64()), ("more", pa.string())])).at(7) is None


def test_what_a_batch_counts_as_of_is_said_once(versions, tmp_path):
    assert versions.of_batch(3) is None
    assert versions.claim(3, Span(0, 7)) == Span(0, 7)
    assert versions.claim(3, Span(0, 9)) == Span(0, 7)
    assert versions.of_batch(3) == Span(0, 7)
    assert names(tmp_path) == ["3.batch.json"]


def test_all_who_claim_at_once_agree(versions):
    found: list[Span] = []
    barrier = threading.Barrier(4)

    def claim(number):
        barrier.wait()
        found.append(versions.claim(1, Span(0, number)))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_the_newest_batch_before(versions):
    for batch, end in ((2, 5), (9, 6), (10, 8)):
        versions.claim(batch, Span(0, end))
    assert versions.newest_before(10) == Span(0, 6)
    assert versions.newest_before(9) == Span(0, 5)
    assert versions.newest_before(2) is None


def test_what_a_batch_and_the_one_before_need_is_kept(versions, tmp_path):
    for batch, end in ((1, 5), (2, 6), (4, 8), (5, 8)):
        versions.keep(end, latest_of(a=end))
        versions.claim(batch, Span(0, end))
        versions.forget_before_batch(batch)
    assert names(tmp_path) == ["4.batch.json", "5.batch.json", "8.delta.arrow"]


def test_a_base_stays_as_long_as_a_version_is_based_on_it(versions, with_bases, tmp_path):
    versions.keep(5, latest_of(a=1, b=2))
    versions.keep(6, versions.at(5))
    versions.forget_before(6)
    assert names(tmp_path) == ["5.base.arrow", "6.delta.arrow"]
    assert held(versions.at(6)) == {"a": 1, "b": 2}
    versions.keep(7, latest_of(a=1, c=2))
    versions.forget_before(7)
    assert names(tmp_path) == ["7.base.arrow", "7.delta.arrow"]


def test_the_version_before_an_offset_is_found(versions):
    for offset in (5, 6, 9):
        versions.keep(offset, latest_of(a=offset))
    assert [versions.last_before(offset) for offset in (10, 9, 6, 5)] == [9, 6, 5, 5]


def test_what_a_killed_process_left_half_done_is_removed_in_time(versions, tmp_path):
    for name in ("5.delta.arrow.12-ab", "5.base.arrow.12-ab", "1.batch.json.12-ab"):
        (tmp_path / name).write_bytes(b"half")
    for batch, end in ((1, 5), (2, 6), (3, 7)):
        versions.keep(end, latest_of(a=end))
        versions.claim(batch, Span(0, end))
        versions.forget_before_batch(batch)
    assert names(tmp_path) == ["2.batch.json", "3.batch.json", "6.delta.arrow", "7.delta.arrow"]
