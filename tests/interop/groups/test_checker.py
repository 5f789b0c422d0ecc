"""The checker finds what a bad group does, and nothing in a good one. Histories are made by hand; time is a number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.interop.groups.checker import check
from tests.interop.groups.history import (
    Assigned,
    Beat,
    ClassicBeat,
    Commit,
    Described,
    End,
    Event,
    History,
    Join,
    Leave,
    Processed,
    Produced,
    Restarted,
    Sync,
)

REFUSED = 113  # STALE_MEMBER_EPOCH, or any other
LAST = 1_000


def beat(at: int, member: str, epoch: int, **more: object) -> Beat:
    """Answered at the next moment, and the epoch stays."""
    facts = {"error": 0, "owned": None, "new_epoch": epoch, "given": None} | more
    for name in ("owned", "given"):
        facts[name] = None if facts[name] is None else frozenset(facts[name])
    return Beat(at, at + 1, member, epoch=epoch, **facts)


def commit(at: int, member: str, epoch: int, offset: int, partition: int = 0, error: int | None = 0) -> Commit:
    return Commit(at, at + 1, member, error, epoch, partition, offset)


def join(at: int, member: str, generation: int, *owned: int) -> Join:
    return Join(at, at + 1, member, 0, frozenset(owned), generation)


def sync(at: int, member: str, generation: int, *given: int) -> Sync:
    return Sync(at, at + 1, member, 0, generation, frozenset(given))


def described(at: int, kind: str = "consumer", state: str = "Stable", **members: set[int]) -> Described:
    shown = {name: Assigned(name, frozenset(partitions)) for name, partitions in members.items()}
    return Described(at, at + 1, kind, state, shown)


def end(committed: int = 0, **members: set[int]) -> End:
    shown = described(LAST, **members or {"ann": {0}})
    return End(frozenset(members or {"ann"}), shown, {0: committed}, {0: committed})


def records(count: int) -> list[Event]:
    """Written, and processed at the moments 1, 2, 3 and so on."""
    written = [Produced(0, offset) for offset in range(count)]
    return [*written, *(Processed(offset + 1, "ann", 0, offset) for offset in range(count))]


def kinds(*events: Event) -> list[str]:
    return [violation.kind for violation in check(History(events))]


HANDED_OVER = (
    beat(10, "ann", 0, new_epoch=1, given={0}),
    beat(12, "ann", 1, owned={0}),
    commit(14, "ann", 1, 2),
    beat(16, "bob", 0, new_epoch=2, given=()),
    beat(18, "ann", 1, given=()),
    commit(20, "ann", 1, 3),
    beat(22, "ann", 1, owned=(), new_epoch=2),
    beat(24, "bob", 2, owned=(), given={0}),
    commit(26, "ann", 1, 4, error=REFUSED),
    commit(28, "bob", 2, 4),
)
TWO_GENERATIONS = (
    join(10, "ann", 1),
    sync(12, "ann", 1, 0),
    commit(14, "ann", 1, 2),
    join(16, "ann", 2),
    join(16, "bob", 2),
    sync(18, "ann", 2),
    sync(18, "bob", 2, 0),
    commit(20, "ann", 1, 3, error=REFUSED),
    commit(22, "bob", 2, 4),
)


@pytest.mark.parametrize("story", [HANDED_OVER, TWO_GENERATIONS], ids=["consumer", "classic"])
def test_a_partition_that_is_handed_over_in_order_is_good(story: tuple[Event, ...]) -> None:
    assert kinds(*records(4), *story, end(4, bob={0})) == []


# --- records


def test_a_record_that_nobody_processed_is_lost() -> None:
    assert kinds(*records(1), Produced(0, 1), end()) == ["lost record"]


def test_a_commit_that_passes_over_a_record_is_early() -> None:
    late = Processed(40, "ann", 0, 4)
    story = (*records(4), Produced(0, 4), late, beat(10, "ann", 0, new_epoch=1, given={0}))
    assert kinds(*story, commit(50, "ann", 1, 5), end(5)) == []
    assert kinds(*story, commit(30, "ann", 1, 5), end(5)) == ["early commit"]


def test_a_commit_that_was_refused_may_be_any() -> None:
    assert kinds(*records(1), commit(20, "ann", 1, 9, error=REFUSED), end()) == []


def test_a_commit_without_an_answer_says_nothing() -> None:
    unanswered = replace(commit(20, "eve", 1, 9), answered=None, error=None)
    assert kinds(*records(1), unanswered, end()) == []


def test_an_offset_that_goes_back_is_found_unless_the_two_commits_met() -> None:
    story = (*records(4), beat(10, "ann", 0, new_epoch=1, given={0}))
    first = commit(20, "ann", 1, 3)
    assert kinds(*story, first, commit(22, "ann", 1, 2), end()) == ["offset went back"]
    assert kinds(*story, first, commit(21, "ann", 1, 2), end()) == []
    assert kinds(*story, first, commit(22, "ann", 1, 3), end()) == []


def test_offsets_of_different_partitions_are_different() -> None:
    story = (*records(4), beat(10, "ann", 0, new_epoch=1, given={0, 1}))
    assert kinds(*story, commit(20, "ann", 1, 3), commit(22, "ann", 1, 0, partition=1), end()) == []


# --- owners


def test_the_commit_of_a_former_owner_is_found() -> None:
    taken = commit(26, "ann", 2, 4)
    assert kinds(*records(4), *HANDED_OVER, taken, end(4, bob={0})) == ["commit of another"]


def test_the_commit_of_a_former_owner_with_its_old_epoch_is_found() -> None:
    taken = commit(26, "ann", 1, 4)
    assert kinds(*records(4), *HANDED_OVER, taken, end(4, bob={0})) == ["commit of another"]


def test_a_commit_that_met_the_handover_may_have_been_before_it() -> None:
    met = commit(25, "ann", 1, 3)  # bob's heartbeat was answered at 25
    assert kinds(*records(4), *HANDED_OVER, met, end(4, bob={0})) == []


def test_whoever_got_the_partition_back_commits_with_its_new_epoch_only() -> None:
    back = (
        beat(30, "bob", -1, new_epoch=-1),
        beat(32, "ann", 2, new_epoch=3, given={0}),
    )
    assert kinds(*records(4), *HANDED_OVER, *back, commit(34, "ann", 3, 4), end(4)) == []
    assert kinds(*records(4), *HANDED_OVER, *back, commit(34, "ann", 1, 4), end(4)) == ["commit of another"]


def test_the_commit_of_somebody_who_was_never_given_the_partition_is_found() -> None:
    assert kinds(*records(1), commit(20, "eve", 1, 1), end(1)) == ["commit of another"]


def test_a_partition_that_is_given_on_before_it_is_let_go_has_two_owners() -> None:
    story = (
        beat(10, "ann", 0, new_epoch=1, given={0}),
        beat(12, "bob", 0, new_epoch=2, given={0}),
        beat(14, "ann", 1),
        beat(16, "ann", 1, owned=()),
    )
    assert kinds(*story, end()) == ["two owners"]


def test_an_owner_of_whom_nothing_is_heard_any_more_may_have_been_fenced() -> None:
    story = (
        beat(10, "ann", 0, new_epoch=1, given={0}),
        beat(12, "bob", 0, new_epoch=2, given={0}),
        beat(14, "ann", 1, error=110),
        beat(16, "ann", 0, new_epoch=3, given=()),
        beat(18, "ann", 3),
    )
    assert kinds(*story, end()) == []


def test_a_classic_member_that_kept_a_partition_is_an_owner_too() -> None:
    story = (join(10, "ann", 1), sync(12, "ann", 1, 0), join(14, "ann", 2, 0))
    given_on = beat(16, "bob", 0, new_epoch=2, given={0})
    alive = ClassicBeat(18, 19, "ann", 0, 2)
    assert kinds(*story, given_on, alive, end()) == ["two owners"]
    let_go = join(15, "ann", 2)
    assert kinds(*story, let_go, given_on, alive, end()) == []


def test_a_member_that_has_left_owns_nothing() -> None:
    story = (
        *(join(10, "ann", 1), sync(12, "ann", 1, 0), Leave(14, 15, "ann", 0)),
        beat(16, "bob", 0, new_epoch=2, given={0}),
        ClassicBeat(18, 19, "ann", 0, 1),
    )
    assert kinds(*story, end()) == []


def test_a_description_with_two_owners_is_found() -> None:
    assert kinds(described(10, ann={0, 1}, bob={1}), end()) == ["described twice"]
    assert kinds(described(10, "classic", "PreparingRebalance", ann={0, 1}, bob={1}), end()) == []
    assert kinds(described(10, "classic", ann={0, 1}, bob={1}), end()) == ["described twice"]


# --- the fenced


def test_the_commit_of_a_member_that_is_no_longer_shown_is_found() -> None:
    story = (*records(4), beat(10, "ann", 0, new_epoch=1, given={0}), described(20, bob=set()))
    assert kinds(*story, commit(30, "ann", 1, 4), end()) == ["commit of the departed"]
    assert kinds(*story, commit(30, "ann", 1, 4, error=25), end()) == []
    again = beat(24, "ann", 0, new_epoch=3, given={0})
    assert kinds(*story, again, commit(30, "ann", 3, 4), end()) == []


def test_a_description_that_met_the_joining_says_nothing() -> None:
    story = (*records(4), beat(10, "ann", 0, new_epoch=1, given={0}), described(10, bob=set()))
    assert kinds(*story, commit(30, "ann", 1, 4), end()) == []


def test_the_commit_of_an_old_generation_is_found() -> None:
    story = (
        *records(4),
        *(join(10, "ann", 1), sync(12, "ann", 1, 0)),
        *(join(14, "ann", 2), join(14, "bob", 2)),
    )
    late = commit(20, "ann", 1, 4)
    assert kinds(*story, described(16, "classic", "CompletingRebalance", ann=set(), bob=set()), late, end()) == [
        "commit of an old generation"
    ]


def test_a_generation_that_was_not_durable_is_gone_after_a_crash() -> None:
    story = (
        *records(4),
        *(join(10, "ann", 1), sync(12, "ann", 1, 0)),
        *(join(14, "ann", 2), join(14, "bob", 2)),
    )
    late = commit(20, "ann", 1, 4)
    assert kinds(*story, Restarted(16, 17), late, end()) == []
    assert kinds(*story, Restarted(13, 14), late, end()) == ["commit of an old generation"]
    assert kinds(*story, sync(15, "ann", 2, 0), Restarted(16, 17), late, end()) == ["commit of an old generation"]


def test_in_a_consumer_group_each_classic_member_has_a_generation_of_its_own() -> None:
    story = (
        *records(4),
        *(join(10, "ann", 1), sync(12, "ann", 1, 0)),
        *(join(14, "bob", 2), described(16, ann={0}, bob=set())),
    )
    assert kinds(*story, commit(20, "ann", 1, 4), end()) == []


# --- the end


@pytest.mark.parametrize(
    "wrong",
    [
        lambda good: replace(good, described=replace(good.described, state="Reconciling")),
        lambda good: replace(good, alive=frozenset({"ann", "bob"})),
        lambda good: replace(good, described=described(LAST, ann=set())),
        lambda good: replace(good, committed={0: 3}),
        lambda good: replace(good, committed={}),
    ],
    ids=["not stable", "one is no member", "a partition has no owner", "not all is committed", "nothing is committed"],
)
def test_a_group_that_has_not_settled_is_found(wrong: object) -> None:
    good = end(4)
    assert kinds(*records(4), good) == []
    assert kinds(*records(4), wrong(good)) == ["not settled"]  # type: ignore[operator]


def test_a_history_without_an_end_is_not_good() -> None:
    assert kinds(*records(1)) == ["no end"]
