"""Bytes of the log's rows become values."""

import zlib

import pytest

from runnel.capture.mariadb.kinds import Kind
from runnel.capture.mariadb.table_maps import LoggedColumn, Type
from runnel.capture.mariadb.values import UnknownType, decoder_of, refined, type_of, unpacked


def column(kind, meta=0, *, unsigned=False, collation=None, labels=(), shape=0):
    return LoggedColumn("v", kind, meta, True, unsigned, collation, labels, shape)


def text_of(collation):
    return None if collation in (None, 63) else lambda value: value.decode()


def decoded(data, *given, **named):
    kind, decode = decoder_of(column(*given, **named), text_of)
    value, end = decode(b"\xaa" + data + b"\xbb", 1)
    assert end == 1 + len(data), "it takes what is its own, and no more"
    return kind.name, value


@pytest.mark.parametrize(
    ("data", "kind", "meta", "unsigned", "name", "value"),
    [
        ("ff", Type.TINY, 0, False, "tinyint", -1),
        ("ff", Type.TINY, 0, True, "tinyint unsigned", 255),
        ("feff", Type.SHORT, 0, False, "smallint", -2),
        ("ffff7f", Type.INT24, 0, False, "mediumint", 8_388_607),
        ("000080", Type.INT24, 0, False, "mediumint", -8_388_608),
        ("ffffff", Type.INT24, 0, True, "mediumint unsigned", 16_777_215),
        ("ffffffff", Type.LONG, 0, True, "int unsigned", 4_294_967_295),
        ("ffffffffffffffff", Type.LONGLONG, 0, True, "bigint unsigned", 2**64 - 1),
        ("0000c03f", Type.FLOAT, 4, False, "float", 1.5),
        ("000000000000f83f", Type.DOUBLE, 8, False, "double", 1.5),
        ("7c", Type.YEAR, 0, False, "year", 2024),
        ("00", Type.YEAR, 0, False, "year", 0),
        ("0201", Type.BIT, 0x0102, False, "bit", 513),
    ],
)
def test_numbers(data, kind, meta, unsigned, name, value):
    assert decoded(bytes.fromhex(data), kind, meta, unsigned=unsigned) == (name, value)


@pytest.mark.parametrize(
    ("data", "precision", "scale", "text"),
    [
        ("810dfb38d204d2", 14, 4, "1234567890.1234"),
        ("7ef204c72dfb2d", 14, 4, "-1234567890.1234"),
        ("8000000000", 10, 2, "0.00"),
        ("800000010a", 10, 2, "1.10"),
        ("7ffffffef5", 10, 2, "-1.10"),
        ("80", 1, 0, "0"),
        ("76", 1, 0, "-9"),
        ("8000000000000001", 18, 18, "0.000000000000000001"),
        ("e3", 2, 2, "0.99"),
    ],
)
def test_decimals(data, precision, scale, text):
    assert decoded(bytes.fromhex(data), Type.NEWDECIMAL, precision | scale << 8) == ("decimal", text)


@pytest.mark.parametrize(
    ("data", "kind", "meta", "name", "text"),
    [
        ("5dd00f", Type.DATE, 0, "date", "2024-02-29"),
        ("000000", Type.NEWDATE, 0, "date", "0000-00-00"),
        ("80c8b8", Type.TIME2, 0, "time", "12:34:56"),
        ("7fffff", Type.TIME2, 0, "time", "-00:00:01"),
        ("7ffffff6", Type.TIME2, 2, "time", "-00:00:00.10"),
        ("7fffffffffff", Type.TIME2, 6, "time", "-00:00:00.000001"),
        ("80000001e240", Type.TIME2, 6, "time", "00:00:00.123456"),
        ("99b2bac8b8", Type.DATETIME2, 0, "datetime", "2024-02-29 12:34:56"),
        ("99b2bac8b81ed2", Type.DATETIME2, 3, "datetime", "2024-02-29 12:34:56.789"),
        ("8000000000", Type.DATETIME2, 0, "datetime", "0000-00-00 00:00:00"),
        ("65e07af0", Type.TIMESTAMP2, 0, "timestamp", "2024-02-29 12:39:12"),
        ("65e07af032", Type.TIMESTAMP2, 1, "timestamp", "2024-02-29 12:39:12.5"),
        ("00000000", Type.TIMESTAMP2, 0, "timestamp", "0000-00-00 00:00:00"),
        ("f07ae065", Type.TIMESTAMP, 0, "timestamp", "2024-02-29 12:39:12"),
        ("40e201", Type.TIME, 0, "time", "12:34:56"),
        ("80f0fdaa68120000", Type.DATETIME, 0, "datetime", "2024-02-29 12:34:56"),
    ],
)
def test_dates_and_times(data, kind, meta, name, text):
    if kind == Type.DATETIME:
        data = (20240229123456).to_bytes(8, "little").hex()
    assert decoded(bytes.fromhex(data), kind, meta) == (name, text)


