"""A reader gets back exactly what was written, whatever the type, and other tools see values that they understand."""

import datetime
import itertools
import math
from datetime import UTC
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnel.views.errors import InvalidDeclaration, InvalidValue
from runnel.views.store import Declared
from tests.contract.views.clicks import QUERY, claimed, marker

views = itertools.count()
fitting = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

INTEGERS = {
    pa.int8(): (-(2**7), 2**7 - 1), pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1), pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint8(): (0, 2**8 - 1), pa.uint16(): (0, 2**16 - 1),
    pa.uint32(): (0, 2**32 - 1), pa.uint64(): (0, 2**64 - 1),
}  # fmt: skip
# PostgreSQL's text has no NUL; that is tested for itself.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(
    [
        "",
        "\\N",
        "\\.",
        "a\n\\.\nb",
        "\t",
        "\r\n",
        '"',
        "NULL",
        "null",
        "NaN",
        "\\",
        "\\t",
        "\U0001f389",
        "e\u0301",
        " x ",
    ]
)
TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999))
LIMIT = datetime.timedelta(microseconds=2**63 - 1)
SIMPLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *((kind, st.integers(*ends)) for kind, ends in INTEGERS.items()),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.string(), TEXT),
    (pa.binary(), st.binary()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), TIMES.map(lambda time: time.replace(tzinfo=UTC))),
    (pa.timestamp("us"), TIMES),
    (pa.duration("us"), st.timedeltas(-LIMIT, LIMIT)),
    (pa.decimal128(5, 2), st.decimals(Decimal("-999.99"), Decimal("999.99"), places=2)),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (pa.decimal128(38, 38), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda digits: Decimal(f"{digits}E-38"))),
]
KEYS = [(kind, values) for kind, values in SIMPLE if not pa.types.is_floating(kind)]


