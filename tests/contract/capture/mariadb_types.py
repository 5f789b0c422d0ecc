"""Every built-in type of MariaDB, with literals and the JSON of their values.

The JSON is what Debezium 3.3 writes of the same log, unless the type is in `OURS`, or in `ENDING`.
"""

from typing import Final, NamedTuple


class Type(NamedTuple):
    name: str
    sql: str
    schema: str  # the type of Kafka Connect, and its name where it has one
    values: tuple[tuple[str, str], ...]


TIME: Final = "int64 io.debezium.time.MicroTime"
MILLIS: Final = "int64 io.debezium.time.Timestamp"
MICROS: Final = "int64 io.debezium.time.MicroTimestamp"
ZONED: Final = "string io.debezium.time.ZonedTimestamp"
DATE: Final = "int32 io.debezium.time.Date"
DECIMAL: Final = "bytes org.apache.kafka.connect.data.Decimal"
GEOMETRY: Final = "struct io.debezium.data.geometry.Geometry"

UNPARSED: Final = "its parser of SQL does not know the type"
UNREAD: Final = "its reader of the log does not know the type"
# With which Debezium ends, so that nothing can be compared.
ENDING: Final = {"inet4": UNPARSED, "inet6": UNPARSED, "varchar_squeezed": UNREAD, "text_squeezed": UNREAD}
# Where we differ from Debezium on purpose, and why.
OURS: Final = {
    "bigint_unsigned": "beyond 2^63 the number itself, and not the negative one of the same bits",
    "year": "the year 0, and not 1900",
    "timestamp_none": "a time that is none is null, as Debezium has it of dates, and not the beginning of 1970",
    "enum": "the word itself, and not with a backslash before its comma",
    "json": "io.debezium.data.Json in the snapshot and in the log alike: Debezium reads a LONGTEXT in the snapshot",
}
# The same of rows that are there when the tables are read.
ENDING_READ: Final = {"year": "its driver makes a date of a year, and there is none of the year 0"}
OURS_READ: Final = {
    "bigint_unsigned": OURS["bigint_unsigned"],
    "float": "the number as the log has it, and not the six digits of the server's text",
    "timestamp_six": "with as many digits as the column has, as Debezium has it of the log, too",
    "timestamp_none_filled": "the beginning of 1970, as Debezium has it of the log, and not the column's default",
    "json": OURS["json"],
}
TYPES: Final = (
    Type("tinyint", "tinyint", "int16", (("-128", "-128"), ("127", "127"))),
    Type("tinyint_unsigned", "tinyint unsigned", "int16", (("0", "0"), ("255", "255"))),
    Type("boolean", "boolean", "int16", (("true", "1"), ("false", "0"))),
    Type("smallint", "smallint", "int16", (("-32768", "-32768"), ("32767", "32767"))),
    Type("smallint_unsigned", "smallint unsigned", "int32", (("65535", "65535"),)),
    Type("mediumint", "mediumint", "int32", (("-8388608", "-8388608"), ("8388607", "8388607"))),
    Type("mediumint_unsigned", "mediumint unsigned", "int32", (("16777215", "16777215"),)),
    Type("int", "int", "int32", (("-2147483648", "-2147483648"), ("2147483647", "2147483647"))),
    Type("int_unsigned", "int unsigned", "int64", (("4294967295", "4294967295"),)),
    Type("int_zerofill", "int(8) zerofill", "int64", (("42", "42"),)),
    Type(
        "bigint",
        "bigint",
        "int64",
        (("-9223372036854775808", "-9223372036854775808"), ("9223372036854775807", "9223372036854775807")),
    ),
    Type("bigint_unsigned", "bigint unsigned", "int64", (("18446744073709551615", "18446744073709551615"), ("1", "1"))),
    Type(
        "decimal",
        "decimal(10,2)",
        DECIMAL,
        (("0", '"AA=="'), ("1.10", '"bg=="'), ("-12345678.90", '"tmn9Lg=="'), ("99999999.99", '"AlQL4/8="')),
    ),
    Type("decimal_whole", "decimal(20,0)", DECIMAL, (("12345678901234567890", '"AKtUqYzrHwrS"'), ("-1", '"/w=="'))),
    Type(
        "decimal_fraction", "decimal(18,18)", DECIMAL, (("0.000000000000000001", '"AQ=="'), ("-0.5", '"+Q+kpixOAAA="'))
    ),
    Type("decimal_zerofill", "decimal(8,3) zerofill", DECIMAL, (("1.5", '"Bdw="'), ("0", '"AA=="'))),
    Type(
        "decimal_long",
        "decimal(38,10)",
        DECIMAL,
        (("1234567890123456789012345678.0123456789", '"CUmw9vACMxPESZBOzGdFFQ=="'),),
    ),
    Type(
        "float",
        "float",
        "float",
        (
            ("1.5", "1.5"),
            ("0.1", "0.1"),
            ("16777216", "16777216.0"),
            ("3.4028235e38", "3.4028235e+38"),
            ("-2", "-2.0"),
        ),
    ),
    Type("double", "double", "double", (("1.5", "1.5"), ("0.1", "0.1"), ("1e300", "1e+300"), ("-100000", "-100000.0"))),
    Type("bit_one", "bit(1)", "boolean", (("b'1'", "true"), ("b'0'", "false"))),
    Type("bit_ten", "bit(10)", "bytes io.debezium.data.Bits", (("b'1000000001'", '"AQI="'), ("b'1'", '"AQA="'))),
    Type("bit_most", "bit(64)", "bytes io.debezium.data.Bits", (("b'11'", '"AwAAAAAAAAA="'),)),
    Type("year", "year", "int32 io.debezium.time.Year", (("2024", "2024"), ("1901", "1901"), ("0", "0"))),
    Type(
        "date",
        "date",
        DATE,
        (("'1970-01-01'", "0"), ("'2024-02-29'", "19782"), ("'1000-01-01'", "-354285"), ("'9999-12-31'", "2932896")),
    ),
    Type("date_none", "date", DATE, (("'0000-00-00'", "null"), ("'2024-00-10'", "null"))),
    Type("date_none_filled", "date not null", DATE, (("'0000-00-00'", "0"),)),
    Type(
        "time",
        "time",
        TIME,
        (("'12:34:56'", "45296000000"), ("'-838:59:59'", "-3020399000000"), ("'838:59:59'", "3020399000000")),
    ),
    Type("time_three", "time(3)", TIME, (("'12:34:56.789'", "45296789000"), ("'-00:00:00.001'", "-1000"))),
    Type("time_six", "time(6)", TIME, (("'-100:00:00.000001'", "-360000000001"), ("'23:59:59.999999'", "86399999999"))),
    Type("time_one", "time(1)", TIME, (("'-01:00:00.5'", "-3600500000"),)),
    Type(
        "datetime",
        "datetime",
        MILLIS,
        (("'2024-02-29 12:34:56'", "1709210096000"), ("'1000-01-01 00:00:00'", "-30610224000000")),
    ),
    Type("datetime_three", "datetime(3)", MILLIS, (("'2024-02-29 12:34:56.789'", "1709210096789"),)),
    Type("datetime_six", "datetime(6)", MICROS, (("'2024-02-29 12:34:56.789012'", "1709210096789012"),)),
    Type("datetime_five", "datetime(5)", MICROS, (("'2024-02-29 12:34:56.78901'", "1709210096789010"),)),
    Type("datetime_none", "datetime", MILLIS, (("'0000-00-00 00:00:00'", "null"),)),
    Type("datetime_none_filled", "datetime(6) not null", MICROS, (("'0000-00-00 00:00:00'", "0"),)),
    Type("timestamp", "timestamp null", ZONED, (("'2024-02-29 12:34:56'", '"2024-02-29T12:34:56Z"'),)),
    Type("timestamp_six", "timestamp(6) null", ZONED, (("'2024-02-29 12:34:56.5'", '"2024-02-29T12:34:56.500000Z"'),)),
    Type("timestamp_none", "timestamp null", ZONED, (("'0000-00-00 00:00:00'", "null"),)),
    Type(
        "timestamp_none_filled",
        "timestamp not null default '2020-01-01'",
        ZONED,
        (("'0000-00-00 00:00:00'", '"1970-01-01T00:00:00Z"'),),
    ),
    Type("char", "char(5)", "string", (("'ab'", '"ab"'), ("''", '""'), ("'Käse'", '"Käse"'))),
    Type("char_long", "char(255)", "string", (("repeat('ä', 255)", f'"{"ä" * 255}"'),)),
    Type(
        "varchar", "varchar(20)", "string", (("'it''s \"q\"'", '"it\'s \\"q\\""'), ("'a '", '"a "'), ("'😀'", '"😀"'))
    ),
    Type("varchar_long", "varchar(3000)", "string", (("repeat('x', 3000)", f'"{"x" * 3000}"'),)),
    Type("varchar_latin", "varchar(20) character set latin1", "string", (("'Käse €'", '"Käse €"'),)),
    Type("varchar_cyrillic", "varchar(20) character set koi8r", "string", (("'мир'", '"мир"'),)),
    Type("varchar_japanese", "varchar(20) character set sjis", "string", (("'日本'", '"日本"'),)),
    Type("varchar_wide", "varchar(20) character set ucs2", "string", (("'aß日'", '"aß日"'),)),
    Type(
        "varchar_squeezed",
        "varchar(2000) compressed",
        "string",
        (("repeat('a', 1000)", f'"{"a" * 1000}"'), ("'b'", '"b"')),
    ),
    Type("tinytext", "tinytext", "string", (("'abc'", '"abc"'),)),
    Type("text", "text", "string", (("repeat('x', 60000)", f'"{"x" * 60000}"'), ("''", '""'))),
    Type("text_squeezed", "text compressed", "string", (("repeat('ä', 20000)", f'"{"ä" * 20000}"'),)),
    Type("mediumtext", "mediumtext", "string", (("'abc'", '"abc"'),)),
    Type("longtext", "longtext", "string", (("'abc'", '"abc"'),)),
    Type("json", "json", "string io.debezium.data.Json", (("'{\"a\": [1, null]}'", '"{\\"a\\": [1, null]}"'),)),
    Type("binary", "binary(4)", "bytes", (("x'0102'", '"AQIAAA=="'), ("x'00000000'", '"AAAAAA=="'))),
    Type("varbinary", "varbinary(10)", "bytes", (("x'00ff00'", '"AP8A"'), ("''", '""'))),
    Type("tinyblob", "tinyblob", "bytes", (("x'00'", '"AA=="'),)),
    Type("blob", "blob", "bytes", (("x'ff00'", '"/wA="'),)),
    Type("mediumblob", "mediumblob", "bytes", (("x'ff'", '"/w=="'),)),
    Type("longblob", "longblob", "bytes", (("x'ff'", '"/w=="'),)),
    Type(
        "enum",
        "enum('a','b,c','ü')",
        "string io.debezium.data.Enum",
        (("'a'", '"a"'), ("'b,c'", '"b,c"'), ("'ü'", '"ü"'), ("0", '""')),
    ),
    Type(
        "set",
        "set('a','b','ü')",
        "string io.debezium.data.EnumSet",
        (("'a,ü'", '"a,ü"'), ("''", '""'), ("7", '"a,b,ü"')),
    ),
    Type(
        "enum_many",
        f"enum({','.join(repr(str(number)) for number in range(300))})",
        "string io.debezium.data.Enum",
        (("'299'", '"299"'), ("'0'", '"0"')),
    ),
    Type(
        "uuid",
        "uuid",
        "string io.debezium.data.Uuid",
        (
            ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
            ("'00000000-0000-0000-0000-000000000000'", '"00000000-0000-0000-0000-000000000000"'),
        ),
    ),
    Type("inet4", "inet4", "string", (("'192.168.0.1'", '"192.168.0.1"'), ("'0.0.0.0'", '"0.0.0.0"'))),
    Type(
        "inet6",
        "inet6",
        "string",
        (
            ("'2001:db8::ff00:42:8329'", '"2001:db8::ff00:42:8329"'),
            ("'::'", '"::"'),
            ("'::1'", '"::1"'),
            ("'::ffff:192.168.0.1'", '"::ffff:192.168.0.1"'),
            ("'::192.168.0.1'", '"::192.168.0.1"'),
            ("'1::'", '"1::"'),
            ("'0:1:0:1:0:1:0:1'", '"::1:0:1:0:1:0:1"'),
            ("'1:0:0:2:0:0:0:3'", '"1:0:0:2::3"'),
            ("'fe80:1:2:3:4:5:6:0'", '"fe80:1:2:3:4:5:6::"'),
            ("'1:2:3:4:5:6:7:8'", '"1:2:3:4:5:6:7:8"'),
            ("'::1:0'", '"::0.1.0.0"'),
        ),
    ),
    Type(
        "point",
        "point",
        "struct io.debezium.data.geometry.Point",
        (("ST_PointFromText('POINT(1.5 -2)')", '{"x":1.5,"y":-2.0,"wkb":"AQEAAAAAAAAAAAD4PwAAAAAAAADA","srid":null}'),),
    ),
    Type(
        "point_somewhere",
        "point",
        "struct io.debezium.data.geometry.Point",
        (
            (
                "ST_PointFromText('POINT(1.5 -2)', 4326)",
                '{"x":1.5,"y":-2.0,"wkb":"AQEAAAAAAAAAAAD4PwAAAAAAAADA","srid":4326}',
            ),
        ),
    ),
    Type(
        "linestring",
        "linestring",
        GEOMETRY,
        (
            (
                "ST_LineFromText('LINESTRING(0 0, 1 1)')",
                '{"wkb":"AQIAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAPA/AAAAAAAA8D8=","srid":null}',
            ),
        ),
    ),
    Type(
        "geometry",
        "geometry",
        GEOMETRY,
        (("ST_GeomFromText('POINT(0 0)')", '{"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'),),
    ),
)
