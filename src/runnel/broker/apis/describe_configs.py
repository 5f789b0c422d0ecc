"""DescribeConfigs (32), versions 1 to 4: the configurations of topics, brokers, loggers, groups and client metrics.

- Each value comes with its source, whether it can be changed, its type (version 3 on), and on request its synonyms and
  a line of documentation. No list of names, or an empty one, asks for all; names that do not exist are left out.
- What the broker ignores is shown with the rest, and its documentation says so. A password's value is never shown.
- A broker is named by its id; an empty name shows what was changed for all brokers. Loggers are Python's, those below
  `runnel`; their levels have Kafka's names. A group need not exist.
- The broker's own topics are shown with what is in force for them, which nobody can change.
- A topic that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and one that cannot exist INVALID_TOPIC; another broker's
  id and other types are INVALID_REQUEST. Each resource is answered on its own. KAFKA_STORAGE_ERROR: the disk is ill,
  and what is set for a group is not known now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runnel.broker.cluster import ConfigResource
from runnel.broker.configs.describing import Described, Source, view_of
from runnel.broker.configs.loggers import loggers
from runnel.broker.configs.resources import Kind, broker_name, kind_of
from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.topic_names import LEGAL
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision


async def handle(node: Node, request: Request) -> Body:
    results = [await _result(node, request, resource) for resource in request.body["resources"]]
    return {"throttle_time": 0, "results": results}


async def _result(node: Node, request: Request, resource: dict[str, Any]) -> dict[str, Any]:
    wanted = set(resource["configuration_keys"] or ())
    code, message, configs = ErrorCode.NONE, "", []
    try:
        found = await _fields(node, request, kind_of(resource["resource_type"]), resource["resource_name"])
        configs = [config for config in found if not wanted or config["name"] in wanted]
    except (Refusal, RunnelError) as error:
        code, message = code_of(error), text_of(error)
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource["resource_type"],
        "resource_name": resource["resource_name"],
        "configs": configs,
    }


async def _fields(node: Node, request: Request, kind: Kind, name: str) -> list[dict[str, Any]]:
    if kind is Kind.BROKER_LOGGER:
        broker_name(node, name, also_all=False)
        return [_logger(logger, level) for logger, level in loggers()]
    return [_described(request, described) for described in await _configs(node, kind, name)]


async def _configs(node: Node, kind: Kind, name: str) -> Iterable[Described]:
    view = view_of(node)
    if kind is Kind.TOPIC:
        topic = node.topics.find(name)
        if topic is None:
            possible = LEGAL.fullmatch(name) is not None
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if possible else ErrorCode.INVALID_TOPIC
            raise Refusal(code, f"there is no topic {name!r}")
        if topic.is_internal:
            return view.own_topic(topic.partition(0).settings)
        return view.topic(topic.configs)
    if kind is Kind.BROKER:
        return view.broker() if broker_name(node, name, also_all=True).name else view.all_brokers()
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a name is missing")
    if kind is Kind.CLIENT_METRICS:
        return view.client_metrics()
    own = await node.decide(lambda state: Decision(state.configs.get(ConfigResource("group", name), {})))
    return view.group(own)


def _described(request: Request, described: Described) -> dict[str, Any]:
    fields = described.as_fields()
    if request.body["include_synonyms"]:
        fields["synonyms"] = [synonym._asdict() for synonym in described.synonyms]
    if request.body["include_documentation"]:
        fields["documentation"] = described.documentation
    return fields


def _logger(name: str, level: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": level,
        "read_only": False,
        "config_source": Source.BROKER_LOGGER,
        "is_sensitive": False,
        "synonyms": (),
        "config_type": 0,
        "documentation": None,
    }
