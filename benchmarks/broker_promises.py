"""What an acknowledgement promises, on either side.

By default our broker answers when a record is synced to the disk, and Kafka when it is in the page cache. So where the
disk decides, the same figure is measured twice more: with topics that let both answer before the sync, and with topics
that let both answer after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.broker_servers import Running

UNSYNCED = {"flush.ms": "1000"}  # ours syncs within a second of the write, as nobody waits for it
SYNCED = {"flush.messages": "1"}  # Kafka syncs each append before it answers


@dataclass(frozen=True)
class Promise:
    """`suffix` is behind the names of its figures, and of its topic."""

    suffix: str
    ours: Mapping[str, str]
    peer: Mapping[str, str]

    def figure(self, name: str) -> str:
        return f"{name}, {self.suffix}" if self.suffix else name

    def create_topic(self, prefix: str, ours: Running, peer: Running) -> str:
        topic = "-".join([prefix, *self.suffix.split()])
        for broker, configs in ((ours, self.ours), (peer, self.peer)):
            broker.create_topic(topic, 1, configs)
        return topic


DEFAULTS = Promise("", {}, {})
PROMISES = (DEFAULTS, Promise("neither synced", UNSYNCED, {}), Promise("both synced", {}, SYNCED))
