"""What the broker knows beside the records: topics, configurations, quotas, producer ids. It lives in a log.

Each entry is the newest state of one thing under its key, or a tombstone, so the log is compacted. It is the
partition `__runnel_metadata-0`, which clients do not see.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from runnel.clock import Clock
from runnel.log import Log
from runnel.log.journal import PartitionJournal
from runnel.replay import Decision, Entry, JournaledState

METADATA_TOPIC = "__runnel_metadata"


@dataclass(frozen=True, slots=True)
class TopicFacts:
    name: str
    id: UUID
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)  # what was set, under Kafka's names
    deleting: bool = False  # its files are on their way out


class ConfigResource(NamedTuple):
    """Whose configuration: kind is `broker`, `group` or `client-metrics`; the name is empty for all brokers."""

    kind: str
    name: str


QuotaEntity = tuple[tuple[str, str | None], ...]  # such as (("client-id", "a"),); None stands for the default


@dataclass(slots=True)
class ClusterState:
    cluster_id: str = ""
    topics: dict[str, TopicFacts] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    next_producer_id: int = 0  # every smaller one may have been given out


Cluster = JournaledState[ClusterState]


def open_cluster(log: Log) -> Cluster:
    cluster = JournaledState(PartitionJournal(log.partition(METADATA_TOPIC), keyed=True), ClusterState, replay)
    cluster.start()
    return cluster


# --- entries; a key is a kind and a name


def cluster_id_entry(clock: Clock, chance: random.Random) -> Entry:
    """A new cluster id, as Kafka's are: 22 characters."""
    fresh = base64.urlsafe_b64encode(chance.randbytes(16)).rstrip(b"=").decode()
    return _entry(clock, "cluster-id", "", fresh)


def topic_entry(clock: Clock, topic: TopicFacts) -> Entry:
    value = {"id": str(topic.id), "partitions": topic.partitions, "configs": topic.configs}
    return _entry(clock, "topic", topic.name, value | ({"deleting": True} if topic.deleting else {}))


def topic_gone_entry(clock: Clock, name: str) -> Entry:
    return _entry(clock, "topic", name, None)


def configs_entry(clock: Clock, resource: ConfigResource, configs: dict[str, str]) -> Entry:
    """All that is set for the resource now; nothing removes it."""
    return _entry(clock, f"config/{resource.kind}", resource.name, configs or None)


def quota_entry(clock: Clock, entity: QuotaEntity, quotas: dict[str, float]) -> Entry:
    return _entry(clock, "quota", json.dumps(entity), quotas or None)


def producer_ids_entry(clock: Clock, next_producer_id: int) -> Entry:
    return _entry(clock, "producer-ids", "", next_producer_id)


def _entry(clock: Clock, kind: str, name: str, value: Any) -> Entry:
    key = json.dumps([kind, name]).encode()
    return Entry(key, None if value is None else json.dumps(value).encode(), clock.now())


# --- replay


def replay(state: ClusterState, entry: Entry) -> None:
    kind, name = json.loads(entry.key or b"")
    value: Any = None if entry.value is None else json.loads(entry.value)
    match kind.split("/"):
        case ["cluster-id"]:
            state.cluster_id = value
        case ["topic"]:
            _put(state.topics, name, None if value is None else _topic(name, value))
        case ["config", resource_kind]:
            _put(state.configs, ConfigResource(resource_kind, name), value)
        case ["quota"]:
            _put(state.quotas, tuple((kind, name) for kind, name in json.loads(name)), value)
        case ["producer-ids"]:
            state.next_producer_id = value
        case _:
            raise ValueError(f"an entry of the unknown kind {kind!r}: it was written by a newer version of Runnel")


def _put(known: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _topic(name: str, value: dict[str, Any]) -> TopicFacts:
    return TopicFacts(name, UUID(value["id"]), value["partitions"], value["configs"], value.get("deleting", False))


# --- decisions that need no further knowledge


def reserve_producer_ids(clock: Clock, count: int) -> Callable[[ClusterState], Decision[range]]:
    """Ids that nobody else will get, also after a crash."""

    def decide(state: ClusterState) -> Decision[range]:
        first = state.next_producer_id
        return Decision(range(first, first + count), [producer_ids_entry(clock, first + count)])

    return decide
