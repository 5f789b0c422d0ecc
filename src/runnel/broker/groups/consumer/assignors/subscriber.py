"""A member as an assignor sees it."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from runnel.broker.groups.consumer.partitions import NOWHERE, Partitions


class Subscriber(NamedTuple):
    topics: frozenset[UUID]  # those of its topics that exist
    before: Partitions = NOWHERE  # what was meant for it so far
    instance_id: str | None = None
    rack_id: str | None = None  # all partitions are here: it makes no difference yet
