"""Whose configurations there are, and where a node keeps them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from runnel.broker.cluster import ConfigResource
from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from runnel.broker.node import Node


class Kind(IntEnum):
    """As on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def broker_name(node: Node, name: str, *, also_all: bool) -> ConfigResource:
    """The resource of the broker with this id, or of all brokers; Refusal if it is another one."""
    mine = str(node.settings.node_id)
    if name == mine or (name == "" and also_all):
        return ConfigResource("broker", name)
    alternative = " or nothing, for all brokers" if also_all else ""
    raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no broker {name!r} here: expected {mine}{alternative}")


def kind_of(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"resource type {number} has no configuration") from None
