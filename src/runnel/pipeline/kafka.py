"""The Kafka that an app runs against: any. Its address, and what a client must bring to be let in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from runnel.client import Admin
from runnel.client.cluster import PATIENCE, Cluster
from runnel.client.errors import InvalidConfig, Refused, TopicExists
from runnel.client.security import Security
from runnel.durable import durable
from runnel.errors import RunnelError

LARGEST = "max.message.bytes"
ROOM = 64 * 1024  # bytes for what is said of a record, beside itself
UNLIMITED = 2**31 - 1


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

    def make_topics(
        self,
        configs: Mapping[str, Mapping[str, str]],
        *,
        partitions: int | None = None,
        beside: Mapping[str, Collection[str]] | None = None,
    ) -> list[str]:
        """Those of them that were not there: which are made with these configs, by their names. One that is for the
        records of other topics (`beside`) takes the largest that those do.
        """
        with Admin(self.bootstrap, settings=dict(self.settings)) as admin:
            there = {topic.name for topic in admin.described(list(configs), missing_is_fine=True)}
            missing = [name for name in configs if name not in there]
            room = _room(admin, {name: (beside or {}).get(name, ()) for name in missing})
            return [name for name in missing if _make(admin, name, partitions, configs[name], room[name])]


def _room(admin: Admin, beside: Mapping[str, Collection[str]]) -> dict[str, dict[str, str]]:
    """What lets topics take the records of others; nothing, where that is not told."""
    others = {other for each in beside.values() for other in each}
    try:
        found = {name: {each.name: each.value for each in told} for name, told in admin.configs(sorted(others)).items()}
    except RunnelError:  # such as one that may not be asked for
        return {name: {} for name in beside}
    limits = {name: int(told.get(LARGEST) or 0) for name, told in found.items()}
    most = {name: max((limits[other] for other in each), default=0) for name, each in beside.items()}
    return {name: {LARGEST: str(min(limit + ROOM, UNLIMITED))} if limit else {} for name, limit in most.items()}


def _make(admin: Admin, name: str, partitions: int | None, configs: Mapping[str, str], room: Mapping[str, str]) -> bool:
    with durable("topic.make"):
        try:
            _create(admin, name, partitions, configs, room)
        except TopicExists:  # another one was quicker
            return False
    return True


def _create(
    admin: Admin, name: str, partitions: int | None, configs: Mapping[str, str], room: Mapping[str, str]
) -> None:
    try:
        admin.create(name, partitions=partitions, configs={**configs, **room})
    except (InvalidConfig, Refused):
        if not room:
            raise
        admin.create(name, partitions=partitions, configs=configs)  # who runs the Kafka allows no such limit
