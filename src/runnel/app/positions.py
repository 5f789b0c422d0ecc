"""Where the queries of an app are in their topics: how far behind the end, and as offsets of consumer groups.

The groups are for others to look at (`runnel groups describe`, Kafka's own tools): a query goes on by its checkpoint
alone. So a position that cannot be committed is told, and hurts nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.errors import Busy, UnknownTopic
from runnel.client.group_position import GroupPosition
from runnel.client.metadata import Place
from runnel.errors import RunnelError, Transient
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.view_inputs.spec import ViewSpec

logger = logging.getLogger(__name__)

AGAIN_AFTER = 600.0  # seconds: Kafka forgets what a group without members has not committed for long


class Reading(Protocol):
    """As much of a query as is needed here."""

    name: str

    @property
    def streams(self) -> tuple[Spec | ViewSpec, ...]: ...

    def reached(self) -> dict[int, Offsets]: ...


Reached = Mapping[int, Offsets]


def lags(cluster: Cluster, reached: Mapping[str, tuple[Reading, Reached]]) -> dict[str, dict[str, int]]:
    """Records behind, by query and by the name of the input. One question for all topics."""
    topics = [_topics(query, ends) for query, ends in reached.values()]
    wanted = sorted({place for each in topics for place in each})
    try:
        latest = positions.latest(cluster, wanted)
    except UnknownTopic:  # one was deleted: of the others the lag is known all the same
        there = cluster.all_topics()
        latest = positions.latest(cluster, [place for place in wanted if place[0] in there])
    return {name: _lag(query, ends, latest) for name, (query, ends) in reached.items()}


def _lag(query: Reading, reached: Reached, latest: Mapping[Place, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    behind: int | None
    for spec in query.streams:
        if spec.number not in reached:
            continue
        at = reached[spec.number].next
        if isinstance(spec, ViewSpec):
            name, behind = spec.view, _changes_behind(spec, at[spec.place] - 1)
        else:
            name, behind = spec.topic, sum(max(0, latest.get(place, 0) - offset) for place, offset in at.items())
        if behind is not None:
            found[name] = max(behind, found.get(name, 0))  # an input that was given twice
    return found


def _changes_behind(spec: ViewSpec, position: int) -> int | None:
    """Of a view's change log; None where the store does not tell."""
    try:
        with spec.open() as reader:
            return max(0, reader.ahead(max(position, 0), about=1).latest - position)
    except RunnelError as error:
        logger.debug("how far %s is behind the view %s is not known: %s", spec.query, spec.view, error)
        return None


def _topics(query: Reading, reached: Reached) -> dict[Place, int]:
    """The next offset of each partition; the smallest, where two inputs read the same one."""
    found: dict[Place, int] = {}
    for spec in query.streams:
        if isinstance(spec, Spec) and spec.number in reached:
            for place, at in reached[spec.number].next.items():
                found[place] = min(at, found.get(place, at))
    return found


class GroupPositions:
    """Commits what has changed. Used by one thread at a time."""

    def __init__(self, cluster: Cluster, groups: Mapping[str, str]) -> None:
        """The groups by the names of the queries."""
        self._cluster = cluster
        self._gone: set[Place] = set()  # partitions of topics that were deleted: of a pattern's, or their query ends
        self._groups = {name: GroupPosition(cluster, group) for name, group in groups.items()}
        self._committed: dict[str, tuple[float, dict[Place, int]]] = {}
        self._refused: set[str] = set()

    def commit(self, reached: Iterable[tuple[Reading, Reached]], now: float) -> None:
        for query, ends in reached:
            found = _topics(query, ends)
            since, before = self._committed.get(query.name, (now, {}))
            if found and (found != before or now - since >= AGAIN_AFTER):
                self._commit(query.name, found, now)

    def _commit(self, query: str, found: dict[Place, int], now: float) -> None:
        group = self._groups[query]
        try:
            self._commit_to(group, found)
        except RunnelError as error:
            is_new = query not in self._refused and not isinstance(error, Transient)  # what passes, the query tells
            self._refused |= {query} if is_new else set()
            level = logging.WARNING if is_new else logging.DEBUG
            logger.log(level, "%s: the position of group %s could not be committed: %s", query, group.group, error)
            return
        self._committed[query] = now, found
        self._refused.discard(query)

    def _commit_to(self, group: GroupPosition, found: dict[Place, int]) -> None:
        """Without what is gone, which a broker would refuse, and tell its log, each time."""
        if not self._gone.isdisjoint(found):
            self._gone -= self._there()
        try:
            group.commit({place: at for place, at in found.items() if place not in self._gone})
        except UnknownTopic as error:  # the others are committed
            gone = found.keys() - self._there()
            if not gone:  # it is new, and its coordinator does not know of it yet
                raise Busy(f'committing the position of group "{group.group}"', error.what) from error
            self._gone |= gone

    def _there(self) -> set[Place]:
        return {place for topic in self._cluster.all_topics().values() for place in topic.places}
