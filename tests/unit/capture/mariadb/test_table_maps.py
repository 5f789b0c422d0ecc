"""What the log tells of a table before its rows."""

import zlib
from struct import pack

import pytest

from runnel.capture.mariadb.binlog import HEADER, inflated, rows_of
from runnel.capture.mariadb.table_maps import Option, Type, table_map_of
from tests.unit.capture.mariadb.binlog_bytes import UPDATE, Writer


def described(types, metas, options):
    body = pack("<IHH", 7, 0, 1) + b"\x01s\0\x01t\0" + bytes([len(types), *types])
    body += bytes([len(metas)]) + metas + bytes((len(types) + 7) // 8)
    return table_map_of(bytes(HEADER) + body + b"".join(bytes([kind, len(part)]) + part for kind, part in options))


def test_a_table_has_names_and_a_key():
    told = table_map_of(Writer().table())
    assert (told.schema, told.name, told.key) == ("s", "t", (0,))
    first, second = told.columns
    assert (first.name, first.type, first.is_nullable, first.is_unsigned) == ("id", Type.LONG, False, True)
    assert (second.name, second.meta, second.is_nullable, second.collation) == ("v", 20, True, 45)


def test_what_is_told_of_some_columns_finds_them():
    types = [Type.STRING, Type.TINY, Type.STRING, Type.VARCHAR, Type.STRING, Type.LONG, Type.GEOMETRY]
    metas = bytes([Type.ENUM, 1]) + bytes([Type.STRING, 40]) + b"\x14\x00" + bytes([Type.SET, 1]) + b"\x04"
    told = described(
        types,
        metas,
        [
            (Option.SIGNEDNESS, b"\x40"),
            (Option.DEFAULT_COLLATION, b"\x3f\x01\x2d"),
            (Option.ENUM_LABELS, b"\x02\x01a\x01b"),
            (Option.SET_LABELS, b"\x01\x01x"),
            (Option.LABEL_COLLATIONS, b"\x08\x21"),
            (Option.SHAPES, b"\x01"),
            (Option.KEY_OF_PREFIXES, b"\x03\x05\x01\x00"),
        ],
    )
    assert [column.type for column in told.columns] == [
        Type.ENUM, Type.TINY, Type.STRING, Type.VARCHAR, Type.SET, Type.LONG, Type.GEOMETRY,
    ]  # fmt: skip
    assert [column.is_unsigned for column in told.columns] == [False, False, False, False, False, True, False]
    assert [column.collation for column in told.columns] == [8, None, 63, 45, 33, None, 63]
    assert told.columns[0].labels == (b"a", b"b")
    assert told.columns[4].labels == (b"x",)
    assert told.columns[6].shape == 1
    assert told.key == (3, 1)


@pytest.mark.parametrize(
    "told",
    [(Option.COLLATIONS, b"\x2d\x3f\x08"), (Option.DEFAULT_COLLATION, b"\x2d\x01\x3f\x02\x08")],
    ids=["of each", "of those that differ"],
)
def test_places_have_a_collation_among_those_of_texts(told):
    types = [Type.VARCHAR, Type.GEOMETRY, Type.LONG, Type.VARCHAR]
    columns = described(types, b"\x14\x00\x04\x14\x00", [told]).columns
    assert [column.collation for column in columns] == [45, 63, None, 8]


@pytest.mark.parametrize(("first", "second", "length"), [(0xFE, 0x10, 16), (0xCE, 0xFC, 1020)])
def test_a_long_text_has_two_bits_of_its_length_in_its_type(first, second, length):
    (column,) = described([Type.STRING], bytes([first, second]), []).columns
    assert column.meta == length


def test_rows_say_which_columns_they_have():
    rows = rows_of(Writer().rows(UPDATE, (1, "a"), (1, "b")), UPDATE)
    assert (rows.before, rows.after) == ((0, 1), (0, 1))


def test_what_is_compressed_says_how_long_its_length_is():
    assert inflated(b"\x82\x00\x03" + zlib.compress(b"abc")) == b"abc"
