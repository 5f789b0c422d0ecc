"""`runnel doctor` on the command line."""

import json

import pytest

from runnel import Broker


@pytest.fixture(autouse=True)
def no_address(monkeypatch):
    monkeypatch.delenv("RUNNEL_BOOTSTRAP", raising=False)


def test_what_is_wrong_is_told_with_what_to_do_and_by_the_exit_code(runnel, tmp_path):
    done = runnel("doctor", "--bootstrap", "127.0.0.1:1", "--data", tmp_path)
    assert done.code == 1
    line = next(line for line in done.out.splitlines() if line.startswith("wrong"))
    assert "broker" in line
    assert "start one with `runnel broker start`" in line
    assert done.out.endswith("1 thing is wrong\n")


def test_where_nothing_is_wrong_the_exit_code_is_0(runnel, tmp_path):
    with Broker() as broker:
        done = runnel("doctor", "--bootstrap", broker.bootstrap, "--data", tmp_path)
    assert (done.code, done.out.endswith("nothing is wrong\n")) == (0, True)


def test_json_for_programs(runnel, tmp_path):
    done = runnel("doctor", "--bootstrap", "127.0.0.1:1", "--data", tmp_path, "--json")
    told = json.loads(done.out)
    assert (done.code, told["is_well"]) == (1, False)
    assert [each["what"] for each in told["findings"] if each["mark"] == "wrong"] == ["broker"]


def test_an_address_that_is_none(runnel):
    assert runnel("doctor", "--bootstrap", "127.0.0.1:port").code == 2
