"""Changing configurations: checked, durable, and then in force at once.

A change is decided on the cluster state, so two of them at the same time do not lose each other's. A broker's loggers
are not part of it: their levels are the process's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runnel.broker.cluster import ClusterState, ConfigResource, TopicFacts, configs_entry, topic_entry
from runnel.broker.configs.catalogue import BROKER, CLIENT_METRICS, GROUP, find
from runnel.broker.configs.groups import check_group_configs
from runnel.broker.configs.live import Stored, changed_settings, live_settings
from runnel.broker.configs.loggers import check_logger, set_level
from runnel.broker.configs.resources import Kind, broker_name, kind_of
from runnel.broker.configs.topics import check_topic_configs
from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.errors import InvalidSetting, RunnelError
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision

if TYPE_CHECKING:
    from runnel.broker.node import Node

Configs = dict[str, str]
Change = Callable[[Mapping[str, str]], Configs]  # from all that is set to all that is set then


async def result(resource: dict[str, Any], altering: Awaitable[None]) -> dict[str, Any]:
    """The answer for one resource, whether it can be altered or not."""
    code, message = ErrorCode.NONE, None
    try:
        await altering
    except Refusal as refusal:
        code, message = refusal.code, text_of(refusal)
    except RunnelError as error:
        code, message = code_of(error), str(error)
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource["resource_type"],
        "resource_name": resource["resource_name"],
    }


def refuse_repeated(resource: dict[str, Any], times: Counter[tuple[int, str]]) -> None:
    if times[resource["resource_type"], resource["resource_name"]] > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the resource stands there more than once")
    names = Counter(config["name"] for config in resource["configs"])
    for name, count in names.items():
        if count > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} stands there more than once")


async def alter(node: Node, resource_type: int, name: str, change: Change, *, validate_only: bool) -> None:
    """Refusal or InvalidSetting if it cannot be."""
    kind = kind_of(resource_type)
    if kind is Kind.TOPIC:
        await _alter_topic(node, name, change, validate_only=validate_only)
    elif kind is Kind.BROKER:
        await _alter_broker(node, broker_name(node, name, also_all=True), change, validate_only=validate_only)
    elif kind is Kind.BROKER_LOGGER:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the levels of loggers are changed one by one: not all are replaced")
    else:
        await _alter_other(node, kind, name, change, validate_only=validate_only)


async def _alter_topic(node: Node, name: str, change: Change, *, validate_only: bool) -> None:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a topic has to be named: there are no configurations for all topics")
    known = node.topics.find(name)
    if known is not None and known.is_internal:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"topic {name!r} is the broker's own: what is set for it is fixed")

    def decide(state: ClusterState) -> Decision[TopicFacts]:
        topic = state.topics.get(name)
        if topic is None or topic.deleting:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        changed = replace(topic, configs=change(topic.configs))
        check_topic_configs(changed.configs)
        if validate_only or changed == topic:
            return Decision(topic)
        return Decision(changed, [topic_entry(node.clock, changed)])

    node.topics.configure(await node.decide(decide))


async def _alter_broker(node: Node, resource: ConfigResource, change: Change, *, validate_only: bool) -> None:
    def decide(state: ClusterState) -> Decision[Stored]:
        before = state.configs.get(resource, {})
        after = change(before)
        stored = {**state.configs, resource: after}
        with _as_requests_fault():
            _check_broker(resource, before, after)
            changed_settings(node.static_configs, stored)
        return Decision(
            stored, [] if validate_only or before == after else [configs_entry(node.clock, resource, after)]
        )

    stored = await node.decide(decide)
    if not validate_only:
        node.settings = live_settings(node.static_configs, stored)
        node.log.follow(node.settings.log)
        node.topics.reconfigure()


def _check_broker(resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    for name in {**before, **after}:
        if before.get(name) == after.get(name):
            continue
        config = find(BROKER, name, after.get(name))
        if not config.is_dynamic:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"{name} cannot be changed at run time: give it when the broker is started",
            )
        if not resource.name and config.mode == "per-broker":
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} cannot be set for all brokers: name one")
        if name in after:
            config.check(after[name])


@contextmanager
def _as_requests_fault() -> Iterator[None]:
    """What is wrong with a broker's configuration is INVALID_REQUEST in Kafka, and INVALID_CONFIG with a topic's."""
    try:
        yield
    except InvalidSetting as error:
        raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from error


def alter_loggers(node: Node, name: str, levels: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Set the levels of this broker's loggers; None takes on that of the logger above."""
    broker_name(node, name, also_all=False)
    for logger, level in levels.items():
        check_logger(logger, level)
    if not validate_only:
        for logger, level in levels.items():
            set_level(logger, level)


async def _alter_other(node: Node, kind: Kind, name: str, change: Change, *, validate_only: bool) -> None:
    catalogue, what = (GROUP, "group") if kind is Kind.GROUP else (CLIENT_METRICS, "subscription")
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"a {what} has to be named")
    resource = ConfigResource(catalogue, name)

    def decide(state: ClusterState) -> Decision[dict[str, str]]:
        before = state.configs.get(resource, {})
        after = change(before)
        for key, value in after.items():
            find(catalogue, key, value).check(value)
        if kind is Kind.GROUP:
            check_group_configs(node.settings, after)
        entries = [] if validate_only or before == after else [configs_entry(node.clock, resource, after)]
        return Decision(after, entries)

    after = await node.decide(decide)
    if kind is Kind.GROUP and not validate_only:
        node.group_configs.put(name, after)
