"""DeleteTopics (20), versions 1 to 6: delete topics by name, or from version 6 on by name or id.

A topic's name is free when the answer comes. One that is named twice, or by neither or both, is INVALID_REQUEST and
stays. With `delete.topic.enable` off it is TOPIC_DELETION_DISABLED, before
version 3 INVALID_REQUEST. The broker's own topics cannot be deleted.

KAFKA_STORAGE_ERROR says that the topic is gone, but the disk is ill and its name is not free. Whoever deletes it by
name once more, or makes a topic of this name, tries again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from runnel.broker.mistakes import code_of, text_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

NAMES_OR_IDS_SINCE = 6
DISABLED_SINCE = 3


async def handle(node: Node, request: Request) -> Body:
    if request.version >= NAMES_OR_IDS_SINCE:
        asked = request.body["topics"]
    else:
        asked = [{"name": name, "topic_id": None} for name in request.body["topic_names"]]
    meant = Counter(_meant(node, each) for each in asked)
    responses = [await _delete(node, request, each, repeated=meant[_meant(node, each)] > 1) for each in asked]
    return {"throttle_time": 0, "responses": responses}


def _meant(node: Node, asked: dict[str, Any]) -> Any:
    """The topic, by whatever it was named."""
    topic = node.topics.find_id(asked["topic_id"]) or node.topics.find(asked["name"] or "")
    return topic or asked["topic_id"] or asked["name"]


async def _delete(node: Node, request: Request, asked: dict[str, Any], *, repeated: bool) -> dict[str, Any]:
    by_id = asked["topic_id"] is not None
    topic = node.topics.find_id(asked["topic_id"]) if by_id else node.topics.find(asked["name"] or "")
    name = topic.name if topic is not None else asked["name"]
    code, message = ErrorCode.NONE, None
    if repeated or by_id == (asked["name"] is not None):
        code, message = ErrorCode.INVALID_REQUEST, "name each topic once, by its name or by its id"
    elif not node.settings.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if request.version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        message = "delete.topic.enable is false"
    elif topic is None and (by_id or not node.topics.is_unfinished(name)):
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        message = f"there is no topic {asked['topic_id'] if by_id else asked['name']}"
    elif topic is not None and topic.is_internal:
        code, message = ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is the broker's own"
    else:
        try:
            await node.topics.delete(name)
        except RunnelError as error:
            code, message = code_of(error), text_of(error)
    topic_id = topic.id if topic is not None else asked["topic_id"]
    return {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message}
