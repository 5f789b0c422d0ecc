"""Consumer groups: who reads what, and how far they are.

    groups = open_groups(log, settings=..., clock=..., timers=loop, chance=...)
    groups.start()

Durable are the committed offsets and each stable group's members and assignments (`state`, `records`); volatile are
time-outs and who waits for an answer (`group`, `members`). After a restart a stable group is as it was, and its
members' sessions begin anew.
"""

from runnel.broker.groups.alarm import Timers
from runnel.broker.groups.groups import DescribedGroup, DescribedMember, Groups, open_groups

__all__ = ["DescribedGroup", "DescribedMember", "Groups", "Timers", "open_groups"]
