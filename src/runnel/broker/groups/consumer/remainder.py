"""The classic group that remains of a consumer group when nobody speaks the consumer protocol any more."""

from __future__ import annotations

from typing import NamedTuple

from runnel.broker.groups.members import Members
from runnel.broker.groups.records import StoredGroup


class Remainder(NamedTuple):
    generation: int
    protocol_name: str
    members: Members
    stored: StoredGroup
