"""Killed at any durable step, a store is as before it or as after it, and comes to what an undisturbed life gives."""

import re
import signal
from pathlib import Path

import pytest

import runnel.views
from runnel.views.changes import Change
from runnel.views.errors import PositionOutOfRange
from tests.contract.views import test_exchange
from tests.contract.views.clicks import marker
from tests.contract.views.crash_life import BATCHES, POSITIONS, STATES, lived

POINTS = {
    "view.file": [1],
    "view.store": [1],
    "view.create": [1],
    "view.claim": [1, 2],
    "view.commit": [1, 2, 4],
    "view.migrate": [1],
    "view.trim": [1],
}
ONLY_SQLITE = {"view.file"}
KILLED = -signal.SIGKILL

STEPS = [f"{name}:{side}:{time}" for name, times in POINTS.items() for time in times for side in ("before", "after")]
CASES = [("sqlite", step) for step in STEPS] + [
    pytest.param("postgres", step, marks=pytest.mark.servers)
    for step in STEPS
    if step.partition(":")[0] not in ONLY_SQLITE
]


def test_every_durable_step_of_the_stores_is_tried():
    sources = Path(runnel.views.__file__).parent.glob("*.py")
    names = {name for source in sources for name in re.findall(r'durable\("([^"]+)"\)', source.read_text())}
    assert names - set(test_exchange.STEPS) == set(POINTS)  # which are tried there


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_a_store_is_whole_wherever_its_writer_was_killed_and_goes_on(store, place, step):
    name, side, time = step.split(":")
    assert lived(place.address, step) == KILLED
    batches = check_whole(store)
    if name == "view.commit":
        assert batches == int(time) - (side == "before")
    # It comes back, and dies again as soon as it can: with its first claim.
    assert lived(place.address, "view.claim:after:1") == KILLED
    assert check_whole(store) == batches
    assert lived(place.address) == 0
    assert check_whole(store) == BATCHES
    assert lived(place.address) == 0
    assert check_whole(store) == BATCHES


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        ("sqlite", "before"),
        ("sqlite", "after"),
        pytest.param("postgres", "before", marks=pytest.mark.servers),
        pytest.param("postgres", "after", marks=pytest.mark.servers),
    ],
)
def test_a_writer_that_dies_at_every_batch_comes_to_the_end_when_its_commits_do(store, place, side):
    for attempt in range(1, BATCHES + 1):
        assert lived(place.address, f"view.commit:{side}:1") == KILLED
        assert check_whole(store) == (attempt if side == "after" else 0)
    assert lived(place.address) == 0
    assert check_whole(store) == BATCHES


def check_whole(store) -> int:
    """The store shows one of the states between batches, in its rows, its marker and its log; which one."""
    if "clicks" not in store.names():
        return 0
    with store.reader("clicks") as reader:
        rows, position, mark, *_ = reader.snapshot()
        batches = 0 if mark is None else mark.batch + 1
        assert {row["page"]: (row["seen"], row.get("city")) for row in rows.to_pylist()} == STATES[batches]
        assert mark is None or mark == marker(batches - 1, at=batches - 1)
        assert position == POSITIONS[batches]
        check_log(reader, batches)
    return batches


def check_log(reader, batches: int) -> None:
    """What is left of the log leads from an earlier state to this one."""
    try:
        changes, state = list(reader.changes(0)), dict(STATES[0])
    except PositionOutOfRange as trimmed:
        changes, state = list(reader.changes(trimmed.first)), dict(STATES[POSITIONS.index(trimmed.first)])
    for change in changes:
        fold(state, change)
    assert state == STATES[batches]


def fold(state: dict, change: Change) -> None:
    if change.after is None:
        del state[change.key["page"]]
    else:
        state[change.key["page"]] = (change.after["seen"], change.after.get("city"))
