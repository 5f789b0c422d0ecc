"""What is told of outputs, and when two of them told the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from runnel.graph.formats import columns_of
from runnel.testing import Mistake, Played, Rejected, Written, at

NOW = datetime(2026, 1, 2, tzinfo=UTC)
COLUMNS = columns_of("page string, at timestamp", "a test")


def aside(value, offset, **more):
    told = {"topic": "clicks", "partition": "0", "offset": str(offset), "timestamp": "5", **more}
    return Written(None, value, NOW, {f"runnel.{name}": text.encode() for name, text in told.items()})


def played(**topics):
    named = {name.replace("__", "."): records for name, records in topics.items()}
    return Played({"counts": [{"page": "tea", "count": 1}]}, named, {"clicks": COLUMNS, "told": COLUMNS})


CLICK = b'{"page": "tea", "at": "2026-01-01T12:00:00.000000Z"}'


def test_values_come_back_with_their_types_and_a_delete_as_none():
    found = played(told=[Written(b"k", CLICK, NOW, {}), Written(b"k", None, NOW, {})])
    assert found.stream("told") == [{"page": "tea", "at": at("12:00")}, None]
    assert found.records("told")[0].key == b"k"
    assert found.view("counts") == [{"page": "tea", "count": 1}]


def test_late_rows_are_read_by_the_columns_of_their_stream():
    assert played(counts__late=[aside(CLICK, 1)]).late("counts") == [{"page": "tea", "at": at("12:00")}]


def test_a_record_that_two_queries_rejected_is_told_once():
    twice = [aside(b"{", 3, reason="broken", query=query) for query in ("counts", "told")]
    found = played(clicks__rejected=[*twice, aside(b"{", 4, reason="too")])
    assert found.rejected("clicks") == [Rejected(b"{", "broken"), Rejected(b"{", "too")]


def test_what_is_not_there_is_told_with_what_is():
    found = played(told=[], counts__late=[], clicks__rejected=[])
    for ask, said in (
        (lambda: found.view("told"), "the app has no view told (but counts)"),
        (lambda: found.stream("counts"), "the app derives no stream counts (but told)"),
        (lambda: found.late("told"), "no row can be late for told (but counts)"),
        (lambda: found.rejected("told"), "the app does not read told (but clicks)"),
    ):
        with pytest.raises(Mistake) as told:
            ask()
        assert str(told.value) == said


def test_two_are_equal_if_they_tell_the_same_at_whatever_time_and_offset():
    later = Written(b"k", CLICK, datetime(2030, 1, 1, tzinfo=UTC), {})
    assert played(told=[Written(b"k", CLICK, NOW, {})]) == played(told=[later])
    assert played(counts__late=[aside(CLICK, 1)]) == played(counts__late=[aside(CLICK, 2)])
    assert played(told=[later]) != played(told=[later, later])
    assert played(told=[later]) != played(told=[later._replace(key=b"other")])
    assert played(counts__late=[aside(CLICK, 1)]) != played(counts__late=[aside(CLICK, 1, watermark="9")])


def test_an_assertion_that_two_are_equal_tells_what_differs():
    """All that they hold would be pages, and the difference somewhere in them."""
    record, other = (Written(b"k", value, NOW, {}) for value in (CLICK, b"{}"))
    calm = played(told=[record, record], told__late=[record, other])
    crashed = replace(played(told=[record, other], told__late=[other, record]), views={"counts": []})
    with pytest.raises(AssertionError) as failed:
        assert calm == crashed
    lines = [line.strip() for line in str(failed.value).splitlines()]
    assert lines == [
        "assert both told the same",
        "topic told:",
        "only on the right: (b'k', b'{}', {})",
        "topic told.late:",
        "the same in another order, or not as often",
        "view counts:",
        "only on the left: {'page': 'tea', 'count': 1}",
    ]
