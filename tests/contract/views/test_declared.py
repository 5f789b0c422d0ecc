import pyarrow as pa
import pytest

from runnel.views.errors import InvalidDeclaration, NameTaken, NullKey, ViewChanged, ViewTaken
from runnel.views.store import Declared, Marker
from tests.contract.views.clicks import CLICKS, QUERY, SCHEMA, claimed, content, marker, seen, told

WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
AWKWARD = [
    "select",
    "pg_class",
    "with \"quotes\" and 'these'",
    "x; DROP TABLE runnel_views; --",
    '"); DROP TABLE runnel_views; --',
    "a.b",
    "per cent %s %(name)s",
    "question ?1 $1 :name",
    "{1} {braces}",
    "back\\slash",
    "Größe 日本 🎉",
    "Mixed Case",
    " ",
    "n" * 63,
    "_row",
    "_place",
    "_sequence",
    "_removes",
    "place",
    "kind",
]


@pytest.mark.parametrize("name", AWKWARD)
def test_any_name_works_and_does_nothing_but_name(store, name):
    key = f"key {name[:50]}"
    schema = pa.schema([(key, pa.string()), (name, pa.int64())])
    with store.writer(Declared(name, (key,), schema), name) as writer:
        writer.claim()
        writer.apply(pa.table({key: ["a", "b"], name: [1, 2]}), Marker(name, 0, "c", {}))
        rows = pa.table({key: ["a", "b"], name: [0, 3], "_change": ["delete", "insert"]})
        writer.apply(rows, Marker(name, 1, "c", {}))
        writer.trim()
    with store.reader(name) as reader:
        assert reader.rows().to_pylist() == [{key: "b", name: 3}]
        assert reader.get({key: "b"}) == {key: "b", name: 3}
        assert [change.kind for change in reader.changes(0)] == ["insert", "insert", "delete", "update"]
    assert store.names() == [name]


def test_a_view_may_have_very_many_columns(store):
    names = [f"c{number}" for number in range(1_597)]
    row = {"page": ["a"], **{name: pa.array([True]) for name in names}}
    rows = pa.table(row)
    with claimed(store, Declared("wide", ("page",), rows.schema)) as writer:
        assert writer.apply(rows, marker(0)).inserted == 1
        assert writer.apply(pa.table({**row, "c1596": [False]}), marker(1)).updated == 1
    with store.reader("wide") as reader:
        assert reader.get({"page": "a"}) == {"page": "a", **dict.fromkeys(names, True), "c1596": False}
        assert [change.kind for change in reader.changes(0)] == ["insert", "update"]


@pytest.mark.parametrize(
    "name", ["_row", "_row_max", "_place", "_place_list", "_sequence", "_removes", ".a", "..", "[0]"]
)
def test_a_key_may_have_any_name_also_where_changes_are_taken_back(store, name):
    schema = pa.schema([(name, pa.string()), ("seen", pa.int64())])
    changes = ["insert", "insert", "update_after", "update_before"]
    with claimed(store, Declared("clicks", (name,), schema)) as writer:
        writer.apply(pa.table({name: ["a", "b", "a", "b"], "seen": [1, 2, 3, 2], "_change": changes}), marker(0))
    with store.reader("clicks") as reader:
        assert reader.rows().to_pylist() == [{name: "a", "seen": 3}]


@pytest.mark.parametrize("name", ["", "runnel_views", "RUNNEL_x", "sqlite_master", "n" * 64, "ü" * 32, "a\0b", "a\nb"])
def test_names_that_no_store_can_have_are_refused(store, name):
    with pytest.raises(InvalidDeclaration):
        store.writer(Declared(name, ("page",), SCHEMA), QUERY)


