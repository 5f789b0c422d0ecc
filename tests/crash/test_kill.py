"""kill -9 of a process that writes: what it acknowledged is there, once and in order.

A kill leaves the system's memory as it is. What a power cut does is in test_model.py.
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples import killed_writer
from examples.killed_writer import TOPIC, Acknowledged, History, Seen, WriterProcess, planned_batch, reopen
from runnel.errors import DirectoryOwned
from runnel.log import Record, open_log

KILLS_OF_A_DIRECTORY = 10  # more would be spent on checking, again and again, what the first ones wrote
DEMO = Path(killed_writer.__file__).with_name("crash_demo.py")


def kill_again_and_again(path: Path, seed: int, kills: int) -> None:
    """Each writer checks what it finds, sends again what was not acknowledged, and goes on until it is killed."""
    chance = random.Random(seed)
    history = History(seed)
    epoch = -1
    for _ in range(kills):
        with WriterProcess(str(path), history) as writer:
            restart = writer.restart()
            assert restart.broken == []
            assert restart.epoch > epoch
            epoch = restart.epoch
            writer.wait_for_acknowledgements(chance.randrange(1, 60))
            if chance.random() < 0.5:
                writer.wait_for_a_write()
    log, restart = reopen(str(path), history)
    log.close()
    assert restart.broken == []


def test_batches_sent_again_after_a_kill_are_there_once_and_in_order(tmp_path, seed, rounds):
    kill_again_and_again(tmp_path / "data", seed, min(rounds, 5))


@pytest.mark.soak
def test_batches_sent_again_after_many_kills_are_there_once_and_in_order(tmp_path, seed, rounds, told):
    for number, first in enumerate(told(range(0, rounds, KILLS_OF_A_DIRECTORY))):
        kill_again_and_again(tmp_path / "data", seed + number, min(rounds - first, KILLS_OF_A_DIRECTORY))
        shutil.rmtree(tmp_path / "data")


def test_a_second_process_is_told_which_one_owns_the_directory(tmp_path, seed):
    path = str(tmp_path / "data")
    with WriterProcess(path, History(seed)) as writer:
        writer.restart()
        with pytest.raises(DirectoryOwned) as refusal:
            open_log(path)
    assert (refusal.value.pid, refusal.value.path) == (writer.pid, path)


def test_the_directory_of_a_killed_process_can_be_opened_at_once(tmp_path, seed):
    path = str(tmp_path / "data")
    with WriterProcess(path, History(seed)) as writer:
        writer.wait_for_acknowledgements(1)
    with open_log(path) as log:
        assert not log.was_clean


def test_the_demo_keeps_count_and_ends_well(tmp_path, seed):
    command = [sys.executable, str(DEMO), "--rounds", "2", "--seed", str(seed)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (run.returncode, run.stderr) == (0, "")
    assert "2 kills" in run.stdout
    assert "nothing was lost" in run.stdout
    assert os.listdir(tmp_path) == []


# --- the check itself: it must notice what a log could do wrong

SEED = 2
BATCH = planned_batch(SEED, producer=0, sequence=0)


def broken(tmp_path: Path, records: list[Record], history: History) -> list[str]:
    path = str(tmp_path / "data")
    if records:
        with open_log(path) as log:
            log.partition(TOPIC, 0).append(records)
    log, restart = reopen(path, history)
    log.close()
    return restart.broken


def test_the_check_finds_nothing_wrong_with_what_was_planned(tmp_path):
    history = History(SEED, [Acknowledged(0, 0, len(BATCH), 0, False)], [Seen(0, 0, "0/0")])
    assert broken(tmp_path, BATCH, history) == []


def test_the_check_notices_that_an_acknowledged_record_is_gone(tmp_path):
    complaints = broken(tmp_path, [], History(SEED, [Acknowledged(0, 0, 1, 0, False)]))
    assert complaints == ["records 0/0 to 0/0 were acknowledged at offset 0 and are not there"]


def test_the_check_notices_that_a_record_is_gone_which_a_reader_saw(tmp_path):
    complaints = broken(tmp_path, [], History(SEED, [], [Seen(0, 0, "0/0")]))
    assert complaints == ["a reader saw record 0/0 at offset 0 and it is not there"]


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        pytest.param(BATCH[:-1], "only a part of the last batch", id="half a batch"),
        pytest.param(BATCH + BATCH, "a wrong record at offset", id="the same batch twice"),
        pytest.param(BATCH[1:], "a wrong record at offset 0", id="the first record missing"),
        pytest.param([BATCH[0]._replace(value=b"?"), *BATCH[1:]], "a wrong record at offset 0", id="another value"),
        pytest.param([Record(b"", key=b"1/0")], "that nobody wrote", id="a record of another partition"),
        pytest.param([Record(b"")], "that nobody wrote", id="a record of nobody"),
    ],
)
def test_the_check_notices_what_was_not_planned(tmp_path, records, complaint):
    assert complaint in "\n".join(broken(tmp_path, records, History(SEED)))
