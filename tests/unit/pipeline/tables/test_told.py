"""How far a query has told of its tables, and what of them nobody has told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runnel.pipeline.source.aside import REJECTED, SCHEMA
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.tables.partitions import Known, Partitions
from runnel.pipeline.tables.told import (
    Standing,
    Told,
    forget_untold,
    keep_untold,
    merged,
    read_told,
    told_of,
    untold,
    untold_up_to,
    write_told,
)
from runnel.pipeline.tables.versions import Span, Versions

TABLES = ((1, "names"),)


def claim(directory, batch, end, partition=0):
    Versions(directory / "tables" / "1" / f"names-{partition}", pa.schema([])).claim(batch, Span(0, end))


def rejected(*places):
    rows = [{"kind": REJECTED, "topic": topic, "partition": each, "offset": at} for topic, each, at in places]
    return pa.Table.from_pylist(rows, SCHEMA)


def offsets(rows):
    return rows["offset"].to_pylist()


@pytest.fixture
def directory(tmp_path):
    """Of a query that has claimed two partitions for batches 3 and 4."""
    Partitions(tmp_path / "tables" / "1").write(Known("a", [(0, 1), (3, 2)]))
    claim(tmp_path, 3, 100)
    claim(tmp_path, 4, 120)
    claim(tmp_path, 4, 7, partition=1)
    return tmp_path


def test_a_query_has_told_what_its_last_batch_has_read_and_not_what_the_next_one_reads(directory):
    assert Standing(directory, TABLES).at(3) == {"names": Told("a", {0: 100})}
    assert Standing(directory, TABLES).at(4) == {"names": Told("a", {0: 120, 1: 7})}
    assert Standing(directory, TABLES).at(9) == Standing(directory, TABLES).at(4)


def test_claims_that_go_while_the_query_goes_on_still_count(directory):
    standing = Standing(directory, TABLES)
    claim(directory, 5, 130)
    Versions(directory / "tables" / "1" / "names-0", pa.schema([])).forget_before_batch(5)
    assert standing.at(4)["names"].ends[0] == 120


def test_what_was_told_before_it_became_the_view_is_told(directory):
    write_told(directory, {"names": Told("a", {0: 110}), "cities": Told("b", {2: 9})})
    assert Standing(directory, TABLES).at(3) == {"names": Told("a", {0: 110}), "cities": Told("b", {2: 9})}
    assert Standing(directory, TABLES).at(4)["names"].ends == {0: 120, 1: 7}


def test_a_query_without_tables_or_batches_has_told_nothing(tmp_path):
    assert Standing(tmp_path, ()).at(4) == {}
    assert Standing(tmp_path, TABLES).at(4) == {}


def test_of_a_topic_that_was_made_anew_nothing_is_told():
    told = {"names": Told("a", {0: 100})}
    assert told_of(Range("names", 0, 0, 9, "a"), told) == told
    assert told_of(Range("names", 0, 0, 9, ""), told) == told
    assert told_of(Range("names", 0, 0, 9, "b"), told) == {}
    assert told_of(Range("cities", 0, 0, 9, "a"), told) == {}
    assert merged(told, {"names": Told("b", {0: 4})}) == {"names": Told("b", {0: 4})}


def test_what_lies_behind_all_that_is_told_is_untold():
    told = {"names": Told("a", {0: 100})}
    rows = rejected(("names", 0, 99), ("names", 0, 100), ("names", 1, 5), ("cities", 0, 6))
    assert offsets(untold(rows, told)) == [100, 5, 6]


def test_what_a_copy_keeps_is_there_until_somebody_has_told_it(tmp_path):
    write_told(tmp_path, {"names": Told("a", {0: 100})})
    for batch, at in ((8, 105), (9, 110), (10, 120)):
        keep_untold(tmp_path, batch, rejected(("names", 0, at)))
    keep_untold(tmp_path, 9, rejected(("names", 0, 110)))  # a repeat
    assert offsets(untold_up_to(tmp_path, 9)) == [105, 110]
    write_told(tmp_path, {"names": Told("a", {0: 106})})
    assert read_told(tmp_path) == {"names": Told("a", {0: 106})}
    assert offsets(untold_up_to(tmp_path, 10)) == [110, 120]
    forget_untold(tmp_path, after=9)
    assert offsets(untold_up_to(tmp_path, 10)) == [110]
    forget_untold(tmp_path)
    assert untold_up_to(tmp_path, 10) == SCHEMA.empty_table()