@pytest.mark.parametrize(
    ("key", "fields", "reason"),
    [
        ((), [("page", pa.string())], "no key"),
        (("pge",), [("page", pa.string())], "'pge' is no column"),
        (("page", "page"), [("page", pa.string())], "twice"),
        (("page",), [("page", pa.string()), ("Page", pa.string())], "'page' and 'Page'"),
        (("page",), [("page", pa.string()), ("_change", pa.string())], "_change"),
        (("page",), [("page", pa.string()), ("_position", pa.int64())], "_position"),
        (("page",), [("page", pa.string()), ("_Position", pa.int64())], "_Position"),
        (("page",), [("page", pa.string()), ("_CHANGE", pa.int64())], "_CHANGE"),
        (("page",), [("page", pa.string()), ("_Runnel_row", pa.int64())], "_Runnel_row"),
        (("page",), [("page", pa.string()), ("", pa.int64())], "a column is ''"),
        (("window",), [("window", WINDOW), ("window_start", pa.int64())], "'window_start' and 'window_start'"),
        (("page",), [("page", pa.float64())], "double, which cannot be in a key"),
        (("page",), [("page", pa.float32())], "float, which cannot be in a key"),
        (("page",), [("page", pa.list_(pa.string()))], "cannot be in a key"),
        (("page",), [("page", pa.map_(pa.string(), pa.string()))], "cannot be in a key"),
        (("page",), [("page", pa.struct([("a", pa.int64())]))], "cannot be in a key"),
        (("page",), [("page", pa.string()), ("n", pa.null())], "null, which no store keeps"),
        (("page",), [("page", pa.string()), ("n", pa.timestamp("ns"))], "no store keeps"),
        (("page",), [("page", pa.string()), ("n", pa.month_day_nano_interval())], "no store keeps"),
        (("page",), [("page", pa.string()), ("n", pa.list_(pa.null()))], "no store keeps"),
        (("page",), [("page", pa.string()), ("n", pa.decimal256(60, 2))], "no store keeps"),
        (("c0",), [(f"c{number}", pa.string()) for number in range(1_599)], "has 1,599 columns"),
    ],
)
def test_what_cannot_be_a_view_is_refused_when_it_is_declared(store, key, fields, reason):
    with pytest.raises(InvalidDeclaration, match=reason):
        store.writer(Declared("clicks", key, pa.schema(fields)), QUERY)


def test_declaring_makes_nothing(store):
    with store.writer(CLICKS, QUERY):
        pass
    assert store.names() == []


def test_a_window_becomes_two_columns_in_the_key_or_not(store, place):
    schema = pa.schema([("window", WINDOW), ("page", pa.string()), ("last", WINDOW), ("seen", pa.int64())])
    minute = {"start": 0, "end": 60_000_000}
    hour = {"start": 0, "end": 3_600_000_000}
    rows = pa.table(
        {"window": [minute, hour], "page": ["a", "a"], "last": [minute, None], "seen": [1, 2]}, schema=schema
    )
    with store.writer(Declared("per_minute", ("window", "page"), schema), QUERY) as writer:
        writer.claim()
        writer.apply(rows, marker(0))
    with store.reader("per_minute") as reader:
        assert reader.key() == ("window_start", "window_end", "page")
        assert reader.schema().names == ["window_start", "window_end", "page", "last_start", "last_end", "seen"]
        first, second = reader.rows().to_pylist()
        assert (first["window_end"].minute, first["last_end"].minute, first["seen"]) == (1, 1, 1)
        assert (second["window_end"].hour, second["last_start"], second["last_end"]) == (1, None, None)
        key = {name: second[name] for name in reader.key()}
        assert reader.get(key) == second
    assert place.query("SELECT seen FROM per_minute WHERE window_end < '1970-01-01T00:30:00'") == [(1,)]


def test_a_window_without_a_value_is_a_null_key(store):
    schema = pa.schema([("window", WINDOW), ("seen", pa.int64())])
    rows = pa.table({"window": [None], "seen": [1]}, schema=schema)
    declared = Declared("per_minute", ("window",), schema)
    with claimed(store, declared) as writer, pytest.raises(NullKey, match="'window_start' of row 0: null in the key"):
        writer.apply(rows, marker(0))


