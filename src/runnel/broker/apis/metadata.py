"""Metadata (3), versions 0 to 13: the broker, its topics and their partitions.

- No list means all topics; in version 0 an empty list does. Hidden topics are not listed.
- A topic that does not exist is made if the request and `auto.create.topics.enable` allow it, and answered at once. By
  one request at most 10,000 partitions are made: topics beyond that are unknown, until they are asked for again.
- From version 10 on a topic has its id, and from 12 on it can be asked for by it; before, that is INVALID_REQUEST.
- The address is the one that is advertised for the listener the client came in by.
- What a client may do is told if it asks (versions 8 to 13), and is everything: there is no access control yet.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from runnel.broker import operations
from runnel.broker.mistakes import code_of
from runnel.broker.node import Node
from runnel.broker.request import Answer, Body, Request
from runnel.broker.topic_names import mistake_in_name
from runnel.broker.topics import HIDDEN, INTERNAL, KAFKAS_OWN, MOST_PARTITIONS, Topic
from runnel.errors import RunnelError, TopicExists
from runnel.protocol.error_codes import ErrorCode

IDS_SINCE = 12


def handle(node: Node, request: Request) -> Answer:
    asked = request.body["topics"]
    if asked is None or (request.version == 0 and not asked):
        return _body(node, request, [_topic(node, request, topic) for topic in node.topics.all()])
    if all(_find(node, each) for each in asked):
        return _body(node, request, [_answer_for(node, request, each) for each in asked])
    return _with_creation(node, request)


async def _with_creation(node: Node, request: Request) -> Body:
    topics = []
    left = MOST_PARTITIONS
    for asked in request.body["topics"]:
        if asked["topic_id"] is None and _find(node, asked) is None:
            answer = await _created_or_unknown(node, request, asked["name"] or "", left)
            left -= len(answer["partitions"])
            topics.append(answer)
        else:
            topics.append(_answer_for(node, request, asked))
    return _body(node, request, topics)


def _find(node: Node, asked: dict[str, Any]) -> Topic | None:
    if asked["topic_id"] is not None:
        return node.topics.find_id(asked["topic_id"])
    return node.topics.find(asked["name"] or "")


def _answer_for(node: Node, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    if asked["topic_id"] is not None and request.version < IDS_SINCE:
        return missing_topic(asked["name"] or "", ErrorCode.INVALID_REQUEST)
    topic = _find(node, asked)
    if topic is not None:
        return _topic(node, request, topic)
    code = ErrorCode.UNKNOWN_TOPIC_ID if asked["topic_id"] is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return missing_topic(asked["name"], code, asked["topic_id"])


async def _created_or_unknown(node: Node, request: Request, name: str, left: int) -> dict[str, Any]:
    # A name that is in use belongs to nobody's mistake: only a new one is looked at.
    if mistake_in_name(name, node.topics) is not None:
        return missing_topic(name, ErrorCode.INVALID_TOPIC)
    allowed = request.body["allow_auto_topic_creation"] and node.settings.auto_create_topics_enable
    if not allowed or name in INTERNAL | HIDDEN | {KAFKAS_OWN} or node.settings.num_partitions > left:
        return missing_topic(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        return _topic(node, request, await node.topics.create(name, node.settings.num_partitions, {}))
    except TopicExists:  # by somebody else, a moment ago
        found = node.topics.find(name)
        return _topic(node, request, found) if found else missing_topic(name, ErrorCode.LEADER_NOT_AVAILABLE)
    except RunnelError as error:
        return missing_topic(name, code_of(error))


def _topic(node: Node, request: Request, topic: Topic) -> dict[str, Any]:
    allowed = _if_asked(request, "include_topic_authorized_operations", operations.TOPIC)
    return described_topic(node, topic, range(topic.count), allowed)


def described_topic(node: Node, topic: Topic, numbers: range, allowed: int) -> dict[str, Any]:
    """The topic with these of its partitions, and the operations that the client may do."""
    replicas = (node.node_id,)
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "error_code": ErrorCode.NONE,
                "partition_index": number,
                "leader_id": node.node_id,
                "leader_epoch": topic.leader_epoch(number),
                "replica_nodes": replicas,
                "isr_nodes": replicas,
                "eligible_leader_replicas": (),
                "last_known_elr": (),
                "offline_replicas": (),
            }
            for number in numbers
        ],
        "topic_authorized_operations": allowed,
    }


def missing_topic(name: str | None, code: ErrorCode, topic_id: UUID | None = None) -> dict[str, Any]:
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": (), "is_internal": False}


def _body(node: Node, request: Request, topics: list[dict[str, Any]]) -> dict[str, Any]:
    host, port = node.endpoint(request.peer.listener)
    broker = {"node_id": node.node_id, "host": host, "port": port, "rack": node.settings.broker_rack}
    return {
        "throttle_time": 0,
        "brokers": [broker],
        "cluster_id": node.cluster_id,
        "controller_id": node.node_id,
        "topics": topics,
        "cluster_authorized_operations": _if_asked(
            request, "include_cluster_authorized_operations", operations.CLUSTER
        ),
        "error_code": ErrorCode.NONE,
    }


def _if_asked(request: Request, question: str, answer: int) -> int:
    return answer if request.body[question] else operations.NOT_ASKED
