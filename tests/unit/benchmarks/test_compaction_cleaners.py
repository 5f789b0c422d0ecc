"""What the benchmark of compaction reads of the brokers' logs and of /proc."""

import subprocess
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.broker_process import TICKS, resident
from benchmarks.broker_servers import wait_until
from benchmarks.compaction_cleaners import (
    Cleaning,
    KafkaCleaner,
    OurCleaner,
    Watch,
    Worker,
    busiest_share,
    children,
    ended_children_cpu,
    server_memory,
)

KAFKA_LOG = """\
2026-11-15 20:43:44,459 INFO  LogCleaner: Starting the log cleaner
2026-11-15 20:43:46,000 INFO  Cleaner: Cleaner 0: Beginning cleaning of log compacted-20-0
2026-11-15 20:43:48,690 INFO  Cleaner: Cleaner 0: Beginning cleaning of log compacted-2-0
2026-11-15 20:43:48,690 INFO  Cleaner: Cleaner 0: Building offset map for compacted-2-0...
2026-11-15 20:43:50,940 INFO  LogCleaner$CleanerThread: [kafka-log-cleaner-thread-0]: \n\
\tLog cleaner thread 0 cleaned log compacted-2-0 (dirty section = [0, 20000])
\t2.4 MB of log processed in 0.2 seconds (11.6 MB/sec).
\tIndexed 2.4 MB in 0.1 seconds (18.0 Mb/sec, 64.7% of total time)
\tBuffer utilization: 0.0%
\tCleaned 2.4 MB in 0.1 seconds (35.9 Mb/sec, 35.3% of total time)
\tStart size: 2.4 MB (20,001 messages)
\tEnd size: 0.2 MB (2,000 messages)
\t89.8% size reduction (90.0% fewer messages)

"""
OUR_LOG = """\
2026-11-15T20:43:44.459Z INFO runnel.broker: serving
2026-11-15T20:43:50.940Z INFO runnel.log.compaction.background: compacted compacted-2-0 up to offset 20000: \
2000 of 20001 records, 252000 of 2520000 bytes are left
"""
ENDED = datetime(2026, 11, 15, 20, 43, 50, 940_000)


@dataclass
class Broker:
    data: Path
    pid: int = 0
    name: str = "broker"


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "server.log").write_text("")
    return Broker(tmp_path / "data")


def says(broker, text):
    (broker.data.parent / "server.log").write_text(text)


def test_kafkas_cleaner_tells_when_it_began_and_ended_and_how_many_records_there_were(broker):
    says(broker, KAFKA_LOG)
    done = KafkaCleaner(broker, "compacted-2-0").look()
    assert done == Cleaning(ENDED.timestamp() - 2.25, ENDED.timestamp(), records_before=20_001, records_after=2_000)
    assert done.seconds == pytest.approx(2.25)


@pytest.mark.parametrize("partition", ["compacted-20-0", "compacted-0", "compacted-2-1"])
def test_the_cleaning_of_another_partition_is_not_taken_for_kafkas(broker, partition):
    says(broker, KAFKA_LOG)
    assert KafkaCleaner(broker, partition).look() is None


def test_kafkas_cleaner_is_not_done_as_long_as_it_has_not_said_all(broker):
    says(broker, KAFKA_LOG[: KAFKA_LOG.index("\tEnd size")])
    assert KafkaCleaner(broker, "compacted-2-0").look() is None


SERVER = """\
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
print(worker.pid, flush=True)
worker.wait()
sys.stdin.read()
"""


class Server:
    """A process with one child, which ends when it is told to."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.worker = int(process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture
def server():
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Server(process)


def test_our_cleaner_begins_with_its_worker_and_ends_with_the_line_in_the_log(broker, server):
    cleaner = OurCleaner(replace(broker, pid=server.pid), "compacted-2-0")
    assert cleaner.look() is None
    says(broker, OUR_LOG)
    done = cleaner.look()
    assert [known.pid for known in cleaner.workers] == [server.worker]
    assert (done.records_before, done.records_after) == (20_001, 2_000)
    assert done.ended == ENDED.replace(tzinfo=UTC).timestamp()
    assert done.began == cleaner.workers[0].used[0][0]


def test_a_cleaning_of_ours_whose_worker_was_not_seen_has_no_beginning(broker, server):
    says(broker, OUR_LOG)
    alone = replace(broker, pid=server.worker)
    with pytest.raises(RuntimeError, match="0 workers"):
        OurCleaner(alone, "compacted-2-0").look()


def test_a_watch_ends_with_the_cleaning(broker, server):
    broker = replace(broker, pid=server.pid)
    cleaner = OurCleaner(broker, "compacted-2-0")
    watch = Watch(broker, cleaner, limit=60)
    wait_until(lambda: cleaner.workers, "the worker")
    says(broker, OUR_LOG)
    watched = watch.result()
    assert watched.cleaning.records_before == 20_001
    assert watched.memory > 0


def test_a_watch_that_takes_too_long_fails_and_says_so(broker, server):
    broker = replace(broker, pid=server.pid)
    with pytest.raises(RuntimeError, match="could not be watched") as failed:
        Watch(broker, KafkaCleaner(broker, "compacted-2-0"), limit=0).result()
    assert "not cleaned after 0 s" in str(failed.value.__cause__)


def test_a_worker_that_has_ended_keeps_what_was_seen_of_it(server):
    deadline = time.monotonic() + 60
    while resident(server.worker) < 1_000_000:  # it has not become a Python yet
        assert time.monotonic() < deadline
    seen = Worker(server.worker)
    seen.look(1.0)
    peak = seen.peak
    server.end()
    seen.look(2.0)
    assert peak > 1_000_000
    assert (seen.peak, [when for when, _ in seen.used]) == (peak, [1.0])


def test_the_memory_of_a_server_is_that_of_its_children_too(server):
    assert children(server.pid) == [server.worker]
    assert server_memory(server.pid) > resident(server.pid)


def test_the_time_of_children_that_have_ended_stands_in_the_stat_of_their_parent():
    fields = ["S", *(str(number) for number in range(4, 53))]
    fields[13:15] = ["300", "50"]  # cutime, cstime
    assert ended_children_cpu(f"12 (a (strange) name) {' '.join(fields)}") == 350 / TICKS


@pytest.mark.parametrize(
    ("used", "share"),
    [
        ([(0.0, 0.0), (10.0, 2.0), (20.0, 5.0), (30.0, 6.0)], 0.3),
        ([(0.0, 0.0), (5.0, 0.0), (10.0, 4.0), (15.0, 4.0), (20.0, 4.0)], 0.4),
        ([(0.0, 0.0), (2.0, 1.0)], 0.5),  # less than the time that is looked at
        ([(0.0, 1.0)], 0.0),
    ],
)
def test_the_busiest_time_counts(used, share):
    assert busiest_share(used, 10.0) == pytest.approx(share)