def nested(inner: tuple[pa.DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    kind, values = inner
    value = st.none() | values
    maps = st.dictionaries(TEXT, value, max_size=3).map(lambda names: list(names.items()))
    structs = st.fixed_dictionaries({"a": value, "b c": st.integers(0, 9)})
    counted = st.dictionaries(st.integers(-5, 5), value, max_size=3).map(lambda names: list(names.items()))
    return st.sampled_from(
        [
            (pa.list_(kind), st.lists(value, max_size=3)),
            (pa.struct([("a", kind), ("b c", pa.int64())]), structs),
            (pa.map_(pa.string(), kind), maps),
            (pa.map_(pa.int32(), kind), counted),
        ]
    )


TYPES = st.recursive(st.sampled_from(SIMPLE), lambda inner: inner.flatmap(nested), max_leaves=3)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    key_type, keys = draw(st.sampled_from(KEYS))
    columns = draw(st.lists(TYPES, max_size=4))
    rows = draw(st.lists(keys, unique=True, max_size=5))
    arrays = [pa.array(rows, key_type)]
    arrays += [pa.array([draw(st.none() | values) for _ in rows], kind) for kind, values in columns]
    return pa.table(arrays, names=["key", *(f"c{number}" for number in range(len(columns)))])


def same(value: Any) -> Any:
    """As it is compared: NaN is itself, a map has no order, -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {name: same(each) for name, each in value.items()}
    if isinstance(value, list):
        each_same = [same(each) for each in value]
        return sorted(each_same, key=repr) if value and isinstance(value[0], tuple) else each_same
    if isinstance(value, tuple):
        return tuple(same(each) for each in value)
    return value


def by_key(rows: pa.Table) -> dict[Any, Any]:
    return {row["key"]: same(row) for row in rows.to_pylist()}


@fitting
@given(table=tables())
def test_what_is_read_is_what_was_written(store, table):
    declared = Declared(f"view {next(views)}", ("key",), table.schema)
    with claimed(store, declared) as writer, store.reader(declared.name) as reader:
        assert writer.apply(table, marker(0))[:3] == (table.num_rows, 0, 0)
        rows = reader.rows()
        assert by_key(rows) == by_key(table)
        assert rows.schema.types == table.schema.types
        for row in table.to_pylist():
            assert same(reader.get({"key": row["key"]})) == same(row)
        assert writer.apply(table, marker(1))[:3] == (0, 0, 0)
        removed = table.append_column("_change", pa.array(["delete"] * table.num_rows, pa.string()))
        assert writer.apply(removed, marker(2))[:3] == (0, 0, table.num_rows)
        images = [(change.kind, same(change.after or change.before)) for change in reader.changes(0)]
        expected = [same(row) for row in table.to_pylist()]
        assert images == [("insert", row) for row in expected] + [("delete", row) for row in expected]


EXTREMES = [
    (pa.float64(), [math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 123456789.123456789]),
    (pa.float32(), [math.inf, math.nan, 1.401298464324817e-45, 3.4028234663852886e38]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)]),
    (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    (pa.uint64(), [0, 2**63, 2**64 - 1]),
    (pa.decimal128(38, 10), [Decimal("0"), Decimal("1E-10"), Decimal("-9999999999999999999999999999.9999999999")]),
    (pa.list_(pa.float64()), [[math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 0.1]]),
    (pa.list_(pa.decimal128(38, 10)), [[Decimal("1E-10"), Decimal("12345678901234567890.1234567890")]]),
]


@pytest.mark.parametrize(("kind", "values"), EXTREMES, ids=[str(kind) for kind, _ in EXTREMES])
def test_extreme_values_come_back(store, kind, values):
    table = pa.table({"key": list(range(len(values))), "value": pa.array(values, kind)})
    with claimed(store, Declared("extremes", ("key",), table.schema)) as writer:
        writer.apply(table, marker(0))
        assert writer.apply(table, marker(1))[:3] == (0, 0, 0)
    with store.reader("extremes") as reader:
        assert by_key(reader.rows()) == by_key(table)


ALIKE = [
    (pa.array(["a", "b"], pa.large_string()), pa.string()),
    (pa.array(["a", "b"]).dictionary_encode(), pa.string()),
    (pa.array([b"a", b"b"], pa.large_binary()), pa.binary()),
    (pa.array([1, 2], pa.timestamp("s", "Europe/Vienna")), pa.timestamp("us", "UTC")),
    (pa.array([1, 2], pa.timestamp("ms")), pa.timestamp("us")),
    (pa.array([86_400_000, 0], pa.date64()), pa.date32()),
    (pa.array([1, 2], pa.duration("s")), pa.duration("us")),
    (pa.array([["a"], []], pa.large_list(pa.large_string())), pa.list_(pa.string())),
]


@pytest.mark.parametrize(("values", "kept"), ALIKE, ids=[str(values.type) for values, _ in ALIKE])
def test_arrow_layouts_of_one_type_are_kept_alike(store, values, kept):
    table = pa.table({"key": [0, 1], "value": values})
    with claimed(store, Declared("alike", ("key",), table.schema)) as writer:
        writer.apply(table, marker(0))
        plain = table.set_column(1, "value", values.cast(kept))
        assert writer.apply(plain, marker(1))[:3] == (0, 0, 0)
    with store.reader("alike") as reader:
        assert reader.schema().field("value").type == kept
        assert reader.rows()["value"].to_pylist() == values.cast(kept).to_pylist()


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()])
@pytest.mark.parametrize("year", [0, 10_000])
def test_times_outside_of_the_years_1_to_9999_are_refused_with_row_and_column(store, kind, year):
    days = -719_163 if year == 0 else 2_932_897
    value = pa.array([days], pa.int32()).cast(pa.date32())
    values = pa.concat_arrays([pa.nulls(1, kind), value.cast(kind)])
    table = pa.table({"key": [7, 8], "at": values})
    with claimed(store, Declared("times", ("key",), table.schema)) as writer:
        with pytest.raises(InvalidValue, match="years 1 to 9999") as caught:
            writer.apply(table, marker(0))
        assert writer.marker() is None
    assert (caught.value.column, caught.value.row) == ("at", 1)


def listed(times):
    return pa.ListArray.from_arrays([0, 1, 2], times)


def structured(times):
    return pa.StructArray.from_arrays([times, listed(times)], ["at", "all"])


def mapped(times):
    return pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), times)


@pytest.mark.parametrize("inside", [listed, structured, mapped])
@pytest.mark.parametrize("days", [-719_163, 2_932_897])
def test_so_are_those_inside_of_other_values(store, inside, days):
    times = pa.array([0, days], pa.int32()).cast(pa.date32()).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"key": [7, 8], "value": inside(times)})
    with claimed(store, Declared("times", ("key",), table.schema)) as writer:
        with pytest.raises(InvalidValue, match="years 1 to 9999") as caught:
            writer.apply(table, marker(0))
        assert (caught.value.column, caught.value.row) == ("value", 1)
        assert writer.apply(table.slice(0, 1), marker(0)).inserted == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["fine", "not\0fine"]),
        pa.array([["fine"], ["not\0fine"]]),
        pa.array([[("fine", 1)], [("not\0fine", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=["text", "list", "map"],
)
def test_a_nul_in_text_is_kept_or_refused_with_row_and_column(store, kind, column):
    table = pa.table({"key": [1, 2], "value": column})
    with claimed(store, Declared("nuls", ("key",), table.schema)) as writer, store.reader("nuls") as reader:
        if kind == "sqlite":
            writer.apply(table, marker(0))
            assert by_key(reader.rows()) == by_key(table)
            assert writer.apply(table, marker(1))[:3] == (0, 0, 0)
            return
        with pytest.raises(InvalidValue, match="NUL") as caught:
            writer.apply(table, marker(0))
        assert (caught.value.view, caught.value.column, caught.value.row) == ("nuls", "value", 1)
        assert writer.marker() is None
        assert reader.rows().num_rows == 0
        writer.apply(table.slice(0, 1), marker(0))
        assert reader.rows().num_rows == 1


def test_a_backslash_before_u0000_is_no_nul(store):
    table = pa.table({"key": [1], "value": [["\\u0000", "\\\\u0000"]]})
    with claimed(store, Declared("escapes", ("key",), table.schema)) as writer, store.reader("escapes") as reader:
        writer.apply(table, marker(0))
        assert reader.rows()["value"].to_pylist() == [["\\u0000", "\\\\u0000"]]


def test_other_tools_see_typed_values(store, place):
    moment = datetime.datetime(2026, 11, 15, 20, 40, 33, tzinfo=UTC)
    table = pa.table(
        {
            "page": ["a"],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "local": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
            "day": [moment.date()],
            "amount": pa.array([Decimal("1234.50")], pa.decimal128(12, 2)),
            "good": [True],
            "raw": [b"\x00\xff"],
            "share": [0.5],
            "tags": [["x", "ü"]],
        }
    )
    with claimed(store, Declared("typed", ("page",), table.schema)) as writer:
        writer.apply(table, marker(0))
    (row,) = place.query("SELECT page, at, local, day, amount, good, raw, share FROM typed")
    (tags,) = place.query("SELECT CAST(tags AS text) FROM typed")[0]
    if place.kind == "sqlite":
        assert row == (
            "a", "2026-11-15T20:40:33.000000Z", "2026-11-15T20:40:33.000000", "2026-11-15",
            "1234.50", 1, b"\x00\xff", 0.5,
        )  # fmt: skip
        assert tags == '["x","ü"]'
        assert place.query("SELECT datetime(at) FROM typed") == [("2026-11-15 20:40:33",)]
        assert place.query("SELECT value FROM typed, json_each(tags)") == [("x",), ("ü",)]
    else:
        assert row == (
            "a", moment, moment.replace(tzinfo=None), moment.date(), Decimal("1234.50"), True, b"\x00\xff", 0.5,
        )  # fmt: skip
        assert place.query("SELECT tags ->> 1 FROM typed") == [("ü",)]


def test_times_sort_as_they_follow_each_other_in_other_tools(store, place):
    times = [-62_135_596_800_000_000, -1, 0, 1, 1_000_000, 253_402_300_799_999_999]
    table = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    with claimed(store, Declared("times", ("at",), table.schema)) as writer:
        writer.apply(table.take([3, 0, 5, 1, 4, 2]), marker(0))
    assert len(place.query("SELECT at FROM times ORDER BY at")) == len(times)
    with store.reader("times") as reader:
        assert reader.rows()["at"].cast(pa.int64()).to_pylist() == times


def test_a_column_that_postgres_has_itself_is_refused_there(store, kind):
    declared = Declared("clicks", ("ctid",), pa.schema([("ctid", pa.string())]))
    with store.writer(declared, QUERY) as writer:
        if kind == "postgres":
            with pytest.raises(InvalidDeclaration, match="'ctid' of its own"):
                writer.claim()
        else:
            writer.claim()
