import pyarrow as pa
import pytest

from runnel.views.errors import InvalidRows, InvalidValue, NotClaimed, NullKey, UnknownKey, UnknownView
from runnel.views.store import Declared, Marker
from tests.contract.views.clicks import CLICKS, QUERY, SCHEMA, claimed, content, marker, seen, told


def test_rows_are_upserted_by_key(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2)), marker(0))
        applied = writer.apply(seen(("b", 3), ("c", 4)), marker(1))
    assert content(store) == {"a": 1, "b": 3, "c": 4}
    assert applied == (1, 1, 0, 4, False)
    with store.reader("clicks") as reader:
        assert reader.count() == 3


def test_changes_upsert_and_delete_and_an_update_under_its_key_is_no_removal(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2), ("c", 3)), marker(0))
        rows = seen(
            ("a", 99), ("a", 5), ("b", None), ("d", 7), changes=["update_before", "update_after", "delete", "insert"]
        )
        applied = writer.apply(rows, marker(1))
    assert content(store) == {"a": 5, "c": 3, "d": 7}
    assert applied[:3] == (1, 1, 1)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (seen(("a", 1), ("a", 2), ("a", 3)), {"a": 3}),
        (seen(("a", 1), ("a", None), changes=["insert", "delete"]), {}),
        (seen(("z", None), ("z", 8), changes=["delete", "insert"]), {"z": 8}),
        (seen(("a", 1), ("a", 2), ("a", 7), changes=["insert", "update_after", "update_before"]), {"a": 2}),
        (seen(("a", 1), ("a", 1), changes=["insert", "update_before"]), {}),
        (seen(("a", 1), ("a", 1), ("a", 2), changes=["insert", "update_before", "update_after"]), {"a": 2}),
    ],
)
def test_of_several_rows_of_a_key_the_last_one_stands(store, rows, expected):
    with claimed(store) as writer:
        writer.apply(rows, marker(0))
    assert content(store) == expected


def test_a_row_that_is_taken_back_and_does_not_come_again_is_removed(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2)), marker(0))
        applied = writer.apply(seen(("a", 1), changes=["update_before"]), marker(1))
        writer.apply(seen(("z", 1), changes=["update_before"]), marker(2))
    assert content(store) == {"b": 2}
    assert applied[:3] == (0, 0, 1)
    assert told(store, 2) == [(2, "delete", "a", 1, None)]


def test_a_row_that_changes_its_key_leaves_the_old_one(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(("a", 1), ("b", 1), changes=["update_before", "update_after"]), marker(1))
        assert content(store) == {"b": 1}
        rows = seen(
            ("b", 1), ("c", 1), ("c", 1), ("d", 1),
            changes=["update_before", "update_after", "update_before", "update_after"],
        )  # fmt: skip
        writer.apply(rows, marker(2))
    assert content(store) == {"d": 1}
    assert [change[1:3] for change in told(store, 1)] == [
        ("delete", "a"), ("insert", "b"), ("delete", "b"), ("insert", "d"),
    ]  # fmt: skip


@pytest.mark.parametrize("after", [1, 2])
def test_the_two_rows_of_an_update_may_come_in_either_order(store, after):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(("a", after), ("a", 1), changes=["update_after", "update_before"]), marker(1))
    assert content(store) == {"a": after}


