"""The demo, run with small numbers; and its check, which must notice what a broker could do wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples import kept_promises
from examples.kept_promises import Found, Place, Promises, planned

DEMO = Path(kept_promises.__file__).with_name("broker_demo.py")
SMALL = ["--kills", "1", "--records", "400"]

# A broker whose disk forgets: after the kill the newest segments are empty.
FORGETFUL = f"""
import sys
sys.path.insert(0, {str(DEMO.parent)!r})
import broker_demo
from broker_process import BrokerProcess

kill = BrokerProcess.kill

def kill_and_forget(broker):
    kill(broker)
    for segment in broker.data.glob("orders-*/*.log"):
        segment.write_bytes(b"")

BrokerProcess.kill = kill_and_forget
sys.exit(broker_demo.main({SMALL!r}))
"""


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=environment)


def test_the_demo_ends_well_and_leaves_nothing_behind(tmp_path):
    done = run([str(DEMO), *SMALL, "--picture", str(tmp_path / "demo.svg")], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 kill," in done.stdout
    assert "nothing was lost" in done.stdout
    assert "reads in group billing" in (tmp_path / "demo.svg").read_text().replace("&#160;", " ")
    assert os.listdir(tmp_path) == ["demo.svg"]


def test_the_demo_fails_when_a_broker_forgets_what_it_acknowledged(tmp_path):
    done = run(["-c", FORGETFUL], tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Broken promises" in done.stdout
    assert "nothing was lost" not in done.stdout


# --- the check itself

RECORDS = [planned("shop", number) for number in range(3)]
TOLD = {("shop", number): Place(0, number) for number in range(3)}


def broken_by(found: list[tuple[bytes, bytes]]) -> list[str]:
    promises = Promises(["billing"])
    promises.note_sent("shop", 2)
    return list(promises.broken_by_records(TOLD, [Found(0, offset, *record) for offset, record in enumerate(found)]))


def test_the_check_finds_nothing_wrong_with_what_was_acknowledged():
    assert broken_by(RECORDS) == []


def test_the_check_notices_that_an_acknowledged_record_is_gone():
    assert broken_by(RECORDS[:2]) == ["record shop/2 was acknowledged at offset 2 of partition 0 and is not there"]


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        pytest.param([*RECORDS, RECORDS[2]], "shop/2 stands at offset 3 of partition 0, behind number 2", id="twice"),
        pytest.param([*RECORDS[:2][::-1], RECORDS[2]], "behind number 1", id="in another order"),
        pytest.param([*RECORDS, planned("shop", 3)], "offset 3 that nobody sent", id="not sent"),
        pytest.param([*RECORDS, (b"shop/1", b"?")], "offset 3 that nobody sent", id="another value"),
        pytest.param([*RECORDS, (b"?", b"?")], "offset 3 that nobody sent", id="of nobody"),
    ],
)
def test_the_check_notices_what_was_not_planned(found, complaint):
    assert complaint in "\n".join(broken_by(found))


def test_the_check_notices_that_a_committed_offset_went_back():
    promises = Promises(["billing"])
    promises.note_committed("billing", {0: 5, 1: 7})
    complaints = promises.broken_by_commits(promises.committed_now(), {"billing": {0: 5, 1: 6}})
    assert list(complaints) == ["group billing committed offset 7 of partition 1, and 6 was kept"]


def test_the_check_notices_that_a_group_skipped_records():
    promises = Promises(["billing"])
    for offset in (0, 1, 4):
        promises.note_read("billing", 2, offset)
    assert list(promises.broken_by_groups()) == ["group billing was not given offsets 2 to 3 of partition 2"]


def test_the_check_notices_that_a_group_has_not_read_to_the_end():
    promises = Promises(["billing"])
    promises.note_read("billing", 0, 0)
    assert list(promises.broken_by_groups({0: 2})) == ["group billing was given 1 of 2 records of partition 0"]


def test_a_record_that_a_group_reads_again_is_counted_and_breaks_no_promise():
    promises = Promises(["billing"])
    for offset in (0, 1, 1, 2):
        promises.note_read("billing", 0, offset)
    assert promises.groups["billing"].again == 1
    assert list(promises.broken_by_groups({0: 3})) == []
