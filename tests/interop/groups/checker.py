"""Finds in a history what a group must never do.

`check(history)` gives a list of violations, one readable line each; an empty list is a good history. Every check is a
pure function of the history and can be called by itself.

Members are taken to be good ones: they commit what they processed and have not let go, one commit after the other, and
what they let go they have said so before. What the broker cannot know is not asked of it: a member that is stopped may
believe for long that it has partitions; it must only never be believed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from math import inf
from typing import NamedTuple

from tests.interop.groups.history import (
    Beat,
    ClassicBeat,
    Commit,
    Described,
    End,
    Grant,
    History,
    Join,
    Processed,
    Produced,
    Restarted,
    Statement,
    Sync,
    grants,
    statements,
)

CLASSIC = "classic"
STABLE = "Stable"


class Violation(NamedTuple):
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check(history: History) -> list[Violation]:
    return [violation for find in CHECKS for violation in find(history)]


# --- records


def lost_records(history: History) -> Iterator[Violation]:
    """Every record is processed."""
    processed = {(each.partition, each.offset) for each in history.of(Processed)}
    for record in history.of(Produced):
        if record not in processed:
            yield Violation("lost record", f"nobody processed {record.partition}@{record.offset}")


def early_commits(history: History) -> Iterator[Violation]:
    """What is committed was processed before."""
    first: dict[Produced, float] = {}
    for each in history.of(Processed):
        place = Produced(each.partition, each.offset)
        first[place] = min(each.at, first.get(place, each.at))
    written = defaultdict(list)
    for record in sorted(history.of(Produced)):
        written[record.partition].append(record)
    latest = {  # for each record, when the last of those up to it was processed first
        partition: list(accumulate((first.get(record, inf) for record in records), max))
        for partition, records in written.items()
    }
    for commit in history.accepted():
        covered = bisect_left(written[commit.partition], Produced(commit.partition, commit.offset))
        if covered and latest[commit.partition][covered - 1] >= commit.asked:
            yield Violation("early commit", f"{_told(commit)} passed over records that nobody had processed")


def offsets_that_go_back(history: History) -> Iterator[Violation]:
    """Whoever takes over begins where the last one stopped, and that one is refused from then on."""
    highest: dict[int, Commit] = {}
    accepted = history.accepted()
    by_end = sorted(accepted, key=lambda commit: commit.ended or 0)
    position = 0
    for commit in accepted:
        while (by_end[position].ended or 0) < commit.asked:
            done = by_end[position]
            if done.partition not in highest or highest[done.partition].offset < done.offset:
                highest[done.partition] = done
            position += 1
        before = highest.get(commit.partition)
        if before is not None and commit.offset < before.offset:
            yield Violation("offset went back", f"{_told(commit)} came after {_told(before)}")


# --- owners


def commits_of_others(history: History) -> Iterator[Violation]:
    """Who commits was given the partition, at that epoch or before, and nobody else was since."""
    given = defaultdict(list)
    for grant in grants(history):
        given[grant.partition].append(grant)
    for commit in history.accepted():
        known = given[commit.partition]
        own = [each for each in known if each.member == commit.member and each.epoch <= commit.epoch]
        if not any(_may_commit(grant, commit, known) for grant in own):
            last = max((each for each in known if each.ended < commit.asked), default=None, key=lambda each: each.ended)
            owner = "nobody had it" if last is None else f"{last.member} had it in epoch {last.epoch}"
            yield Violation("commit of another", f"{_told(commit)} was taken, though {owner}")


def _may_commit(own: Grant, commit: Commit, known: list[Grant]) -> bool:
    if commit.ended is None or own.begun > commit.ended:
        return False
    return not any(
        own.ended < each.begun and each.ended < commit.asked for each in known if each.member != commit.member
    )


def double_owners(history: History) -> Iterator[Violation]:
    """A partition is given on only after it was let go, or when its owner is no member any more."""
    said: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements(history):
        said[statement.member].append(statement)
    alive = _signs_of_life(history)
    given: dict[int, list[Grant]] = defaultdict(list)
    for grant in grants(history):
        given[grant.partition].append(grant)
    for partition, known in sorted(given.items()):
        for earlier in known:
            for later in known:
                if earlier.member == later.member or earlier.ended >= later.begun:
                    continue
                let_go = _let_go(earlier, said[earlier.member])
                signs = [at for at in alive[earlier.member] if later.ended < at and (let_go is None or at < let_go)]
                if signs and (let_go is None or let_go > later.ended):
                    yield Violation(
                        "two owners",
                        f"{later.member} was given {partition} in epoch {later.epoch}, though {earlier.member}, "
                        f"who has it since epoch {earlier.epoch}, was a member and had not let it go",
                    )


def _let_go(grant: Grant, said: list[Statement]) -> int | None:
    return min(
        (each.asked for each in said if each.asked > grant.ended and grant.partition not in each.owned), default=None
    )


def _signs_of_life(history: History) -> dict[str, list[int]]:
    """When a member asked for what only members get, without having to join."""
    found: dict[str, list[int]] = defaultdict(list)
    for beat in history.of(Beat):
        if beat.ended is not None and beat.epoch > 0:
            found[beat.member].append(beat.asked)
    for classic in history.of(ClassicBeat):
        if classic.ended is not None:
            found[classic.member].append(classic.asked)
    return found


def described_twice(history: History) -> Iterator[Violation]:
    """No description shows a partition at two members. In a classic group only a stable one says who has what."""
    for described in [*history.of(Described), *(end.described for end in history.of(End))]:
        if described.kind == CLASSIC and described.state != STABLE:
            continue
        seen: dict[int, str] = {}
        for member, assigned in described.members.items():
            for partition in sorted(assigned.partitions):
                if partition in seen:
                    yield Violation("described twice", f"{partition} is shown at {seen[partition]} and at {member}")
                seen[partition] = member


# --- the fenced


def commits_of_the_departed(history: History) -> Iterator[Violation]:
    """Whoever is no member any more commits nothing, until it has joined again."""
    joins: dict[str, list[Beat | Join]] = defaultdict(list)
    for each in [*(beat for beat in history.of(Beat) if beat.epoch == 0), *history.of(Join)]:
        joins[each.member].append(each)
    descriptions = history.of(Described)
    for commit in history.accepted():
        joined = [each.answered for each in joins[commit.member] if each.asked < (commit.ended or 0)]
        for described in descriptions:
            after_all = all(answered is not None and answered < described.asked for answered in joined)
            if described.answered < commit.asked and commit.member not in described.members and joined and after_all:
                yield Violation("commit of the departed", f"{_told(commit)} was taken, though it was no member")
                break


def commits_of_old_generations(history: History) -> Iterator[Violation]:
    """In a group that is classic all along, one generation is the present one.

    It is durable when members have their assignments: if the broker is killed before, it begins with the former one.
    """
    if history.of(Beat) or any(described.kind != CLASSIC for described in history.of(Described)):
        return
    durable = [(each.ended, each.generation) for each in history.of(Sync) if each.ended is not None]
    begun = [(each.ended, each.generation) for each in history.of(Join) if each.ended is not None]
    restarts = history.of(Restarted)
    for commit in history.accepted():
        last = max((each.ended for each in restarts if each.begun < (commit.ended or 0)), default=0)
        known = [*durable, *((at, generation) for at, generation in begun if at > last)]
        newest = max((generation for at, generation in known if at < commit.asked), default=commit.epoch)
        if commit.epoch < newest:
            yield Violation("commit of an old generation", f"{_told(commit)} was taken in generation {newest}")


# --- the end


def unsettled_end(history: History) -> Iterator[Violation]:
    """All who live are members, each partition has one of them, and everything is committed."""
    ends = history.of(End)
    if not ends:
        yield Violation("no end", "the history has none")
    for end in ends:
        shown = end.described
        clients = sorted(assigned.client for assigned in shown.members.values())
        if shown.state != STABLE:
            yield Violation("not settled", f"the group is {shown.state}")
        if clients != sorted(end.alive):
            yield Violation("not settled", f"members are {clients}, alive are {sorted(end.alive)}")
        has_owner = {partition for assigned in shown.members.values() for partition in assigned.partitions}
        if has_owner != end.ends.keys():
            yield Violation("not settled", f"of {sorted(end.ends)} only {sorted(has_owner)} have an owner")
        for partition, following in sorted(end.ends.items()):
            if end.committed.get(partition, 0) != following:
                told = f"{partition} is committed up to {end.committed.get(partition)} and ends at {following}"
                yield Violation("not settled", told)


CHECKS = (
    lost_records,
    early_commits,
    offsets_that_go_back,
    commits_of_others,
    double_owners,
    described_twice,
    commits_of_the_departed,
    commits_of_old_generations,
    unsettled_end,
)


def _told(commit: Commit) -> str:
    return f"the commit of {commit.partition}@{commit.offset} by {commit.member} with epoch {commit.epoch}"