def test_a_row_that_is_deleted_and_comes_again_stands_as_it_came(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
        writer.apply(seen(("a", None), ("a", 3), ("b", 1), changes=["delete", "insert", "update_before"]), marker(1))
    assert content(store) == {"a": 3}


def test_deleting_a_key_that_is_not_there_changes_nothing(store):
    with claimed(store) as writer:
        assert writer.apply(seen(("a", None), changes=["delete"]), marker(0)) == (0, 0, 0, 0, False)
        assert writer.marker() == marker(0)


def test_record_batches_are_rows_too(store):
    with claimed(store) as writer:
        writer.apply(iter(seen(("a", 1), ("b", 2)).to_batches(max_chunksize=1)), marker(0))
        writer.apply(seen(("c", 3)).to_batches()[0], marker(1))
        writer.apply(iter([]), marker(2))
    assert content(store) == {"a": 1, "b": 2, "c": 3}


def test_the_marker_comes_back_as_it_was_given(store):
    positions = {"clicks": {"0": 17, "1": 2**62}, "name with \" and '": [1, None, "ü"]}
    with claimed(store) as writer:
        assert writer.marker() is None
        writer.apply(seen(("a", 1)), Marker(QUERY, 0, "c-1", positions))
        assert writer.marker() == Marker(QUERY, 0, "c-1", positions)
    with store.reader("clicks") as reader:
        assert reader.marker() == Marker(QUERY, 0, "c-1", positions)


def test_a_batch_without_rows_moves_the_marker_on(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(), marker(1, at=5))
        assert writer.marker() == marker(1, at=5)
    assert content(store) == {"a": 1}


def test_a_batch_that_was_applied_is_skipped_when_it_is_repeated(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(("a", 2)), marker(1))
        assert writer.apply(seen(("a", 7)), marker(1)) == (0, 0, 0, 2, True)
        assert writer.apply(seen(("b", 7)), marker(0)).skipped
        assert writer.marker() == marker(1)
    assert content(store) == {"a": 2}
    assert len(told(store)) == 2


def test_a_batch_of_another_checkpoint_is_not_taken_for_a_repeat(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(3))
        assert not writer.apply(seen(("a", 2)), marker(0, "another")).skipped
        assert writer.marker() == marker(0, "another")


def test_a_marker_of_another_query_is_refused(store):
    with claimed(store) as writer, pytest.raises(ValueError, match=r"other\.query"):
        writer.apply(seen(("a", 1)), Marker("other.query", 0, "c", {}))


def test_a_null_in_the_key_is_an_error_that_names_view_column_and_row_and_nothing_is_applied(store):
    with claimed(store) as writer:
        with pytest.raises(NullKey) as caught:
            writer.apply(seen(("a", 1), ("b", 2), (None, 3)), marker(0))
        assert writer.marker() is None
    assert (caught.value.view, caught.value.column, caught.value.row) == ("clicks", "page", 2)
    assert "'seen': 3" in str(caught.value)
    assert "coalesce" in str(caught.value)
    assert content(store) == {}


@pytest.mark.parametrize("change", ["update_before", "update_after", "delete"])
def test_a_null_key_is_found_by_its_number_among_all_the_rows(store, change):
    rows = seen(("a", 1), ("a", 2), (None, 3), changes=["update_before", "update_after", change])
    with claimed(store) as writer, pytest.raises(NullKey) as caught:
        writer.apply(rows, marker(0))
    assert caught.value.row == 2


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (pa.table({"page": ["a"]}), "no column seen"),
        (pa.table({"page": ["a"], "seen": [1], "more": [2]}), "'more' that is not declared"),
        (pa.table({"page": [1], "seen": [1]}), "'page' is of type int64, declared as string"),
        (pa.table({"page": ["a"], "seen": ["1"]}), "'seen' is of type string, declared as int64"),
    ],
)
def test_rows_that_do_not_fit_the_declaration_are_refused(store, rows, reason):
    with claimed(store) as writer:
        with pytest.raises(InvalidRows, match=reason):
            writer.apply(rows, marker(0))
        assert writer.marker() is None


def test_a_change_of_an_unknown_kind_is_refused(store):
    with claimed(store) as writer, pytest.raises(InvalidValue, match="'upsert' is no change") as caught:
        writer.apply(seen(("a", 1), ("b", 2), changes=["insert", "upsert"]), marker(0))
    assert caught.value.row == 1


