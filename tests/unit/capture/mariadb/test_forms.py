"""Values of MariaDB as JSON, and places in its log."""

import pytest

from runnel.capture.forms import Decimals
from runnel.capture.mariadb.forms import Forms, Modes, Times, form_of, single
from runnel.capture.mariadb.gtids import is_at, is_behind, place_of, text_of
from runnel.capture.mariadb.kinds import Kind, kind_of


@pytest.mark.parametrize(
    ("value", "text"), [(0.10000000149011612, "0.1"), (2.0, "2.0"), (16777216.0, "16777216.0"), (-0.0, "-0.0")]
)
def test_a_number_of_four_bytes_has_the_shortest_text(value, text):
    assert single(value) == text


@pytest.mark.parametrize("name", ["date", "datetime", "timestamp"])
def test_a_date_that_is_none_is_null_or_the_beginning_of_1970(name):
    zero = "0000-00-00" if name == "date" else "0000-00-00 00:00:00"
    optional, filled = (form_of(Kind(name), Modes(), optional=each) for each in (True, False))
    assert optional.write(zero) == "null"
    assert filled.write(zero) == filled.fallback


@pytest.mark.parametrize(
    ("text", "written"),
    [("00001.500", "1.500"), ("-0.50", "-0.50"), ("0", "0"), ("000", "0"), ("0.000", "0.000"), ("-12", "-12")],
)
def test_a_decimal_as_text_has_no_zeros_that_say_nothing(text, written):
    """The server shows those of ZEROFILL when a table is read, and its log has none."""
    assert form_of(Kind("decimal", 8, 3), Modes(decimals=Decimals.STRING), optional=True).write(text) == f'"{written}"'


def test_in_the_forms_of_kafka_connect_a_time_that_is_none_of_a_day_is_null_or_midnight():
    optional, filled = (form_of(Kind("time", 6), Modes(times=Times.CONNECT), optional=each) for each in (True, False))
    assert [optional.write(each) for each in ("00:00:00", "23:59:59.999999")] == ["0", "86399999"]
    assert [optional.write(each) for each in ("24:00:00", "-00:00:00.000001", "838:59:59")] == ["null"] * 3
    assert filled.write("-01:00:00") == "0"


def test_a_type_that_is_not_known_is_text_and_said_once(caplog):
    forms = Forms(Modes())
    form = forms.form("s.t.v", Kind("unknown"), optional=True)
    forms.form("s.t.v", Kind("unknown"), optional=False)
    assert (form.write(b"a\xff"), form.write("b")) == ('"a\ufffd"', '"b"')
    assert caplog.messages == ["the type of s.t.v is not known: its values are captured as text"]


def test_the_catalog_tells_kinds():
    assert kind_of("int", "int(10) unsigned", 10, 0, is_json=False) == Kind("int unsigned")
    assert kind_of("enum", "enum('a','it''s')", 0, 0, is_json=False) == Kind("enum", labels=("a", "it's"))
    assert kind_of("longtext", "longtext", 0, 0, is_json=True) == Kind("json")
    assert kind_of("vector", "vector(3)", 0, 0, is_json=False) == Kind("unknown")


def test_places_in_the_log():
    here = place_of("5-2-8, 0-1-270")
    assert text_of(here) == "0-1-270,5-2-8"
    assert is_at(here, place_of("0-1-270"))
    assert not is_at(here, place_of("0-2-270"))
    assert not is_at(here, place_of("0-1-270,6-1-1"))
    assert is_behind(here, place_of("0-1-270"))
    assert is_behind(here, place_of("0-1-269,5-2-8"))
    assert not is_behind(here, place_of("0-1-271,5-2-8"))
    assert place_of("") == {}
