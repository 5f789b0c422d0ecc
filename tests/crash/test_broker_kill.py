"""kill -9 of a broker under load from three client libraries: nothing acknowledged is lost, doubled or out of order."""

import random
import shutil
from pathlib import Path

import pytest

from tests.crash.broker_kill import Scene, check

KILLS = 50
KILLS_OF_A_DIRECTORY = 50  # of the soak; more would be spent on reading, again and again, what the first ones wrote


def kill_again_and_again(directory: Path, seed: str, kills: int) -> list[str]:
    with Scene(directory, random.Random(seed)) as scene:
        complaints = []
        for _ in range(kills):
            complaints += scene.kill_once()
        return complaints + scene.end()


def test_a_broker_that_is_killed_a_few_times_keeps_what_it_acknowledged(tmp_path, seed):
    assert kill_again_and_again(tmp_path, str(seed), 3) == []


@pytest.mark.servers
def test_a_broker_that_is_killed_under_load_keeps_what_it_acknowledged(tmp_path, seed):
    assert kill_again_and_again(tmp_path, str(seed), KILLS) == []


@pytest.mark.soak
def test_a_broker_that_is_killed_very_often_keeps_what_it_acknowledged(tmp_path, seed, rounds, told):
    for first in told(range(0, rounds, KILLS_OF_A_DIRECTORY)):
        directory = tmp_path / str(first)
        assert kill_again_and_again(directory, f"{seed}/{first}", min(rounds - first, KILLS_OF_A_DIRECTORY)) == []
        shutil.rmtree(directory)


# --- the check itself: it must notice what a broker could do wrong

GOOD = {0: ["a/0", "b/0", "a/2"], 1: ["b/1", "a/1"]}
TOLD = {"a": {0: 0, 1: 1, 2: 2}, "b": {0: 1, 1: 0}}


def test_the_check_finds_nothing_wrong_with_what_was_acknowledged():
    assert check(GOOD, TOLD) == []


def test_the_check_allows_what_was_written_and_not_acknowledged():
    assert check(GOOD, {"a": {0: 0}, "b": {}}) == []


@pytest.mark.parametrize(
    ("partition_0", "complaint"),
    [
        pytest.param(["a/0", "b/0"], "a/2 was acknowledged, and partition 0 ends before it", id="lost at the end"),
        pytest.param(["b/0", "a/2"], "a/2 at 0/1, where a/0 belongs", id="lost in between"),
        pytest.param(["a/0", "b/0", "b/0", "a/2"], "b/0 at 0/2, where b/2 belongs", id="doubled"),
        pytest.param(["a/2", "b/0", "a/0"], "a/2 at 0/0, where a/0 belongs", id="out of order"),
        pytest.param(["b/0", "a/0", "a/2"], "a/0 at 0/1, acknowledged at 0", id="elsewhere"),
    ],
)
def test_the_check_notices_what_is_wrong(partition_0, complaint):
    assert complaint in check({0: partition_0, 1: GOOD[1]}, TOLD)
