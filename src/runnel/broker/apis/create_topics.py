"""CreateTopics (19), versions 2 to 7.

- Each topic is answered on its own. One that is named twice is INVALID_REQUEST both times, and so is the name that
  Kafka keeps for itself.
- The number of partitions and the replication factor may be left to the broker with -1 (version 4 on), or given by an
  assignment, which can name this broker only. Another replication factor than 1 is INVALID_REPLICATION_FACTOR, unless
  `runnel.replication.factor.lenient` is set.
- A configuration with an unknown name or a bad value is INVALID_CONFIG, and the message says what is expected.
- At most 10,000 partitions can be made by one request, as in Kafka.
- It is answered when the topics are durable; the time-out of the request is not looked at. With `validate_only` nothing
  is made. KAFKA_STORAGE_ERROR: the disk is ill; the topic may be there, and has its files when the disk is well.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from runnel.broker.configs.topics import check_topic_configs, described_topic_configs
from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.topic_names import mistake_in_name
from runnel.broker.topics import KAFKAS_OWN, MOST_PARTITIONS
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

LEFT_TO_THE_BROKER = -1


class Order(NamedTuple):
    name: str
    partitions: int
    configs: dict[str, str]


async def handle(node: Node, request: Request) -> Body:
    asked = request.body["topics"]
    names = Counter(each["name"] for each in asked)
    results: list[dict[str, Any]] = []
    made = 0
    for each in asked:
        try:
            if names[each["name"]] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"topic {each['name']!r} stands there more than once")
            order = _order(node, each)
            made += order.partitions
            if made > MOST_PARTITIONS:
                raise Refusal(
                    ErrorCode.POLICY_VIOLATION,
                    f"at most {MOST_PARTITIONS:,} partitions can be made by one request",
                )
            results.append(await _made(node, order, only_check=request.body["validate_only"]))
        except (Refusal, RunnelError) as error:
            results.append(_refused(each["name"], code_of(error), text_of(error)))
    return {"throttle_time": 0, "topics": results}


def _order(node: Node, asked: dict[str, Any]) -> Order:
    name = asked["name"]
    if node.topics.find(name) is not None:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    mistake = mistake_in_name(name, node.topics)
    if mistake is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC, mistake)
    if name == KAFKAS_OWN:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"the name {name!r} is Apache Kafka's own")
    partitions = _assigned(node, asked) if asked["assignments"] else _counted(node, asked)
    configs = {}
    for config in asked["configs"]:
        if config["value"] is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"configuration {config['name']} has no value")
        configs[config["name"]] = config["value"]
    check_topic_configs(configs)
    return Order(name, partitions, configs)


def _counted(node: Node, asked: dict[str, Any]) -> int:
    count, factor = asked["num_partitions"], asked["replication_factor"]
    if count == LEFT_TO_THE_BROKER:
        count = node.settings.num_partitions
    if count < 1:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"a topic has at least 1 partition, and {count} are asked for")
    if factor not in (LEFT_TO_THE_BROKER, 1) and not (factor > 1 and node.settings.runnel_replication_factor_lenient):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} cannot be reached: there is 1 broker. Ask for 1 or -1, or set "
            "runnel.replication.factor.lenient=true on the broker",
        )
    return int(count)


def _assigned(node: Node, asked: dict[str, Any]) -> int:
    if asked["num_partitions"] != LEFT_TO_THE_BROKER or asked["replication_factor"] != LEFT_TO_THE_BROKER:
        raise Refusal(ErrorCode.INVALID_REQUEST, "with an assignment, both numbers are to be -1")
    given = {each["partition_index"]: each["broker_ids"] for each in asked["assignments"]}
    if sorted(given) != list(range(len(asked["assignments"]))):
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions are not numbered from 0 on, each once")
    check_replicas(node, given.values())
    return len(given)


def check_replicas(node: Node, assignments: Any) -> None:
    for brokers in assignments:
        if list(brokers) != [node.node_id]:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"the replicas {list(brokers)} are asked for, and the only broker is {node.node_id}",
            )


async def _made(node: Node, order: Order, *, only_check: bool) -> dict[str, Any]:
    topic_id = None
    if not only_check:
        topic_id = (await node.topics.create(order.name, order.partitions, order.configs)).id
    return {
        "name": order.name,
        "topic_id": topic_id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "num_partitions": order.partitions,
        "replication_factor": 1,
        "configs": described_topic_configs(node, order.configs),
    }


def _refused(name: str, code: ErrorCode, message: str) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": None,
        "error_code": code,
        "error_message": message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": (),
    }
