"""The APIs that only Runnel's broker has, for what Kafka's protocol has no word for.

Their keys are far above Kafka's, so that a new one of Kafka's never meets them. A client finds them among the API
versions of the broker, and passes over what it does not know. Their schemas are written by hand, in `schemas/own`.

    CompactTopic   compact partitions at once, or tell how clean they are
"""

from __future__ import annotations

from enum import IntEnum

from runnel.protocol.versions import SERVED, Api, Versions


class OwnApi(IntEnum):
    COMPACT_TOPIC = 10_001


OWN: dict[int, Versions] = {OwnApi.COMPACT_TOPIC: Versions(0, 0)}
ANSWERED: dict[int, Versions] = SERVED | OWN  # all that our broker answers


def api_of(api_key: int) -> Api | OwnApi:
    """The API of a key, whosever it is; ValueError if there is none."""
    return OwnApi(api_key) if api_key in OWN else Api(api_key)
