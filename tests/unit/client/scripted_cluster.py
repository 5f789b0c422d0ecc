"""Answers of a cluster of one scripted broker, for tests of what the client makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from runnel.client.cluster import Cluster
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.client.scripted_broker import Answer, ScriptedBroker, scripted_broker

TOPIC_ID = UUID(int=7)
PLACE = ("orders", 0)


@contextmanager
def scripted_cluster(
    answers: Mapping[int, Sequence[Answer]], *, timeout: float = 60.0, partitions: int = 1
) -> Iterator[tuple[Cluster, ScriptedBroker]]:
    """A cluster whose broker leads the topic "orders", unless its Metadata are told otherwise."""
    with scripted_broker({Api.METADATA: [b""], **answers}) as broker:
        if Api.METADATA not in answers:
            broker.answers[Api.METADATA] = [metadata(broker, partitions=partitions)]
        host, port = broker.address
        with Cluster(f"{host}:{port}", timeout=timeout) as cluster:
            yield cluster, broker


def give_up_soon(cluster: Cluster, broker: ScriptedBroker) -> None:
    """What does not pass is told at once; an answer may take its time, as on a busy machine."""
    with cluster.wire(broker.address):  # kept, with its own time-out
        cluster.timeout = 0.1


def metadata(
    broker: ScriptedBroker,
    *,
    partitions: int = 1,
    leader: int = 1,
    topic_id: UUID = TOPIC_ID,
    code: int = ErrorCode.NONE,
) -> dict[str, Any]:
    host, port = broker.address
    led = [
        {
            "error_code": 0, "partition_index": number, "leader_id": leader, "leader_epoch": 3, "replica_nodes": [1],
            "isr_nodes": [1], "offline_replicas": [],
        }
        for number in range(partitions)
    ]  # fmt: skip
    topic = {"error_code": code, "name": "orders", "topic_id": topic_id, "is_internal": False, "partitions": led}
    node = {"node_id": 1, "host": host, "port": port, "rack": None}
    return {
        "throttle_time": 0,
        "brokers": [node],
        "cluster_id": "x",
        "controller_id": 1,
        "topics": [topic],
        "error_code": 0,
    }


def listed(*offsets: int, code: int = ErrorCode.NONE, throttle: int = 0) -> dict[str, Any]:
    told = [
        {"partition_index": number, "error_code": code, "timestamp": -1, "offset": offset, "leader_epoch": 3}
        for number, offset in enumerate(offsets)
    ]
    return {"throttle_time": throttle, "topics": [{"name": "orders", "partitions": told}]}


def fetched(records: bytes = b"", *, code: int = ErrorCode.NONE, stable: int = 100) -> dict[str, Any]:
    told = {
        "partition_index": 0, "error_code": code, "high_watermark": stable, "last_stable_offset": stable,
        "log_start_offset": 0, "aborted_transactions": [], "preferred_read_replica": -1, "records": records,
    }  # fmt: skip
    topic = {"topic_id": TOPIC_ID, "topic": "orders", "partitions": [told]}
    return {"throttle_time": 0, "error_code": 0, "session_id": 0, "responses": [topic]}


def throttled() -> dict[str, Any]:
    """How Kafka answers a Fetch of a client over its quota."""
    return {"throttle_time": 1, "error_code": 0, "session_id": 0, "responses": []}


def produced(*codes: int, message: str | None = None) -> dict[str, Any]:
    told = [
        {
            "index": number, "error_code": code, "base_offset": 0, "log_append_time": -1, "log_start_offset": 0,
            "record_errors": [], "error_message": message,
        }
        for number, code in enumerate(codes)
    ]  # fmt: skip
    topic = {"topic_id": TOPIC_ID, "name": "orders", "partition_responses": told}
    return {"responses": [topic], "throttle_time": 0}


def asked(broker: ScriptedBroker, api: Api) -> list[dict[str, Any]]:
    return [body for key, _, body in broker.asked if key == api]
