"""The modes of handling, and texts of PostgreSQL's that are several values. What each type is by default is told by
tests/contract/capture/postgres_types.py, from a real server.
"""

import json
from base64 import b64decode
from decimal import Decimal

import pytest

from runnel.capture.forms import Binary, Decimals
from runnel.capture.postgres import texts, times
from runnel.capture.postgres.catalog import CatalogType
from runnel.capture.postgres.forms import Forms, Hstores, Intervals, Modes, Times

NUMBERS = {
    name: number
    for number, name in enumerate(
        ("numeric", "money", "bytea", "time", "timestamp", "date", "interval", "hstore", "int4", "box", "point"),
        start=1,
    )
}
MODIFIER_10_2 = (10 << 16 | 2) + 4


def form(name: str, modes: Modes, modifier: int = -1):
    types = {number: CatalogType(number, name, "b", 0, ",", 0, -1, ()) for name, number in NUMBERS.items()}
    return Forms(modes, types.get).form(NUMBERS[name], modifier)


def written(name: str, text: str, modes: Modes, modifier: int = -1):
    return json.loads(form(name, modes, modifier).write(text))


@pytest.mark.parametrize(("kind", "text"), [("c", "(12.5,EUR)"), ("r", "[1,4)"), ("m", "{[1,4)}")])
@pytest.mark.parametrize("name", ["money", "point", "time", "json"])
def test_a_type_of_ones_own_that_is_called_as_one_of_the_server_is_text(name, kind, text):
    types = {1: CatalogType(1, name, kind, 0, ",", 0, -1, ()), 2: CatalogType(2, f"_{name}", "b", 1, ",", 0, -1, ())}
    found = Forms(Modes(), types.get)
    assert json.loads(found.form(1, -1).write(text)) == text
    assert json.loads(found.form(2, -1).write(f'{{"{text}"}}')) == [text]
    assert found.form(1, -1).schema == {"type": "string"}


@pytest.mark.parametrize(
    ("text", "string", "double"),
    [
        ("-12.50", "-12.50", -12.5),
        ("NaN", "NAN", "NaN"),
        ("Infinity", "POSITIVE_INFINITY", "Infinity"),
        ("-Infinity", "NEGATIVE_INFINITY", "-Infinity"),
    ],
)
@pytest.mark.parametrize("modifier", [-1, MODIFIER_10_2])
def test_numbers_as_text_or_as_floats(text, string, double, modifier):
    assert written("numeric", text, Modes(decimals=Decimals.STRING), modifier) == string
    assert written("numeric", text, Modes(decimals=Decimals.DOUBLE), modifier) == double


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("digits", [640, 4_301, 131_072])
def test_a_number_of_more_digits_than_python_reads_is_told_with_all_of_them(sign, digits):
    whole, fraction = "7" * digits, "5" * 10
    told = written("numeric", f"{sign}{whole}.{fraction}00", Modes())
    assert told["scale"] == len(fraction)
    found = int.from_bytes(b64decode(told["value"]), "big", signed=True)
    assert found == int(Decimal(f"{sign}{whole}{fraction}"))


@pytest.mark.parametrize("modifier", [-1, MODIFIER_10_2])
def test_a_number_that_no_float_holds_is_json_all_the_same(modifier):
    modes = Modes(decimals=Decimals.DOUBLE)
    assert written("numeric", "9" * 400, modes, modifier) == "Infinity"
    assert written("numeric", "-" + "9" * 400, modes, modifier) == "-Infinity"


@pytest.mark.parametrize("mode", Decimals)
@pytest.mark.parametrize("name", ["numeric", "point"])
def test_what_was_not_told_is_no_null_and_has_the_form_of_its_column(name, mode):
    found = form(name, Modes(decimals=mode))
    told, sample = json.loads(found.unavailable), json.loads(found.write("1.5" if name == "numeric" else "(1,2)"))
    assert told is not None
    assert found.schema["type"] != "struct" or told.keys() == sample.keys()


def test_money_in_every_mode():
    text = "-$1,234.56"
    assert written("money", text, Modes()) == "/h3A"
    assert written("money", text, Modes(decimals=Decimals.STRING)) == "-1234.56"
    assert written("money", text, Modes(decimals=Decimals.DOUBLE)) == -1234.56


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(Binary.BYTES, "AP8="), (Binary.BASE64, "AP8="), (Binary.BASE64_URL_SAFE, "AP8="), (Binary.HEX, "00ff")],
)
def test_bytes_in_every_mode(mode, expected):
    assert written("bytea", r"\x00ff", Modes(binary=mode)) == expected


def test_times_in_every_mode():
    connect, micros = Modes(times=Times.CONNECT), Modes(times=Times.ADAPTIVE_TIME_MICROSECONDS)
    assert written("time", "00:00:01.5", connect) == 1500
    assert written("time", "00:00:01.5", Modes(), 3) == 1500
    assert written("time", "00:00:01.5", micros, 3) == 1_500_000
    assert written("timestamp", "1970-01-02 00:00:00.5", connect) == 86_400_500
    assert written("timestamp", "1970-01-02 00:00:00.5", Modes()) == 86_400_500_000
    assert form("date", connect).schema["name"] == "org.apache.kafka.connect.data.Date"


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("00:00:00", "P0Y0M0DT0H0M0S"),
        ("1 year 2 mons 3 days 04:05:06.789", "P1Y2M3DT4H5M6.789S"),
        ("-1 years -2 mons +3 days -04:05:06.50", "P-1Y-2M3DT-4H-5M-6.5S"),
        ("-00:00:00.000001", "P0Y0M0DT0H0M-0.000001S"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
    ],
)
def test_intervals_as_text(text, iso):
    assert written("interval", text, Modes(intervals=Intervals.STRING)) == iso


def test_hstore_as_a_map():
    assert written("hstore", '"a"=>"1", "b"=>NULL', Modes(hstores=Hstores.MAP)) == {"a": "1", "b": None}
    assert json.loads(written("hstore", '"a"=>"1", "b"=>NULL', Modes())) == {"a": "1", "b": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", []),
        ("{1,NULL,3}", ["1", None, "3"]),
        ('{"NULL",NULL}', ["NULL", None]),
        (r'{"a,b","{}","q\"\\",""}', ["a,b", "{}", 'q"\\', ""]),
        ("{{1,2},{3,NULL}}", [["1", "2"], ["3", None]]),
        ("[0:1]={1,2}", ["1", "2"]),
        ("[1:1][-2:-1]={{a,b}}", [["a", "b"]]),
    ],
)
def test_arrays(text, expected):
    assert texts.array(text) == expected


def test_arrays_of_boxes_have_another_delimiter():
    assert texts.array("{(1,1),(0,0);(2,2),(1,1)}", ";") == ["(1,1),(0,0)", "(2,2),(1,1)"]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0),
        ("1969-12-31", -1),
        ("0001-01-01 BC", -719528),
        ("4713-01-01 BC", -2440550),
        ("10000-01-01", 2932897),
    ],
)
def test_days_of_far_years(text, days):
    assert times.days(text) == days


def test_a_timestamp_beyond_a_long_is_the_last_one():
    assert written("timestamp", "294276-12-31 23:59:59.999999", Modes()) == 2**63 - 1
