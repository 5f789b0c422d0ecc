"""Who shall have which partitions: assignors, by the names that clients know them by.

    assign = ASSIGNORS["uniform"]
    targets = assign(members, partitions)

An assignor is a pure function. It is told what each member is subscribed to and what was meant for it before, and says
what it is to have. Each partition of a topic that somebody is subscribed to gets one owner, who is subscribed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from runnel.broker.groups.consumer.assignors.range import assign_ranges
from runnel.broker.groups.consumer.assignors.subscriber import Subscriber
from runnel.broker.groups.consumer.assignors.uniform import assign_uniformly
from runnel.broker.groups.consumer.partitions import Partitions

Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Partitions]]

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}

__all__ = ["ASSIGNORS", "Assignor", "Subscriber"]
