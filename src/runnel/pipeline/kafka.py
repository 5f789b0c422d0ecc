"""The Kafka that an app runs against: any. Its address, and what a client must bring to be let in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runnel.client import Admin
from runnel.client.cluster import PATIENCE, Cluster
from runnel.client.errors import TopicExists
from runnel.client.security import Security


@dataclass(frozen=True)
class Kafka:
    """`settings` are those of librdkafka: `security.protocol`, `sasl.username`, ... What passes by itself, as a leader
    that moves, is waited for, for `patience` seconds.
    """

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict)
    patience: float = PATIENCE

    @property
    def security(self) -> Security:
        return Security.of(self.settings)

    def cluster(self) -> Cluster:
        return Cluster(self.bootstrap, security=self.security, timeout=self.patience)

    def make_topic(self, name: str, *, partitions: int | None = None, configs: Mapping[str, str] | None = None) -> bool:
        """False if it is there already; it stays as it is then."""
        return name in self.make_topics({name: configs or {}}, partitions=partitions)

    def make_topics(self, configs: Mapping[str, Mapping[str, str]], *, partitions: int | None = None) -> list[str]:
        """Those of them that were not there: which are made with these configs, by their names."""
        with Admin(self.bootstrap, settings=dict(self.settings)) as admin:
            there = {topic.name for topic in admin.described(list(configs), missing_is_fine=True)}
            return [name for name in configs if name not in there and _make(admin, name, partitions, configs[name])]


def _make(admin: Admin, name: str, partitions: int | None, configs: Mapping[str, str]) -> bool:
    try:
        admin.create(name, partitions=partitions, configs=configs)
    except TopicExists:  # another one was quicker
        return False
    return True
