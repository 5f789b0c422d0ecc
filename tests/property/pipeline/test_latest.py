"""The latest row of each key is what a dictionary would hold, however its records are cut, kept and read back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.pipeline.tables import latest as module
from runnel.pipeline.tables.latest import CHANGE, KEY, RECORD, Latest, records_schema
from runnel.pipeline.tables.versions import Versions

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("text", pa.string()),
        ("share", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("stairs", pa.list_(pa.int32()))])),
    ]
)

numbers = st.none() | st.integers(0, 2)
rows = st.fixed_dictionaries(
    {
        "n": numbers,
        "text": st.sampled_from([None, "", "a"]),
        "share": st.sampled_from([None, 0.0, 1.5, float("nan")]),
        "tags": st.none() | st.lists(st.sampled_from([None, "x"]), max_size=1),
        "place": st.none()
        | st.fixed_dictionaries({"city": st.sampled_from([None, "here"]), "stairs": st.none() | st.just([1])}),
    }
)
keys = st.sampled_from([b"", b"a", b"b", b"c", b"dd", b"e"])
records = st.tuples(keys, st.none() | rows)
histories = st.lists(st.lists(records, max_size=8), max_size=8)


def table(block):
    """Records as `apply` takes them."""
    told = [{module.KEY: key, module.GONE: row is None, **(row or {})} for key, row in block]
    return pa.Table.from_pylist(told, records_schema(SCHEMA))


def plain(value):
    """Comparable: what is no number is equal to itself."""
    return "nan" if isinstance(value, float) and value != value else value


def row_of(told):
    return {name: plain(told[name]) for name in SCHEMA.names}


def held(latest):
    found = latest.rows().to_pylist()
    assert len(found) == latest.num_rows
    return {row[KEY]: row_of(row) for row in found}


@pytest.fixture(autouse=True, scope="module")
def bases_are_made_often():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", 3)
        yield


@given(histories)
def test_any_history_cut_anywhere_is_what_a_dictionary_would_hold(history):
    latest, expected = Latest.empty(SCHEMA), {}
    for block in history:
        latest = latest.apply(table(block))
        for key, row in block:
            expected.pop(key, None)
            if row is not None:
                expected[key] = {name: plain(value) for name, value in row.items()}
        assert held(latest) == expected


@given(histories)
def test_changes_tell_what_each_record_did_and_nothing_else(history):
    latest, expected = Latest.empty(SCHEMA), {}
    for block in history:
        latest, changes = latest.change(table(block))
        told = []
        for number, (key, row) in enumerate(block):
            before = expected.pop(key, None)
            after = None if row is None else {name: plain(value) for name, value in row.items()}
            if after is not None:
                expected[key] = after
            told += told_of(number, before, after)
        assert [(row[CHANGE], row[RECORD], row_of(row)) for row in changes.to_pylist()] == told
        assert held(latest) == expected


def told_of(number, before, after):
    if before == after:
        return []
    if before is None:
        return [("insert", number, after)]
    if after is None:
        return [("delete", number, before)]
    return [("update_before", number, before), ("update_after", number, after)]


@given(histories)
def test_cuts_make_no_difference_to_the_changes(history):
    whole = [record for block in history for record in block]
    once = Latest.empty(SCHEMA).change(table(whole))[1]
    latest, pieces = Latest.empty(SCHEMA), []
    for block in history:
        latest, changes = latest.change(table(block))
        pieces += changes.drop_columns([RECORD]).to_pylist()
    assert str(pieces) == str(once.drop_columns([RECORD]).to_pylist())  # as text: what is no number differs from itself


@given(histories)
def test_what_is_kept_in_files_goes_on_as_if_it_had_stayed(tmp_path_factory, history):
    versions = Versions(tmp_path_factory.mktemp("versions"), SCHEMA)
    stayed, offset = Latest.empty(SCHEMA), 0
    versions.keep(0, stayed)
    for block in history:
        known = versions.at(offset)
        assert known is not None
        offset += len(block) + 1
        stayed, kept = stayed.apply(table(block)), known.apply(table(block))
        versions.keep(offset, kept)
        versions.forget_before(offset)
        assert held(kept) == held(stayed)
        assert held(versions.at(offset)) == held(stayed)