def test_texts_and_bytes():
    assert decoded(b"\x02ab", Type.VARCHAR, 20, collation=45) == ("text", "ab")
    assert decoded(b"\x02\x00ab", Type.VARCHAR, 300, collation=45) == ("text", "ab")
    assert decoded(b"\x03\x00\x00abc", Type.BLOB, 3, collation=45) == ("text", "abc")
    assert decoded(b"\x02\x00\xff", Type.BLOB, 1, collation=63) == ("bytes", b"\x00\xff")
    assert decoded(b"\x02\x01\x02", Type.STRING, 4, collation=63) == ("bytes", b"\x01\x02\x00\x00")
    assert decoded(b"\x02ab", Type.STRING, 40, collation=45) == ("text", "ab")
    assert decoded(b"\x02\x00\x00\x00xy", Type.GEOMETRY, 4, shape=1) == ("point", b"xy")


def test_words_of_enums_and_sets():
    labels = (b"a", "ä".encode())
    assert decoded(b"\x02", Type.ENUM, 1, collation=45, labels=labels) == ("enum", "ä")
    assert decoded(b"\x00", Type.ENUM, 1, collation=45, labels=labels) == ("enum", "")
    assert decoded(b"\x03\x00", Type.SET, 2, collation=45, labels=labels) == ("set", "a,ä")


def test_squeezed_values_are_unpacked():
    assert unpacked(b"") == b""
    assert unpacked(b"\x00abc") == b"abc"
    assert unpacked(b"\x82\xe8\x03" + zlib.compress(b"a" * 1000)) == b"a" * 1000


def test_a_type_that_nobody_knows_is_an_error():
    with pytest.raises(UnknownType, match="column v is of type 77"):
        decoder_of(column(77), text_of)


@pytest.mark.parametrize(
    ("known", "meta", "data", "value"),
    [
        ("uuid", 16, bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("inet4", 4, b"\x7f", "127.0.0.0"),
        ("inet6", 16, b"\x20\x01\x0d\xb8", "2001:db8::"),
    ],
)
def test_what_only_the_catalog_knows(known, meta, data, value):
    told = column(Type.STRING, meta, collation=63)
    kind, decode = refined(*decoder_of(told, text_of), told, Kind(known))
    assert (kind, decode(bytes([len(data)]) + data, 0)[0]) == (Kind(known), value)


def test_a_catalog_that_cannot_mean_the_same_column_is_not_heeded():
    told = column(Type.STRING, 8, collation=63)
    assert refined(*decoder_of(told, text_of), told, Kind("uuid"))[0] == Kind("bytes")


@pytest.mark.parametrize(
    ("logged", "kind", "name"),
    [
        (column(Type.LONG, unsigned=True), "int unsigned", "INT UNSIGNED"),
        (column(Type.YEAR, unsigned=True), "year", "YEAR"),
        (column(Type.DATETIME2, 6), "datetime", "DATETIME"),
        (column(Type.VARCHAR, 80), "text", "VARCHAR"),
        (column(Type.VARCHAR_COMPRESSED, 80), "bytes", "VARBINARY"),
        (column(Type.STRING, 4), "bytes", "BINARY"),
        (column(Type.BLOB, 1), "bytes", "TINYBLOB"),
        (column(Type.BLOB, 4), "text", "LONGTEXT"),
        (column(Type.GEOMETRY, 4, shape=2), "geometry", "LINESTRING"),
    ],
)
def test_types_have_the_names_that_the_server_gives_them(logged, kind, name):
    assert type_of(logged, Kind(kind)) == name
