"""Every built-in type of PostgreSQL, with literals and the JSON of their values.

The JSON is what Debezium 3.3 writes of the same log, unless the type is in `OURS`.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple


class Type(NamedTuple):
    name: str
    sql: str
    schema: str  # the type of Kafka Connect, and its name where it has one
    values: tuple[tuple[str, str], ...]


# Not every server has them: they are no part of the smallest PostgreSQL. The other is one that was built with libxml.
EXTENSIONS: Final = ("hstore", "citext", "ltree")
XML: Final = "xml"
MADE: Final = (
    "CREATE TYPE public.mood as enum ('sad','so so','happy')",
    "CREATE DOMAIN public.positive as integer check (value > 0)",
    "CREATE DOMAIN public.label as text",
    "CREATE DOMAIN public.price as numeric(8,3)",
    "CREATE DOMAIN public.short as varchar(7)",
    "CREATE TYPE public.pair as (a int, b text)",
)
TYPES: Final = (
    Type(
        "bool",
        "boolean",
        "boolean",
        (
            ("true", "true"),
            ("false", "false"),
        ),
    ),
    Type(
        "int2",
        "smallint",
        "int16",
        (
            ("-32768", "-32768"),
            ("32767", "32767"),
        ),
    ),
    Type(
        "int4",
        "integer",
        "int32",
        (
            ("-2147483648", "-2147483648"),
            ("2147483647", "2147483647"),
        ),
    ),
    Type(
        "int8",
        "bigint",
        "int64",
        (
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775807", "9223372036854775807"),
        ),
    ),
    Type(
        "oid",
        "oid",
        "int64",
        (
            ("0", "0"),
            ("4294967295", "4294967295"),
        ),
    ),
    Type(
        "float4",
        "real",
        "float",
        (
            ("1.5", "1.5"),
            ("0.1", "0.1"),
            ("1e20", "1e+20"),
            ("1e-20", "1e-20"),
            ("-0", "0.0"),
            ("100000", "100000.0"),
            ("'NaN'", '"NaN"'),
            ("'Infinity'", '"Infinity"'),
            ("'-Infinity'", '"-Infinity"'),
            ("16777216", "1.6777216e+07"),
        ),
    ),
    Type(
        "float8",
        "double precision",
        "double",
        (
            ("1.5", "1.5"),
            ("0.1", "0.1"),
            ("1e300", "1e+300"),
            ("1e-300", "1e-300"),
            ("100000", "100000.0"),
            ("1e7", "10000000.0"),
            ("123456789.125", "123456789.125"),
            ("'NaN'", '"NaN"'),
            ("'Infinity'", '"Infinity"'),
            ("'-Infinity'", '"-Infinity"'),
        ),
    ),
    Type(
        "numeric_plain",
        "numeric",
        "struct io.debezium.data.VariableScaleDecimal",
        (
            ("0", '{"scale":0,"value":"AA=="}'),
            ("1.10", '{"scale":1,"value":"Cw=="}'),
            ("-12345678901234567890.123", '{"scale":3,"value":"/WK9SbGJjr27NQ=="}'),
            ("1e30", '{"scale":0,"value":"DJ8snNBGdO3qQAAAAA=="}'),
            ("100", '{"scale":0,"value":"ZA=="}'),
            ("1e-10", '{"scale":10,"value":"AQ=="}'),
            ("'NaN'", "null"),
            ("'Infinity'", "null"),
        ),
    ),
    Type(
        "numeric_10_2",
        "numeric(10,2)",
        "bytes org.apache.kafka.connect.data.Decimal",
        (
            ("0", '"AA=="'),
            ("1.1", '"bg=="'),
            ("-12345678.90", '"tmn9Lg=="'),
            ("99999999.99", '"AlQL4/8="'),
            ("'NaN'", "null"),
        ),
    ),
    Type(
        "numeric_5",
        "numeric(5)",
        "bytes org.apache.kafka.connect.data.Decimal",
        (
            ("0", '"AA=="'),
            ("-1", '"/w=="'),
            ("99999", '"AYaf"'),
            ("128", '"AIA="'),
            ("-128", '"gA=="'),
            ("-129", '"/38="'),
        ),
    ),
    Type("numeric_neg", "numeric(5,-2)", "bytes org.apache.kafka.connect.data.Decimal", (("1234567", '"MDo="'),)),
    Type(
        "money",
        "money",
        "bytes org.apache.kafka.connect.data.Decimal",
        (
            ("'$0'", '"AA=="'),
            ("'1234.56'", '"AeJA"'),
            ("'-92233720368547758.08'", '"gAAAAAAAAAA="'),
        ),
    ),
    Type(
        "char1",
        "char(1)",
        "string",
        (
            ("'a'", '"a"'),
            ("''", '" "'),
        ),
    ),
    Type(
        "char5",
        "char(5)",
        "string",
        (
            ("'abc'", '"abc  "'),
            ("'abcde'", '"abcde"'),
        ),
    ),
    Type("qchar", '"char"', "string", (("'a'", '"a"'),)),
    Type(
        "varchar",
        "varchar(20)",
        "string",
        (
            ("'abc'", '"abc"'),
            ("''", '""'),
        ),
    ),
    Type(
        "text",
        "text",
        "string",
        (
            ("'grüße \"x\" \\ / \u2028 end'", '"grüße \\"x\\" \\\\ / \u2028 end"'),
            ("E'tab\\tnl\\ncr\\r\\u0001\\u007f'", '"tab\\tnl\\ncr\\r\\u0001\x7f"'),
            ("''", '""'),
            ("'😀'", '"😀"'),
        ),
    ),
    Type("name", "name", "string", (("'somename'", '"somename"'),)),
    Type("citext", "public.citext", "string", (("'AbC'", '"AbC"'),)),
    Type(
        "bytea",
        "bytea",
        "bytes",
        (
            ("'\\x00ff10'", '"AP8Q"'),
            ("''", '""'),
        ),
    ),
    Type(
        "uuid",
        "uuid",
        "string io.debezium.data.Uuid",
        (("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),),
    ),
    Type(
        "json",
        "json",
        "string io.debezium.data.Json",
        (
            ("'{\"a\":  [1, 2.50, null]}'", '"{\\"a\\":  [1, 2.50, null]}"'),
            ("'1'", '"1"'),
        ),
    ),
    Type(
        "jsonb",
        "jsonb",
        "string io.debezium.data.Json",
        (('\'{"b":1,  "a": [1, 2.50, null]}\'', '"{\\"a\\": [1, 2.50, null], \\"b\\": 1}"'),),
    ),
    Type("jsonpath", "jsonpath", "string", (("'$.a'", '"$.\\"a\\""'),)),
    Type("xml", "xml", "string io.debezium.data.Xml", (("'<a>x</a>'", '"<a>x</a>"'),)),
    Type(
        "date",
        "date",
        "int32 io.debezium.time.Date",
        (
            ("'1970-01-01'", "0"),
            ("'2024-02-29'", "19782"),
            ("'0001-01-01'", "-719162"),
            ("'0044-03-15 BC'", "-735160"),
            ("'9999-12-31'", "2932896"),
            ("'infinity'", "-2147472692"),
            ("'-infinity'", "-2147472691"),
            ("'5874897-12-31'", "2145042905"),
        ),
    ),
    Type(
        "time",
        "time",
        "int64 io.debezium.time.MicroTime",
        (
            ("'00:00'", "0"),
            ("'23:59:59.999999'", "86399999999"),
            ("'12:34:56.7'", "45296700000"),
            ("'24:00'", "86400000000"),
        ),
    ),
    Type("time3", "time(3)", "int32 io.debezium.time.Time", (("'12:34:56.789'", "45296789"),)),
    Type("time0", "time(0)", "int32 io.debezium.time.Time", (("'12:34:56'", "45296000"),)),
    Type(
        "timetz",
        "timetz",
        "string io.debezium.time.ZonedTime",
        (
            ("'12:34:56+00'", '"12:34:56Z"'),
            ("'12:34:56.789012+05:30'", '"07:04:56.789012Z"'),
            ("'00:00:00-03'", '"03:00:00Z"'),
            ("'24:00:00+00'", '"00:00:00Z"'),
        ),
    ),
    Type("timetz3", "timetz(3)", "string io.debezium.time.ZonedTime", (("'12:34:56.780+00'", '"12:34:56.78Z"'),)),
    Type(
        "timestamp",
        "timestamp",
        "int64 io.debezium.time.MicroTimestamp",
        (
            ("'1970-01-01'", "0"),
            ("'2024-02-29 12:34:56.789012'", "1709210096789012"),
            ("'0001-01-01'", "-62135596800000000"),
            ("'0044-03-15 12:00:00 BC'", "-63517780800000000"),
            ("'infinity'", "9223372036825200000"),
            ("'-infinity'", "-9223372036832400000"),
            ("'294276-12-31 23:59:59.999999'", "9223372036854775807"),
            ("'1969-12-31 23:59:59.5'", "-500000"),
            ("'1500-03-01 00:00'", "-14826672000000000"),
        ),
    ),
    Type(
        "timestamp3",
        "timestamp(3)",
        "int64 io.debezium.time.Timestamp",
        (
            ("'2024-02-29 12:34:56.789'", "1709210096789"),
            ("'1969-12-31 23:59:59.5'", "-500"),
        ),
    ),
    Type(
        "timestamp0", "timestamp(0)", "int64 io.debezium.time.Timestamp", (("'2024-02-29 12:34:56'", "1709210096000"),)
    ),
    Type(
        "timestamptz",
        "timestamptz",
        "string io.debezium.time.ZonedTimestamp",
        (
            ("'1970-01-01 00:00+00'", '"1970-01-01T00:00:00.000000Z"'),
            ("'2024-02-29 12:34:56.789012+02'", '"2024-02-29T10:34:56.789012Z"'),
            ("'2024-02-29 12:34:56.5+02'", '"2024-02-29T10:34:56.500000Z"'),
            ("'0001-01-01 00:00+00'", '"0001-01-01T00:00:00.000000Z"'),
            ("'0044-03-15 12:00:00+00 BC'", '"-0043-03-15T12:00:00.000000Z"'),
            ("'infinity'", '"infinity"'),
            ("'-infinity'", '"-infinity"'),
            ("'12024-01-01 00:00:00+00'", '"+12024-01-01T00:00:00.000000Z"'),
            ("'1500-03-01 00:00+00'", '"1500-03-01T00:00:00.000000Z"'),
        ),
    ),
    Type(
        "timestamptz3",
        "timestamptz(3)",
        "string io.debezium.time.ZonedTimestamp",
        (
            ("'2024-02-29 12:34:56.780+02'", '"2024-02-29T10:34:56.780Z"'),
            ("'2024-02-29 12:34:56+02'", '"2024-02-29T10:34:56.000Z"'),
        ),
    ),
    Type(
        "timestamptz0",
        "timestamptz(0)",
        "string io.debezium.time.ZonedTimestamp",
        (("'2024-02-29 12:34:56+02'", '"2024-02-29T10:34:56Z"'),),
    ),
    Type(
        "interval",
        "interval",
        "int64 io.debezium.time.MicroDuration",
        (
            ("'0'", "0"),
            ("'1 year 2 mons 3 days 04:05:06.789012'", "37091106789012"),
            ("'-1 year -2 mons +3 days -04:05:06.5'", "-36572706500000"),
            ("'1 mon'", "2629800000000"),
            ("'1 day'", "86400000000"),
            ("'-00:00:00.000001'", "-1"),
            ("'100 years'", "3155760000000000"),
            ("'178000000 years'", "9223372036854775807"),
            ("'-178000000 years'", "-9223372036854775808"),
        ),
    ),
    Type(
        "interval_ym",
        "interval year to month",
        "int64 io.debezium.time.MicroDuration",
        (("'1 year 2 mons'", "36817200000000"),),
    ),
    Type(
        "bit1",
        "bit(1)",
        "boolean",
        (
            ("B'1'", "true"),
            ("B'0'", "false"),
        ),
    ),
    Type(
        "bit8",
        "bit(8)",
        "bytes io.debezium.data.Bits",
        (
            ("B'10100000'", '"oA=="'),
            ("B'00000001'", '"AQ=="'),
            ("B'00000000'", '""'),
        ),
    ),
    Type("bit12", "bit(12)", "bytes io.debezium.data.Bits", (("B'101000000001'", '"AQo="'),)),
    Type(
        "varbit",
        "varbit",
        "bytes io.debezium.data.Bits",
        (
            ("B'101'", '"BQ=="'),
            ("B''", '""'),
            ("B'1'", '"AQ=="'),
        ),
    ),
    Type(
        "varbit20",
        "varbit(20)",
        "bytes io.debezium.data.Bits",
        (
            ("B'101'", '"BQ=="'),
            ("B'11111111111111111111'", '"//8P"'),
        ),
    ),
    Type(
        "inet",
        "inet",
        "string",
        (
            ("'192.168.0.1'", '"192.168.0.1"'),
            ("'192.168.0.1/24'", '"192.168.0.1/24"'),
            ("'::1'", '"::1"'),
        ),
    ),
    Type("cidr", "cidr", "string", (("'192.168.0.0/24'", '"192.168.0.0/24"'),)),
    Type("macaddr", "macaddr", "string", (("'08:00:2b:01:02:03'", '"08:00:2b:01:02:03"'),)),
    Type("macaddr8", "macaddr8", "string", (("'08:00:2b:01:02:03:04:05'", '"08:00:2b:01:02:03:04:05"'),)),
    Type(
        "int4range",
        "int4range",
        "string",
        (
            ("'[1,5)'", '"[1,5)"'),
            ("'empty'", '"empty"'),
            ("'[1,]'", '"[1,)"'),
        ),
    ),
    Type("int8range", "int8range", "string", (("'[1,5]'", '"[1,6)"'),)),
    Type("numrange", "numrange", "string", (("'[1.5,2.50)'", '"[1.5,2.50)"'),)),
    Type(
        "tsrange",
        "tsrange",
        "string",
        (("'[2024-01-01 00:00, 2024-01-02 12:00:00.5)'", '"[\\"2024-01-01 00:00:00\\",\\"2024-01-02 12:00:00.5\\")"'),),
    ),
    Type(
        "tstzrange",
        "tstzrange",
        "string",
        (("'[2024-01-01 00:00+02, infinity)'", '"[\\"2023-12-31 22:00:00+00\\",infinity)"'),),
    ),
    Type("daterange", "daterange", "string", (("'[2024-01-01,2024-02-01]'", '"[2024-01-01,2024-02-02)"'),)),
    Type("int4multirange", "int4multirange", "string", (("'{[1,3),[5,9)}'", '"{[1,3),[5,9)}"'),)),
    Type("int8multirange", "int8multirange", "string", (("'{[1,3]}'", '"{[1,4)}"'),)),
    Type("nummultirange", "nummultirange", "string", (("'{[1.50,2)}'", '"{[1.50,2)}"'),)),
    Type(
        "tsmultirange",
        "tsmultirange",
        "string",
        (("'{[2024-01-01,2024-01-02)}'", '"{[\\"2024-01-01 00:00:00\\",\\"2024-01-02 00:00:00\\")}"'),),
    ),
    Type(
        "datemultirange", "datemultirange", "string", (("'{[2024-01-01,2024-01-03]}'", '"{[2024-01-01,2024-01-04)}"'),)
    ),
    Type(
        "tstzmultirange",
        "tstzmultirange",
        "string",
        (
            (
                "'{[2024-01-01 00:00+02,2024-01-02 00:00+02)}'",
                '"{[\\"2023-12-31 22:00:00+00\\",\\"2024-01-01 22:00:00+00\\")}"',
            ),
        ),
    ),
    Type(
        "enum",
        "public.mood",
        "string io.debezium.data.Enum",
        (
            ("'happy'", '"happy"'),
            ("'so so'", '"so so"'),
        ),
    ),
    Type("domain_int", "public.positive", "int32", (("5", "5"),)),
    Type("domain_text", "public.label", "string", (("'x'", '"x"'),)),
    Type("domain_num", "public.price", "bytes org.apache.kafka.connect.data.Decimal", (("12.5", '"MNQ="'),)),
    Type("domain_varchar", "public.short", "string", (("'abc'", '"abc"'),)),
    Type("composite", "public.pair", "string", (("'(1,\"a b\")'", '"(1,\\"a b\\")"'),)),
    Type(
        "point",
        "point",
        "struct io.debezium.data.geometry.Point",
        (
            ("'(1.5,-2)'", '{"x":1.5,"y":-2.0,"wkb":"AQEAAAAAAAAAAAD4PwAAAAAAAADA","srid":null}'),
            ("'(0.1,1e20)'", '{"x":0.1,"y":1e+20,"wkb":"AQEAAACamZmZmZm5P0CMtXgdrxVE","srid":null}'),
        ),
    ),
    Type("line", "line", "string", (("'{1,2,3}'", '"{1,2,3}"'),)),
    Type("lseg", "lseg", "string", (("'[(0,0),(1,1)]'", '"[(0,0),(1,1)]"'),)),
    Type("box", "box", "string", (("'(1,1),(0,0)'", '"(1,1),(0,0)"'),)),
    Type("path", "path", "string", (("'[(0,0),(1,1)]'", '"[(0,0),(1,1)]"'),)),
    Type("polygon", "polygon", "string", (("'((0,0),(1,1),(1,0))'", '"((0,0),(1,1),(1,0))"'),)),
    Type("circle", "circle", "string", (("'<(0,0),1>'", '"<(0,0),1>"'),)),
    Type(
        "hstore",
        "public.hstore",
        "string io.debezium.data.Json",
        (
            (
                '\'a=>1, "b c"=>NULL, "q\\""=>"x\\\\y"\'',
                '"{\\"a\\":\\"1\\",\\"q\\\\\\"\\":\\"x\\\\\\\\y\\",\\"b c\\":null}"',
            ),
            ("''", '"{}"'),
        ),
    ),
    Type("ltree", "public.ltree", "string io.debezium.data.Ltree", (("'a.b.c'", '"a.b.c"'),)),
    Type("tsvector", "tsvector", "string io.debezium.data.Tsvector", (("'a:1 cat:2A'", "\"'a':1 'cat':2A\""),)),
    Type("tsquery", "tsquery", "string", (("'a & b'", "\"'a' & 'b'\""),)),
    Type("pg_lsn", "pg_lsn", "string", (("'16/B374D848'", '"16/B374D848"'),)),
    Type("xid", "xid", "string", (("'5'", '"5"'),)),
    Type("xid8", "xid8", "string", (("'5'", '"5"'),)),
    Type("cid", "cid", "string", (("'5'", '"5"'),)),
    Type("tid", "tid", "string", (("'(1,2)'", '"(1,2)"'),)),
    Type("regclass", "regclass", "string", (("'pg_class'", '"pg_class"'),)),
    Type("regtype", "regtype", "string", (("'int4'", '"integer"'),)),
    Type("regproc", "regproc", "string", (("'pg_backend_pid'", '"pg_backend_pid"'),)),
    Type("regprocedure", "regprocedure", "string", (("'abs(int4)'", '"abs(integer)"'),)),
    Type("regoper", "regoper", "string", (("'||/'", '"||/"'),)),
    Type("regoperator", "regoperator", "string", (("'+(int4,int4)'", '"+(integer,integer)"'),)),
    Type("regnamespace", "regnamespace", "string", (("'pg_catalog'", '"pg_catalog"'),)),
    Type("regrole", "regrole", "string", (("'pg_monitor'", '"pg_monitor"'),)),
    Type("regconfig", "regconfig", "string", (("'english'", '"english"'),)),
    Type("regdictionary", "regdictionary", "string", (("'simple'", '"simple"'),)),
    Type("regcollation", "regcollation", "string", (("'\"C\"'", '"\\"C\\""'),)),
    Type("aclitem", "aclitem", "string", (("'pg_monitor=r/pg_monitor'", '"pg_monitor=r/pg_monitor"'),)),
    Type("txid_snapshot", "txid_snapshot", "string", (("'10:20:10,14'", '"10:20:10,14"'),)),
    Type("pg_snapshot", "pg_snapshot", "string", (("'10:20:10,14'", '"10:20:10,14"'),)),
    Type("int2vector", "int2vector", "string", (("'1 2'", '"1 2"'),)),
    Type("oidvector", "oidvector", "string", (("'1 2'", '"1 2"'),)),
    Type("refcursor", "refcursor", "string", (("'cur'", '"cur"'),)),
    Type(
        "bool_array",
        "boolean[]",
        "array of boolean",
        (
            ("'{t,f,NULL}'", "[true,false,null]"),
            ("'{}'", "[]"),
        ),
    ),
    Type("int2_array", "smallint[]", "array of int16", (("'{1,-2}'", "[1,-2]"),)),
    Type(
        "int4_array",
        "integer[]",
        "array of int32",
        (
            ("'{1,NULL,3}'", "[1,null,3]"),
            ("'{}'", "[]"),
            ("'{{1,2},{3,4}}'", "[[1,2],[3,4]]"),
            ("'[0:1]={1,2}'", "[1,2]"),
        ),
    ),
    Type("int8_array", "bigint[]", "array of int64", (("'{9223372036854775807}'", "[9223372036854775807]"),)),
    Type("oid_array", "oid[]", "array of int64", (("'{4294967295}'", "[4294967295]"),)),
    Type("float4_array", "real[]", "array of float", (("'{1.5,NULL}'", "[1.5,null]"),)),
    Type("float8_array", "double precision[]", "array of double", (("'{1.5,0.1}'", "[1.5,0.1]"),)),
    Type(
        "numeric_array",
        "numeric[]",
        "array of struct io.debezium.data.VariableScaleDecimal",
        (("'{1.10,2}'", '[{"scale":1,"value":"Cw=="},{"scale":0,"value":"Ag=="}]'),),
    ),
    Type(
        "numeric_10_2_array",
        "numeric(10,2)[]",
        "array of bytes org.apache.kafka.connect.data.Decimal",
        (("'{1.1,2}'", '["bg==","AMg="]'),),
    ),
    Type(
        "text_array",
        "text[]",
        "array of string",
        (('\'{a,"b c","NULL",NULL,"q\\"x\\\\y","","{,}"}\'', '["a","b c","NULL",null,"q\\"x\\\\y","","{,}"]'),),
    ),
    Type("varchar_array", "varchar(5)[]", "array of string", (("'{a,bc}'", '["a","bc"]'),)),
    Type("char_array", "char(3)[]", "array of string", (("'{a,bc}'", '["a  ","bc "]'),)),
    Type("citext_array", "public.citext[]", "array of string", (("'{A}'", '["A"]'),)),
    Type("bytea_array", "bytea[]", "array of bytes", (("'{\"\\\\x00ff\"}'", '["AP8="]'),)),
    Type(
        "uuid_array",
        "uuid[]",
        "array of string io.debezium.data.Uuid",
        (("'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'", '["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]'),),
    ),
    Type(
        "json_array",
        "json[]",
        "array of string io.debezium.data.Json",
        (("array['{\"a\": 1}'::json]", '["{\\"a\\": 1}"]'),),
    ),
    Type(
        "jsonb_array",
        "jsonb[]",
        "array of string io.debezium.data.Json",
        (("array['{\"a\": 1}'::jsonb]", '["{\\"a\\": 1}"]'),),
    ),
    Type("date_array", "date[]", "array of int32 io.debezium.time.Date", (("'{2024-02-29,1970-01-01}'", "[19782,0]"),)),
    Type("time_array", "time[]", "array of int64 io.debezium.time.MicroTime", (("'{12:34:56.789}'", "[45296789000]"),)),
    Type(
        "timetz_array",
        "timetz[]",
        "array of string io.debezium.time.ZonedTime",
        (("'{12:34:56+02}'", '["10:34:56Z"]'),),
    ),
    Type(
        "timestamp_array",
        "timestamp[]",
        "array of int64 io.debezium.time.MicroTimestamp",
        (("'{2024-02-29 12:34:56.789012}'", "[1709210096789012]"),),
    ),
    Type(
        "timestamptz_array",
        "timestamptz[]",
        "array of string io.debezium.time.ZonedTimestamp",
        (("'{2024-02-29 12:34:56.789+02}'", '["2024-02-29T10:34:56.789000Z"]'),),
    ),
    Type("inet_array", "inet[]", "array of string", (("'{10.0.0.1}'", '["10.0.0.1"]'),)),
    Type("cidr_array", "cidr[]", "array of string", (("'{10.0.0.0/8}'", '["10.0.0.0/8"]'),)),
    Type("macaddr_array", "macaddr[]", "array of string", (("'{08:00:2b:01:02:03}'", '["08:00:2b:01:02:03"]'),)),
    Type("int4range_array", "int4range[]", "array of string", (("'{\"[1,5)\"}'", '["[1,5)"]'),)),
    Type(
        "tstzrange_array",
        "tstzrange[]",
        "array of string",
        (("array['[2024-01-01 00:00+02,)'::tstzrange]", '["[\\"2023-12-31 22:00:00+00\\",)"]'),),
    ),
    Type(
        "enum_array",
        "public.mood[]",
        "array of string io.debezium.data.Enum",
        (("'{happy,\"so so\"}'", '["happy","so so"]'),),
    ),
    Type("domain_array", "public.positive[]", "array of int32", (("'{1,2}'", "[1,2]"),)),
    Type(
        "hstore_array",
        "public.hstore[]",
        "array of string io.debezium.data.Json",
        (("array['a=>1'::public.hstore]", '["{\\"a\\":\\"1\\"}"]'),),
    ),
    Type(
        "money_array", "money[]", "array of bytes org.apache.kafka.connect.data.Decimal", (("'{$1.50}'", '["AJY="]'),)
    ),
    Type("name_array", "name[]", "array of string", (("'{abc}'", '["abc"]'),)),
    Type(
        "interval_array",
        "interval[]",
        "array of int64 io.debezium.time.MicroDuration",
        (("'{1 day}'", "[86400000000]"),),
    ),
    Type("bit_array", "bit(3)[]", "array of bytes io.debezium.data.Bits", (("'{101}'", '["BQ=="]'),)),
    Type("varbit_array", "varbit(5)[]", "array of bytes io.debezium.data.Bits", (("'{101}'", '["BQ=="]'),)),
    Type("xml_array", "xml[]", "array of string io.debezium.data.Xml", (("array['<a/>'::xml]", '["<a/>"]'),)),
    Type(
        "point_array",
        "point[]",
        "array of struct io.debezium.data.geometry.Point",
        (("array['(1,2)'::point]", '[{"x":1.0,"y":2.0,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}]'),),
    ),
    Type("box_array", "box[]", "array of string", (("'{(1,1),(0,0)}'", '["(1,1),(0,0)"]'),)),
    Type(
        "tsvector_array",
        "tsvector[]",
        "array of string io.debezium.data.Tsvector",
        (("array['a:1'::tsvector]", "[\"'a':1\"]"),),
    ),
    Type("composite_array", "public.pair[]", "array of string", (("array['(1,x)'::public.pair]", '["(1,x)"]'),)),
)
# What servers know from a version on.
NEWER: Final = (
    (
        17,
        Type(
            "interval_infinite",
            "interval",
            "int64 io.debezium.time.MicroDuration",
            (("'infinity'", "9223372036854775807"), ("'-infinity'", "-9223372036854775808")),
        ),
    ),
)


def extended(extensions: Iterable[str] = EXTENSIONS) -> list[str]:
    """The statements that make these extensions."""
    return [f"CREATE EXTENSION IF NOT EXISTS {name} SCHEMA public" for name in extensions]


def types_of(version: int, parts: Collection[str]) -> list[Type]:
    """Those that a server knows which has these optional parts."""
    newer = [each for first, each in NEWER if version >= first]
    return [each for each in TYPES if part_of(each) in (None, *parts)] + newer


def part_of(each: Type) -> str | None:
    """The optional part of a server that a type needs."""
    name = each.sql.removeprefix("public.").removesuffix("[]")
    return name if name in (*EXTENSIONS, XML) else None


NOBODY_WRITES: Final = "the server takes no value of it, but from itself"
# Built-in types that no column of a table that is captured can have a value of.
WITHOUT_VALUES: Final = {
    "gtsvector": "what an index on a tsvector keeps: it has no text to be written from",
    "pg_node_tree": NOBODY_WRITES,
    "pg_ndistinct": NOBODY_WRITES,
    "pg_dependencies": NOBODY_WRITES,
    "pg_mcv_list": NOBODY_WRITES,
    "pg_brin_bloom_summary": NOBODY_WRITES,
    "pg_brin_minmax_multi_summary": NOBODY_WRITES,
}
BYTES: Final = "Debezium gives the bytes of the text, and even that only with include.unknown.datatypes"
BYTES_OF_ITEMS: Final = "Debezium gives the bytes of the items' texts"
LEFT_OUT: Final = "Debezium leaves the column out"
NOT_NULL: Final = "Debezium's schema says that no item is null, and PostgreSQL's arrays may hold nulls"
# Where we differ from Debezium on purpose, and why.
OURS: Final = {
    "numeric_neg": "Debezium takes the negative scale for 2046, and writes a number of 2046 digits",
    "timestamp": "the last years that PostgreSQL knows are beyond 64 bits, and Debezium goes on with the smallest",
    "int4_array": "Debezium writes nulls for the inner arrays of an array with several dimensions",
    "int2vector": "Debezium writes an empty array",
    "oidvector": "Debezium writes an empty array",
    "bit_array": "Debezium takes it for a single value, and writes null",
    "jsonpath": BYTES,
    "int4multirange": BYTES,
    "int8multirange": BYTES,
    "nummultirange": BYTES,
    "tsmultirange": BYTES,
    "datemultirange": BYTES,
    "tstzmultirange": BYTES,
    "composite": BYTES,
    "line": BYTES,
    "lseg": BYTES,
    "box": BYTES,
    "path": BYTES,
    "polygon": BYTES,
    "circle": BYTES,
    "tsquery": BYTES,
    "pg_lsn": BYTES,
    "xid": BYTES,
    "xid8": BYTES,
    "cid": BYTES,
    "tid": BYTES,
    "regclass": BYTES,
    "regtype": BYTES,
    "regproc": BYTES,
    "regprocedure": BYTES,
    "regoper": BYTES,
    "regoperator": BYTES,
    "regnamespace": BYTES,
    "regrole": BYTES,
    "regconfig": BYTES,
    "regdictionary": BYTES,
    "regcollation": BYTES,
    "aclitem": BYTES,
    "txid_snapshot": BYTES,
    "pg_snapshot": BYTES,
    "refcursor": BYTES,
    "domain_array": BYTES_OF_ITEMS,
    "box_array": BYTES_OF_ITEMS,
    "composite_array": BYTES_OF_ITEMS,
    "money_array": LEFT_OUT,
    "name_array": LEFT_OUT,
    "interval_array": LEFT_OUT,
    "varbit_array": LEFT_OUT,
    "xml_array": LEFT_OUT,
    "point_array": LEFT_OUT,
    "enum_array": NOT_NULL,
    "tsvector_array": NOT_NULL,
}
