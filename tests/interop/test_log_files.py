"""Apache Kafka finds nothing wrong with our files, after rolls, retention, failures and recovery."""

from pathlib import Path
from random import Random

import pytest

from runnel.files import read_file
from runnel.log import Codec, Log, LogSettings, Record, TopicPartition, TopicSettings, open_log
from runnel.records import Producer, build_batch
from runnel.testing import Crashed, FaultyFiles, StoppedClock
from tests.crash.model import World
from tests.interop.kafka_distribution import dump_segments

pytestmark = pytest.mark.servers

SUFFIXES = {".log", ".index", ".timeindex", ".snapshot"}


def kafka_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def assert_nothing_wrong(folder: Path) -> None:
    files = kafka_files(folder)
    assert {path.suffix for path in files} == SUFFIXES, "every kind of file is there to be judged"
    assert dump_segments(files).problems == []


def fill(log: Log, chance: Random, appends: int) -> None:
    """Records of all shapes, in all compressions, from plain and idempotent producers, some of them sent twice."""
    settings = TopicSettings(segment_bytes=20_000, index_interval_bytes=1_000)
    partitions = [log.partition("orders", number, settings) for number in range(2)]
    sequences = {7: 0, 8: 0}
    for number in range(appends):
        records = [
            Record(chance.randbytes(chance.randrange(400)), b"key", 1_700_000_000_000 + chance.randrange(10_000_000))
            for _ in range(chance.randrange(1, 20))
        ]
        producer_id = chance.choice([-1, 7, 8])
        producer = Producer(producer_id, 0, sequences[producer_id]) if producer_id >= 0 else Producer()
        batch = build_batch(records, codec=list(Codec)[number % len(Codec)], producer=producer)
        partition = partitions[producer_id % 2]
        partition.append_batch(batch)
        if producer_id >= 0:
            sequences[producer_id] += len(records)
            assert partition.append_batch(batch).duplicate


def test_kafka_reads_a_log_that_was_rolled_and_stopped(tmp_path: Path, seed: int) -> None:
    with open_log(tmp_path / "data") as log:
        fill(log, Random(seed), appends=120)
    assert_nothing_wrong(tmp_path)


def test_kafka_reads_a_log_after_retention_and_deletion(tmp_path: Path, seed: int) -> None:
    with open_log(tmp_path / "data") as log:
        fill(log, Random(seed), appends=120)
        first, second = (log.partition("orders", number) for number in range(2))
        first.settings = TopicSettings(segment_bytes=20_000, retention_bytes=50_000)
        assert first.apply_retention() > 0
        second.delete_before(second.end_offset // 2)
        first.append([Record(b"after")])
        second.append([Record(b"after")])
    assert_nothing_wrong(tmp_path)


def test_kafka_reads_logs_that_survived_faults_and_power_cuts(tmp_path: Path, seed: int) -> None:
    """The files of model histories, each with a power cut, after recovery and a clean stop."""
    chance = Random(seed)
    for number in range(12):
        world_seed = chance.randrange(2**32)
        operations = len(World(world_seed).run(steps=14).file_operations)
        world = World(world_seed, chance.randrange(1, operations)).run(steps=14)
        world.log.close()
        copy_out(world.files, tmp_path / str(number))
    assert_nothing_wrong(tmp_path)


def copy_out(files: FaultyFiles, target: Path) -> None:
    """Bring the partitions of a simulated disk to where Kafka can read them."""
    for name in filter(TopicPartition.from_name, files.list("/data")):
        (target / name).mkdir(parents=True)
        for inner in files.list(f"/data/{name}"):
            (target / name / inner).write_bytes(read_file(files, f"/data/{name}/{inner}"))


def test_kafka_reads_a_log_that_was_cut_while_it_was_written(tmp_path: Path, seed: int) -> None:
    """One large history without a model: the power goes out in the middle, and the log goes on from there."""
    chance = Random(seed)
    files = FaultyFiles(chance=chance, clock=StoppedClock(), crash_at=chance.randrange(300, 900))
    settings = LogSettings(low_disk_bytes=0)
    log = open_log("/data", settings=settings, files=files, clock=StoppedClock(), background=False)
    with pytest.raises(Crashed):
        fill(log, chance, appends=10_000)
    survived = files.crash(chance)
    with open_log("/data", settings=settings, files=survived, clock=StoppedClock(), background=False) as log:
        for partition in log.partitions():
            log.partition(*partition).append([Record(b"after")])
            log.partition(*partition).roll()
            log.partition(*partition).append([Record(b"after that")])
    copy_out(survived, tmp_path)
    assert_nothing_wrong(tmp_path)
