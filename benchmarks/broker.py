"""The broker beside Apache Kafka 4.3.0: the same work from the same clients on the same disk, turn by turn.

It needs Java 17, Maven (which fetches Kafka once) and kcat, about twenty minutes and up to 10 GiB in the temporary
directory, and leaves nothing behind. TMPDIR chooses the disk: on a file system in memory a sync costs nothing, and no
read is cold.
"""

import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import (
    broker_bulk,
    broker_delays,
    broker_kills,
    broker_limits,
    broker_readers,
    broker_requests,
    broker_starts,
)
from benchmarks.broker_environment import users_program
from benchmarks.broker_servers import Kafka, Runnel, running
from benchmarks.harness import Figure, Options
from tests.interop.kafka_distribution import KafkaUnavailable, kafka_classpath


def run(options: Options) -> list[Figure]:
    # As after Ctrl-C: without it both brokers would outlive a benchmark that was told to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    broker_bulk.kcat()
    try:
        kafka_classpath()
    except KafkaUnavailable as missing:
        raise SystemExit(str(missing)) from None
    program = users_program()
    with tempfile.TemporaryDirectory(prefix="runnel-bench-") as folder:
        place = Path(folder)
        ours, peer = Runnel(place / "runnel", program), Kafka(place / "kafka")
        starts = broker_starts.figures(options, ours, peer)
        loads = _under_load(options, place, ours, peer)
        kills = broker_kills.figures(options, ours.at(place / "runnel-killed"), peer.at(place / "kafka-killed"))
        return [*loads, *starts[:2], *kills, *starts[2:]]


def _under_load(options: Options, place: Path, ours: Runnel, peer: Kafka) -> list[Figure]:
    """Both run all the time; an idle broker takes next to nothing from the one that is measured."""
    with running(ours) as our_broker, running(peer) as peer_broker:
        return [
            *broker_bulk.figures(options, place, our_broker, peer_broker),
            *broker_requests.figures(options, our_broker, peer_broker),
            *broker_readers.figures(options, place, our_broker, peer_broker),
            *broker_delays.figures(options, our_broker, peer_broker),
            *broker_limits.figures(options, place, our_broker, peer_broker),
        ]
