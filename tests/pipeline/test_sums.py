"""In time + late + rejected is every record, once; and what Spark answers is what the log answers without the late and
the rejected ones: whatever the operator, the disorder, the broken values, the cuts of batches, and the restarts.
"""

from __future__ import annotations

import json
import random

import pytest

from runnel import Broker
from runnel.pipeline.checkpoint_path import checkpoint_in
from tests.pipeline.operators import LATE, OPERATORS
from tests.pipeline.scene import SECOND, START, Scene, Sending

OURS = 1  # milliseconds that our watermark is above Spark's

ALWAYS = [
    ("tumbling window", "view"),
    ("sliding window", "stream"),
    ("session window", "view"),
    ("inner join", "stream"),
    ("left join", "stream"),
    ("join with itself", "stream"),
    ("duplicates", "stream"),
    ("duplicates within the watermark", "view"),
    ("stateless", "stream"),
]
ALL = [(name, kind) for name in OPERATORS for kind in ("stream", "view")]


@pytest.fixture
def scene(tmp_path, spark):
    with Broker() as broker:
        yield Scene(broker, spark, tmp_path / "data")


@pytest.mark.servers
@pytest.mark.parametrize(("name", "kind"), ALWAYS)
def test_every_record_is_counted_once_and_the_answer_is_that_of_the_rest(scene, seed, name, kind):
    live_through(scene, OPERATORS[name], kind, random.Random(f"{seed} {name} {kind}"), parts=2)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_every_record_is_counted_once_for_a_long_time(tmp_path, spark, seed, rounds, told, name, kind):
    for number in told(range(max(1, rounds // 10))):
        chance = random.Random(f"{seed} {name} {kind} {number}")
        with Broker() as broker:
            scene = Scene(broker, spark, tmp_path / str(number))
            live_through(scene, OPERATORS[name], kind, chance, parts=chance.randint(1, 4))


def live_through(scene, operator, kind, chance, *, parts):
    runs = lived(scene, operator, chance, parts=parts, make_app=lambda rows: operator.app(kind, rows=rows))
    check_sums(scene, runs)
    check_late(scene, operator, runs)
    check_answer(scene, operator, kind)


def lived(scene, operator, chance, *, parts, make_app):
    """Records come in parts, and after each of them the app runs until it has caught up. The last part closes all."""
    partitions = chance.randint(1, 3)
    how = Sending(
        seed=chance.randrange(2**32),
        partitions=partitions,
        step=chance.choice([500, SECOND]),
        back=chance.choice([0, LATE, 2 * LATE]),
        broken=chance.choice([0.0, 0.1]),
        repeated=operator.repeated,
    )
    rows = chance.choice([20, 1000])
    by_tasks = chance.choice([{}, {"parallel_from": 1}])
    scene.make(*operator.inputs, partitions=partitions)
    runs = []
    for part in range(parts):
        how.seed += 1
        scene.send(chance.randint(25, 40), how, operator.inputs)
        if part == parts - 1:
            scene.close_windows(operator.inputs)
        runs.append(scene.run(make_app(rows), **by_tasks)["result"])
    return runs


def put_aside(scene, operator):
    rejected = {}
    for topic in operator.inputs:
        rejected |= scene.aside(f"{topic}.rejected", "result")
    return scene.aside("result.late", "result"), rejected


def check_sums(scene, runs):
    told = [sum(run.in_time for run in runs), sum(run.late for run in runs), sum(run.rejected for run in runs)]
    assert sum(told) == len(scene.sent)
    assert [run.dropped for run in runs] == [0] * len(runs), "Spark dropped rows that we let pass"


def check_late(scene, operator, runs):
    """The late ones are those that lie below the watermark, which follows from the records of the batches before."""
    late, rejected = put_aside(scene, operator)
    assert sum(run.late for run in runs) == len(late)
    assert sum(run.rejected for run in runs) == len(rejected)
    assert set(rejected) == {event.place for event in scene.sent if event.at is None}
    expected = late_by_the_rule(scene, operator, runs)
    assert {place: int(headers["runnel.watermark"]) for place, headers in late.items()} == expected


def late_by_the_rule(scene, operator, runs, raises=lambda event: False):
    """Out of what Spark wrote down: where each batch ended. The watermark that it missed, for each late record. Rows on
    which the body raises are as if they were not there, unless they are late.
    """
    offsets = checkpoint_in(scene.data / "queries/result") / "offsets"
    entries = sorted(offsets.glob("[0-9]*"), key=lambda path: int(path.name))
    begins, number = set(), 0
    for run in runs:
        begins.add(number)
        number += run.batches
    assert number == len(entries)
    events = {event.place: event for event in scene.sent}
    read, late = {}, {}
    watermark = 0
    newest: dict[str, int] = {}
    for entry in entries:
        if int(entry.name) in begins:
            newest = {}
        _, about, *sources = entry.read_text().splitlines()
        assert json.loads(about)["batchWatermarkMs"] == max(0, watermark - OURS)
        assert len(set(sources)) == len(operator.inputs), "two sources of one input went different ways"
        for place in between(read, sources):
            event = events[place]
            if event.at is None:
                continue
            if START + event.at < watermark:
                late[place] = watermark
            elif not raises(event):
                newest[event.topic] = max(newest.get(event.topic, 0), START + event.at)
        if len(newest) == len(operator.inputs):
            watermark = max(watermark, min(newest.values()) - LATE * SECOND)
    return late


def between(read, sources):
    """The places that a batch added to those that were read before."""
    found = set()
    for source in sources:
        if source == "-":
            continue
        for topic, known in json.loads(source)["topics"].items():
            for partition, end in known["next"].items():
                start = read.get((topic, partition), 0)
                found |= {(topic, int(partition), offset) for offset in range(start, end)}
    for source in sources:
        if source != "-":
            for topic, known in json.loads(source)["topics"].items():
                read |= {(topic, partition): end for partition, end in known["next"].items()}
    return sorted(found)


def check_answer(scene, operator, kind):
    late, rejected = put_aside(scene, operator)
    rest = [event for event in scene.sent if event.place not in late and event.place not in rejected]
    found = scene.rows("result") if kind == "view" else scene.values("result")
    assert operator.found(found) == operator.expected(rest)
