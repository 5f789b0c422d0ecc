"""kafkajs, Node's own implementation of the protocol, on our broker: a tour through all that its users do.

The program is `node/tour.js`; npm fetches what `node/package-lock.json` names, once, into the cache of the tests.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.interop.java_programs import broker_of
from tests.interop.kafka_distribution import cache_directory

HERE = Path(__file__).parent / "node"
# Those of the program.
RECORDS, PARTITIONS = 200, 4
LIMIT = 300.0  # seconds: of a program that waits a minute for each of a few things
Tour = dict[str, dict[str, Any]]


@pytest.fixture(
    scope="module",
    params=[pytest.param("runnel", marks=pytest.mark.servers), pytest.param("kafka", marks=pytest.mark.soak)],
)
def tour(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tour:
    """What each step of the program has seen."""
    node, packages = found("node"), node_packages()
    # A program finds the packages beside itself.
    program = tmp_path_factory.mktemp("tour") / "tour.js"
    program.write_text((HERE / program.name).read_text())
    (program.parent / packages.name).symlink_to(packages)
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with broker_of(request.param, tmp_path_factory.mktemp("broker"), settings) as broker:
        run = subprocess.run(
            [node, str(program), broker.bootstrap], capture_output=True, text=True, check=False, timeout=LIMIT
        )
        broker.check()
    assert run.returncode == 0, run.stderr
    steps = [json.loads(line) for line in run.stdout.splitlines()]
    return {step.pop("step"): step | {"bootstrap": broker.bootstrap} for step in steps}


def node_packages() -> Path:
    """The packages of the lock; they are fetched when they are not there yet."""
    lock = HERE / "package-lock.json"
    folder = cache_directory() / f"node-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first, so that an interrupted download is never taken for a whole one.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.partial-") as partial:
            fetched = Path(partial) / folder.name
            fetched.mkdir()
            for name in ("package.json", lock.name):
                shutil.copy(HERE / name, fetched)
            command = [found("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            run = subprocess.run(command, cwd=fetched, capture_output=True, text=True, check=False)
            assert run.returncode == 0, f"npm could not fetch the packages of {lock}:\n{run.stdout}{run.stderr}"
            try:
                fetched.rename(folder)
            except OSError:
                # Another run may have finished first; then its packages are as good as ours.
                if not folder.is_dir():
                    raise
    return folder / "node_modules"


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"'{program}' is missing: install Node.js with npm ('apt-get install npm' on Debian and Ubuntu)")
    return path


def each_partition(*facts: int) -> list[list[int]]:
    return [[partition, *facts] for partition in range(PARTITIONS)]


def test_a_topic_is_made_once(tour: Tour) -> None:
    step = tour["topics"]
    assert (step["made"], step["again"]) == (True, False)
    assert step["names"] == ["copies", "orders"]


def test_an_idempotent_producer_writes_by_gzip(tour: Tour) -> None:
    half = RECORDS // PARTITIONS // 2
    step = tour["produced"]
    assert step["errors"] == []
    assert step["offsets"] == [[partition, offset] for partition in range(PARTITIONS) for offset in (0, half)]


def test_two_members_of_a_group_read_every_record_and_commit(tour: Tour) -> None:
    step = tour["group"]
    facts = [step[name] for name in ("state", "protocol", "members", "given", "crashes")]
    assert facts == ["Stable", "RoundRobinAssigner", 2, [0, 1, 2, 3], []]
    assert step["records"] == [
        {
            "partition": partition,
            "offset": offset,
            "key": f"key-{number}",
            "value": f"value-{number}",
            "time": number,
            "header": f"{number}",
        }
        for partition in range(PARTITIONS)
        for offset, number in enumerate(range(partition, RECORDS, PARTITIONS))
    ]
    assert step["committed"] == each_partition(RECORDS // PARTITIONS)


def test_a_group_that_all_have_left_is_empty_and_listed(tour: Tour) -> None:
    step = tour["group"]
    assert step["afterwards"] == "Empty"
    assert step["listed"] == [{"groupId": "readers", "protocolType": "consumer"}]


def test_a_copy_in_transactions_has_what_was_committed_once(tour: Tour) -> None:
    step = tour["copied"]
    committed, aborted = ([f"{end} value-{number}" for number in range(RECORDS)] for end in ("commit", "abort"))
    assert step["committed"] == each_partition(RECORDS // PARTITIONS)
    assert step["readCommitted"] == sorted(committed)
    assert step["readUncommitted"] == sorted(aborted + committed)


def test_the_cluster_is_one_broker(tour: Tour) -> None:
    step = tour["cluster"]
    assert step["brokers"] == [step["bootstrap"]]
    assert step["clusterId"] == "string"


def test_configs_are_told_and_replaced(tour: Tour) -> None:
    step = tour["configs"]
    assert step["before"] == [
        ["delete.retention.ms", "86400000", True],
        ["max.message.bytes", "900000", False],
        ["retention.ms", "-1", False],
    ]
    # What the second request does not name is what it was without the first.
    assert step["after"] == [
        ["delete.retention.ms", "5000", False],
        ["max.message.bytes", "1048588", True],
        ["retention.ms", "-1", False],
    ]


def test_offsets_are_found_by_their_times(tour: Tour) -> None:
    step = tour["offsets"]
    # The 101st millisecond is that of a record of partition 1; that of partition 0 was a millisecond before.
    assert step["amid"] == [[0, 26], [1, 25], [2, 25], [3, 25]]
    assert step["first"] == each_partition(0)
    assert step["late"] == each_partition(RECORDS // PARTITIONS)
    assert step["ends"] == each_partition(0, RECORDS // PARTITIONS)


def test_records_are_deleted_and_a_topic_grows(tour: Tour) -> None:
    assert tour["changed"]["ends"] == [[0, 30, 50], [1, 50, 50], [2, 0, 50], [3, 0, 50], [4, 0, 0]]


def test_offsets_of_a_group_are_set_and_the_group_is_deleted(tour: Tour) -> None:
    step = tour["groups"]
    assert step["set"] == 7
    assert step["deleted"] == [{"groupId": "readers", "errorCode": 0}]
    assert step["gone"] == "Dead"


def test_deleted_topics_are_gone(tour: Tour) -> None:
    assert tour["deleted"]["names"] == []
