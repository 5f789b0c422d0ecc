"""ListConfigResources (74), versions 0 to 1: what has configurations.

- Version 0 lists subscriptions to clients' own metrics only: there are none.
- Version 1 lists the types that are asked for, or all: topics, this broker, its loggers, and the groups that have
  configurations of their own. A type that does not exist is UNSUPPORTED_VERSION, as in Kafka.
- Topics are all that clients see, internal ones too.
- KAFKA_STORAGE_ERROR: the disk is ill, and which groups have some is not known now.
"""

from __future__ import annotations

from collections.abc import Awaitable

from runnel.broker.cluster import ClusterState
from runnel.broker.configs.catalogue import GROUP
from runnel.broker.configs.resources import Kind
from runnel.broker.mistakes import code_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision

FIRST_WITH_TYPES = 1


async def handle(node: Node, request: Request) -> Body:
    if request.version < FIRST_WITH_TYPES:
        return _answer([])
    wanted = request.body["resource_types"] or list(Kind)
    if any(kind not in iter(Kind) for kind in wanted):
        return _answer([], ErrorCode.UNSUPPORTED_VERSION)
    try:
        groups = await _groups(node) if Kind.GROUP in wanted else []
    except RunnelError as error:
        return _answer([], code_of(error))
    mine = str(node.settings.node_id)
    names = {
        Kind.GROUP: groups,
        Kind.CLIENT_METRICS: [],
        Kind.BROKER_LOGGER: [mine],
        Kind.BROKER: [mine],
        Kind.TOPIC: [topic.name for topic in node.topics.all()],
    }
    return _answer([(name, kind) for kind, named in names.items() if kind in wanted for name in named])


def _groups(node: Node) -> Awaitable[list[str]]:
    def decide(state: ClusterState) -> Decision[list[str]]:
        return Decision(sorted(resource.name for resource in state.configs if resource.kind == GROUP))

    return node.decide(decide)


def _answer(resources: list[tuple[str, Kind]], code: ErrorCode = ErrorCode.NONE) -> Body:
    return {
        "throttle_time": 0,
        "error_code": code,
        "config_resources": [{"resource_name": name, "resource_type": kind} for name, kind in resources],
    }