def test_a_new_nullable_column_is_added_and_old_rows_have_none(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2)), marker(0))
    wider = Declared("clicks", ("page",), pa.schema([("city", pa.string()), *SCHEMA]))
    with claimed(store, wider) as writer:
        assert writer.marker() == marker(0)
        rows = seen(("a", 5), ("c", 3)).append_column("city", pa.array(["Graz", None], pa.string()))
        writer.apply(rows, marker(1))
    with store.reader("clicks") as reader:
        assert reader.rows().to_pylist() == [
            {"page": "a", "seen": 5, "city": "Graz"},
            {"page": "b", "seen": 2, "city": None},
            {"page": "c", "seen": 3, "city": None},
        ]
        assert [change.before for change in reader.changes(0)][2] == {"page": "a", "seen": 1, "city": None}


def test_a_reader_that_was_there_before_sees_the_new_column(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    with store.reader("clicks") as reader:
        reader.rows()
        wider = Declared("clicks", ("page",), pa.schema([*SCHEMA, ("city", pa.string())]))
        with claimed(store, wider):
            pass
        assert reader.rows().to_pylist() == [{"page": "a", "seen": 1, "city": None}]


@pytest.mark.parametrize(
    ("key", "schema", "reason"),
    [
        (("seen",), SCHEMA, "key was page and is now declared as seen"),
        (("page", "seen"), SCHEMA, "key was page"),
        (("page",), SCHEMA.set(1, pa.field("seen", pa.int32())), "'seen' was of type int64"),
        (("page",), SCHEMA.remove(1), "'seen' is no longer declared"),
        (("page",), SCHEMA.append(pa.field("new", pa.int64(), nullable=False)), "'new' is never null"),
    ],
)
def test_a_declaration_that_the_table_cannot_follow_is_refused_with_what_to_do(store, key, schema, reason):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        declared = Declared("clicks", key, schema)
        with store.writer(declared, QUERY) as changed, pytest.raises(ViewChanged, match=reason) as caught:
            changed.claim()
        assert "or make it anew by `runnel rebuild`" in str(caught.value)
        with pytest.raises(ViewChanged, match=reason):
            store.check(declared, QUERY)
        writer.apply(seen(("a", 2)), marker(1))
    assert content(store) == {"a": 2}


def test_a_declaration_with_its_columns_in_another_order_is_the_same(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    turned = Declared("clicks", ("page",), pa.schema([SCHEMA.field(1), SCHEMA.field(0)]))
    with claimed(store, turned) as writer:
        writer.apply(seen(("a", 2)), marker(1))
    assert content(store) == {"a": 2}


def test_what_could_be_claimed_is_looked_at_and_nothing_is_made(store):
    wider = Declared("clicks", ("page",), pa.schema([*SCHEMA, ("city", pa.string())]))
    store.check(CLICKS, QUERY)
    assert store.names() == []
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        store.check(CLICKS, QUERY)
        store.check(wider, QUERY)
        with pytest.raises(ViewTaken):
            store.check(CLICKS, "another")
        writer.apply(seen(("a", 2)), marker(1))
    with store.reader("clicks") as reader:
        assert reader.rows().to_pylist() == [{"page": "a", "seen": 2}]


@pytest.mark.parametrize("statement", ["CREATE TABLE clicks (x integer)", "CREATE VIEW clicks AS SELECT 1 AS x"])
def test_a_table_that_is_not_ours_is_left_alone(store, place, statement):
    place.query(statement)
    with store.writer(CLICKS, QUERY) as writer:
        with pytest.raises(NameTaken, match="'clicks' that is not ours"):
            writer.claim()
        with pytest.raises(NameTaken):
            writer.claim()
    assert store.names() == []
    assert len(place.query("SELECT x FROM clicks")) <= 1


def test_views_have_tables_of_their_own_log(store, place):
    with claimed(store) as one:
        one.apply(seen(("a", 1)), marker(0))
        with claimed(store, Declared("other", ("page",), SCHEMA)) as two:
            two.apply(seen(("z", 1)), marker(0))
    assert [page for _, _, page, _, _ in told(store)] == ["a"]
    assert place.query("SELECT name, number FROM runnel_views ORDER BY number") == [("clicks", 1), ("other", 2)]
