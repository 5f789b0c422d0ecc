"""The fixtures of the kit, and what they cost who does not use them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import runnel.testing
from runnel.testing import pytest_plugin

TEST = """
def test_something(runnel_play):
    raise AssertionError("it was called")
"""

MARKED = """
import pytest

@pytest.mark.runnel_topic(3)
def test_by_place(runnel_broker, runnel_topic):
    assert runnel_broker._server.node.topics.find(runnel_topic).facts.partitions == 3

@pytest.mark.runnel_topic(2, configs={"retention.ms": 60_000})
def test_by_place_and_name(runnel_broker, runnel_topic):
    assert runnel_broker._server.node.topics.find(runnel_topic).facts.partitions == 2

def test_deletes_it_itself(runnel_broker, runnel_topic):
    runnel_broker.delete_topic(runnel_topic)
"""
MARKED_WRONG = """
import pytest

@pytest.mark.runnel_topic({given})
def test_{number}(runnel_topic):
    raise AssertionError("it was called")
"""
WRONG = {
    "'orders'": "partitions = 'orders' (expected a whole number from 1 to 10,000)",
    "configs=['retention.ms']": "configs = ['retention.ms'] (expected names and values",
    "partition=3": "runnel_topic(partition=3): a topic is asked for by runnel_topic(partitions=1, configs=None)",
    "3, partitions=3": "runnel_topic(3, partitions=3): a topic is asked for by",
    "1, {}, 'orders'": "runnel_topic(1, {}, 'orders'): a topic is asked for by",
}


def outcome_of(folder, program):
    (folder / "test_app.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_whoever_does_not_play_does_not_load_spark():
    program = "import sys, runnel.testing, runnel.testing.pytest_plugin\nprint('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_public_name_is_there():
    for name in runnel.testing.__all__:
        assert getattr(runnel.testing, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Spieler'"):
        _ = runnel.testing.Spieler


def test_without_java_a_test_fails_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    done = outcome_of(tmp_path, TEST)
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert "JavaMissing" in done.stdout
    assert "it was called" not in done.stdout


def test_the_topic_of_a_test_is_as_it_is_marked_and_may_be_gone_afterwards(tmp_path):
    done = outcome_of(tmp_path, MARKED)
    assert "3 passed" in done.stdout, done.stdout


def test_a_mark_that_cannot_be_fails_its_test_in_one_line(tmp_path):
    tests = [MARKED_WRONG.format(given=given, number=number) for number, given in enumerate(WRONG)]
    told = outcome_of(tmp_path, "".join(tests)).stdout
    assert f"{len(WRONG)} errors" in told
    assert [reason for reason in WRONG.values() if reason not in told] == []
    assert "pytest_plugin.py" not in told
    assert "it was called" not in told


def test_every_public_name_is_in_the_reference():
    page = (Path(__file__).parents[3] / "docs/reference/testing.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(\w+)|, `(\w+)` \|", page, re.MULTILINE))
    words = {word for found in described for word in found}
    assert [name for name in runnel.testing.__all__ if name not in words] == []
    fixtures = re.findall(r"^def (runnel_\w+)", Path(pytest_plugin.__file__).read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in fixtures if f"`{name}`" not in page] == []
    public = [name for name in vars(runnel.testing.Played) if not name.startswith("_")]
    assert [name for name in public if f"`Played.{name}" not in page] == []
