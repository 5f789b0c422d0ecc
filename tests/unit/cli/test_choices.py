"""What people type to choose what leaves a database."""

from pathlib import Path

import pytest
import typer

from runnel.capture.chosen import Mode
from runnel.capture.options import WAYS
from runnel.capture.postgres.forms import Times
from runnel.capture.selection import Hashed, Masked
from runnel.cli import choices


def test_columns_are_masked_with_a_length_and_hashed_with_a_salt(monkeypatch):
    monkeypatch.setenv("PEPPER", "salt")
    found = choices.hidden(["a.b", "c.d:7"], ["e.f"], "PEPPER")
    assert found == {r".*\.a.b": Masked(3), r".*\.c.d": Masked(7), r".*\.e.f": Hashed("salt")}


@pytest.mark.parametrize(
    ("name", "told"), [(None, "a hash needs a salt"), ("NOTHING_OF_THE_KIND", "NOTHING_OF_THE_KIND is not set")]
)
def test_a_hash_without_a_salt_is_refused(name, told):
    with pytest.raises(typer.BadParameter, match=told):
        choices.hidden([], ["a.b"], name)


def test_conditions_of_a_table_must_all_be_true():
    found = choices.conditions(["orders:total > 1 or paid", "orders:city = Graz"])[r".*\.orders"]
    assert found({"total": 2, "paid": 0, "city": "Graz"})
    assert not found({"total": 2, "paid": 0, "city": "Wien"})


def test_keys_are_columns_by_table():
    assert choices.keys(["orders:a,b"]) == {r".*\.orders": ["a", "b"]}


def test_what_only_some_databases_have_is_told_if_it_was_given():
    assert choices.own(slot="mine", times=None, in_progress=Path("here")) == {"slot": "mine", "in_progress": "here"}
    assert choices.own(slot=None, in_progress=None) == {}


@pytest.mark.parametrize(
    ("check", "given", "told"),
    [
        (choices.checked_keys, ["orders"], "expected TABLE:COLUMN,COLUMN"),
        (choices.checked_masks, ["a.b:x"], "expected TABLE.COLUMN, or TABLE.COLUMN:LENGTH"),
        (choices.checked_masks, [":3"], "expected TABLE.COLUMN"),
        (choices.checked_conditions, ["total > 3"], "expected TABLE:CONDITION"),
        (choices.checked_conditions, ["orders:total >"], "expected a number, 'text', true or false before its end"),
        (choices.checked_mode, "some", "expected initial, incremental, none"),
        (choices.checked_binary, "octal", "expected bytes, base64, base64-url-safe, hex"),
        (choices.checked_decimals, "rough", "expected precise, string, double"),
        (choices.checked_times, "late", "expected adaptive, adaptive_time_microseconds, connect"),
    ],
)
def test_mistakes_are_told(check, given, told):
    with pytest.raises(typer.BadParameter) as raised:
        check(given)
    assert told in raised.value.message


def test_the_ways_to_write_times_are_those_of_the_source():
    assert tuple(mode.value for mode in Times) == WAYS["times"]
    assert tuple(mode.value for mode in Mode) == WAYS["snapshot"]