def test_a_change_that_is_null_is_refused(store):
    rows = seen(("a", 1)).append_column("_change", pa.array([None], pa.string()))
    with claimed(store) as writer, pytest.raises(InvalidValue, match="None is no change"):
        writer.apply(rows, marker(0))


def test_a_writer_that_has_not_claimed_its_view_cannot_write(store):
    with store.writer(CLICKS, QUERY) as writer:
        with pytest.raises(NotClaimed):
            writer.apply(seen(("a", 1)), marker(0))
        with pytest.raises(NotClaimed):
            writer.marker()
    assert store.names() == []


def test_columns_may_come_in_any_order(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)).select(["seen", "page"]), marker(0))
    assert content(store) == {"a": 1}


def test_a_view_of_nothing_but_its_key_is_a_set(store):
    members = Declared("members", ("page",), SCHEMA.remove(1))
    with store.writer(members, QUERY) as writer:
        writer.claim()
        writer.apply(pa.table({"page": ["a", "b"]}), marker(0))
        assert writer.apply(pa.table({"page": ["b", "c"]}), marker(1))[:3] == (1, 0, 0)
        assert writer.apply(pa.table({"page": ["a"], "_change": ["delete"]}), marker(2))[:3] == (0, 0, 1)
    with store.reader("members") as reader:
        assert reader.rows().to_pylist() == [{"page": "b"}, {"page": "c"}]


def test_a_key_of_several_columns_tells_rows_apart_by_all_of_them(store):
    schema = pa.schema([("seen", pa.int64()), ("day", pa.date32()), ("page", pa.string())])
    with store.writer(Declared("daily", ("page", "day"), schema), QUERY) as writer:
        writer.claim()
        rows = pa.table({"page": ["a", "a", "b", "a"], "day": [1, 2, 1, 1], "seen": [1, 2, 3, 4]})
        rows = rows.set_column(1, "day", rows["day"].cast(pa.int32()).cast(pa.date32()))
        writer.apply(rows, marker(0))
        gone = rows.slice(1, 1).append_column("_change", pa.array(["delete"]))
        writer.apply(gone, marker(1))
    with store.reader("daily") as reader:
        assert [(row["page"], row["day"].day, row["seen"]) for row in reader.rows().to_pylist()] == [
            ("a", 2, 4),
            ("b", 2, 3),
        ]
        assert reader.key() == ("page", "day")


def test_a_reader_gets_the_row_of_a_key(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", None)), marker(0))
    with store.reader("clicks") as reader:
        assert reader.get({"page": "a"}) == {"page": "a", "seen": 1}
        assert reader.get({"page": "b"}) == {"page": "b", "seen": None}
        assert reader.get({"page": "z"}) is None


@pytest.mark.parametrize("key", [{}, {"seen": 1}, {"page": "a", "seen": 1}, {"page": 5}, {"page": None}])
def test_what_is_no_key_is_refused_with_the_key_that_is_one(store, key):
    with claimed(store), store.reader("clicks") as reader, pytest.raises(UnknownKey, match="page"):
        reader.get(key)


def test_an_unknown_view_is_told_with_those_that_are_there(store):
    with claimed(store), pytest.raises(UnknownView, match="no view 'cliks'; it has: clicks"):
        store.reader("cliks")


def test_a_store_without_views_has_none(store):
    assert store.names() == []
    with pytest.raises(UnknownView, match="none yet"):
        store.reader("clicks")


def test_several_views_live_beside_each_other(store):
    other = Declared("other", ("page",), SCHEMA)
    with claimed(store) as one, store.writer(other, QUERY) as two:
        two.claim()
        one.apply(seen(("a", 1)), marker(0))
        two.apply(seen(("a", 2)), marker(5))
        assert (one.marker(), two.marker()) == (marker(0), marker(5))
    assert content(store) == {"a": 1}
    assert content(store, "other") == {"a": 2}
    assert store.names() == ["clicks", "other"]
