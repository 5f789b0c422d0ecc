"""Consumer groups under a storm: members come, go, die, are slow, lose answers; topics change; the broker restarts.

In some storms there are classic members, too, and the group changes from one protocol to the other with those who come
and go.

At every moment a partition has at most one client whose commit for it would be taken, whatever clients believe that
they have. In the quiet after the storm the group settles: each partition has one owner, who is subscribed to it, and
among members with the same subscription the numbers differ by at most one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import example, given, settings
from hypothesis import strategies as st

from runnel.broker.groups.consumer.partitions import NOWHERE, places
from runnel.broker.groups.offsets import Committer
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import ClassicReader, ConsumerStage, Reader

TOPICS = ("alpha", "beta", "gamma")
SUBSCRIPTIONS = (("alpha",), ("alpha", "beta"), ("beta", "gamma"), ("alpha", "beta", "gamma"))
EXPRESSIONS = ("a.*", ".*a", "b.*|g.*")
VERSION = 10  # of OffsetCommit
STEPS = 8  # of a classic member until it has what it should, at most

client = st.integers(0, 4)
act = st.one_of(
    st.tuples(st.just("join"), client, st.integers(0, len(SUBSCRIPTIONS) + len(EXPRESSIONS) - 1)),
    st.tuples(st.sampled_from(["beat", "keep", "lose_answer", "leave", "die", "away", "rejoin"]), client),
    st.tuples(st.just("resubscribe"), client, st.integers(0, len(SUBSCRIPTIONS) - 1)),
    st.tuples(st.sampled_from(["create", "delete"]), st.sampled_from(TOPICS), st.integers(1, 5)),
    st.tuples(st.just("grow"), st.sampled_from(TOPICS), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.sampled_from([100, 1_000, 6_000, 30_000])),
    st.tuples(st.sampled_from(["restart", "kill", "lose_power", "compact", "beat_all"])),
)
change = st.one_of(  # from one protocol to the other
    act,
    st.tuples(st.just("join_classic"), client, st.integers(0, len(SUBSCRIPTIONS) - 1)),
    st.tuples(st.sampled_from(["beat", "leave", "die", "ask_again"]), client),
)
INTERRUPTED_REBALANCE: list[tuple[object, ...]] = [
    *(("join_classic", 1, 0), ("join_classic", 2, 0)),
    *[("beat_all",)] * 10,
    *(("ask_again", 1), ("beat", 2), ("beat", 2)),  # all have joined, and only the leader has yet to sync
    *(("join_classic", 3, 0), ("beat", 3)),  # so all must join again, while those before keep what they had
    *(("join", 4, 0), ("beat", 4)),
]


class Storm:
    def __init__(self, *, assignor: str, interval: int, homogeneous: bool, cooperative: bool = False) -> None:
        self.stage = ConsumerStage(
            group_consumer_assignment_interval_ms=interval,
            group_consumer_assignors=(assignor,),
            group_consumer_session_timeout_ms=45_000,
        )
        self.homogeneous = homogeneous
        self.cooperative = cooperative  # whether classic members keep what they have while they join
        self.alive: dict[int, Reader] = {}
        self.classic: dict[int, ClassicReader] = {}  # alive as well
        self.lingering: list[Reader | ClassicReader] = []  # gone, though they may believe that they have partitions
        self.away: dict[int, Reader] = {}
        self.born = 0
        for topic in TOPICS[:2]:
            self.stage.topics.create(topic, 3)

    def do(self, name: str, *arguments: object) -> None:
        getattr(self, f"do_{name}")(*arguments)
        self.check()

    # --- clients

    def do_join(self, place: int, kind: int) -> None:
        if place in self.alive or place in self.classic:
            return
        reader = self.away.pop(place, None)
        self.born += 1
        if reader is None:
            instance = f"i{place}" if place == 0 else None  # one of them is static
            if self.homogeneous:
                reader = Reader(self.stage, "", *TOPICS, instance=instance)
            elif kind < len(SUBSCRIPTIONS):
                reader = Reader(self.stage, "", *SUBSCRIPTIONS[kind], instance=instance)
            else:
                expression = EXPRESSIONS[kind - len(SUBSCRIPTIONS)]
                reader = Reader(self.stage, "", expression=expression, instance=instance)
            reader.rebalance = 20_000
        reader.id = f"m{self.born}"
        self.alive[place] = reader
        reader.heartbeat()

    def do_join_classic(self, place: int, kind: int) -> None:
        if place in self.alive or place in self.classic:
            return
        self.away.pop(place, None)
        self.born += 1
        topics = TOPICS if self.homogeneous else SUBSCRIPTIONS[kind]
        instance = f"i{place}" if place == 0 else None
        reader = ClassicReader(self.stage, f"c{self.born}", *topics, cooperative=self.cooperative, instance=instance)
        self.classic[place] = reader
        reader.step()

    def do_beat(self, place: int) -> None:
        if place in self.alive:
            self.alive[place].heartbeat()
        if place in self.classic:
            self.classic[place].step()

    def do_beat_all(self) -> None:
        for reader in self.alive.values():
            reader.heartbeat()
        for classic in self.classic.values():
            classic.step()

    def do_ask_again(self, place: int) -> None:
        """A classic member joins though nobody told it to: it has heard that topics changed."""
        if place in self.classic and self.classic[place].is_in:
            self.classic[place].begin()

    def do_keep(self, place: int) -> None:
        """It is alive, and slow to let go; what it is given it takes."""
        if place in self.alive:
            reader = self.alive[place]
            reader.ask()
            if reader.epoch:
                reader.owned = {
                    topic: reader.owned.get(topic, frozenset()) | reader.told.get(topic, frozenset())
                    for topic in {*reader.owned, *reader.told}
                }

    def do_lose_answer(self, place: int) -> None:
        if place in self.alive:
            self.alive[place].send(self.alive[place].request())
            self.alive[place].missed_answer = True

    def do_rejoin(self, place: int) -> None:
        """It believes that it was fenced."""
        if place in self.alive:
            reader = self.alive[place]
            reader.epoch, reader.owned, reader.told = 0, NOWHERE, NOWHERE
            reader.heartbeat()

    def do_resubscribe(self, place: int, kind: int) -> None:
        if place in self.alive and not self.homogeneous and self.alive[place].epoch > 0:
            self.alive[place].subscribe(*SUBSCRIPTIONS[kind])

    def do_leave(self, place: int) -> None:
        reader = self.alive.pop(place, None)
        if reader is not None:
            reader.leave()
        classic = self.classic.pop(place, None)
        if classic is not None and classic.member_id:
            classic.go()

    def do_away(self, place: int) -> None:
        reader = self.alive.get(place)
        if reader is not None and reader.instance is not None:
            del self.alive[place]
            reader.go_away()
            self.away[place] = reader

    def do_die(self, place: int) -> None:
        for readers in (self.alive, self.classic):
            if place in readers:
                self.lingering.append(readers.pop(place))

    # --- the world

    def do_create(self, topic: str, count: int) -> None:
        if self.stage.topics.find(topic) is None:
            self.stage.topics.create(topic, count)

    def do_grow(self, topic: str, more: int) -> None:
        known = self.stage.topics.find(topic)
        if known is not None and known.count < 12:
            self.stage.topics.grow(topic, known.count + more)

    def do_delete(self, topic: str, _: int) -> None:
        if self.stage.topics.find(topic) is not None:
            self.stage.topics.delete(topic)

    def do_wait(self, milliseconds: int) -> None:
        self.stage.advance(milliseconds)

    def do_restart(self) -> None:
        self.stage.stop_and_start()
        self.lose_connections()

    def do_kill(self) -> None:
        self.stage.kill()
        self.lose_connections()

    def do_lose_power(self) -> None:
        self.stage.lose_power(self.born)
        self.lose_connections()

    def lose_connections(self) -> None:
        for classic in self.classic.values():
            classic.lose_connection()

    def do_compact(self) -> None:
        self.stage.log.partition("__consumer_offsets").compact()

    # --- what must hold

    def check(self) -> None:
        owners: Counter[object] = Counter()
        for reader in (*self.alive.values(), *self.classic.values(), *self.lingering):
            committer = committer_of(reader)
            if committer.generation <= 0 or self.stage.groups.check_commit("g", committer, VERSION):
                continue
            for topic, number in places(reader.owned):
                if self.stage.groups.check_partition("g", committer, topic, number) is ErrorCode.NONE:
                    owners[topic, number] += 1
        assert not {place: count for place, count in owners.items() if count > 1}
        if "g" in self.stage.groups.consumer:
            self.check_group()

    def check_group(self) -> None:
        group = self.stage.consumer_group()
        has = [place for member in group.members.values() for place in places(member.assigned_partitions)]
        lets_go = [place for member in group.members.values() for place in places(member.revoking_partitions)]
        assert len({*has, *lets_go}) == len(has) + len(lets_go)
        assert group.owners.keys() == {*has, *lets_go}
        assert group.assignment_epoch <= group.epoch
        assert all(member.epoch <= group.assignment_epoch for member in group.members.values())
        meant = [place for target in group.targets.values() for place in places(target)]
        assert len(set(meant)) == len(meant)

    def calm_down(self) -> None:
        """Time passes, and all who are alive do as they should. Classic members look at the topics once more."""
        for place in self.classic:
            self.do_ask_again(place)
        # Who died is missed after one session, and if that changes the group's protocol, others after another one.
        for _ in range(30 if self.classic else 14):
            for _ in range(STEPS if self.classic else 1):
                self.do_beat_all()
                self.check()
            self.stage.advance(5_000)
        self.do_beat_all()
        if not self.alive and not self.classic:
            return
        if self.alive:
            self.check_stable_consumer_group()
        else:
            assert self.stage.state() == "Stable"
            assert {each.id for each in self.stage.group().members} == {
                each.member_id for each in self.classic.values()
            }
        owners = Counter(place for reader in self.living() for place in places(reader.owned))
        wanted = {name for reader in self.living() for name in self.subscribed_topics(reader)}
        known = [topic for name in wanted if (topic := self.stage.topics.find(name)) is not None]
        assert owners == Counter((topic.id, number) for topic in known for number in range(topic.count))
        for reader in self.living():
            names = {topic.name for id in reader.owned if (topic := self.stage.topics.find_id(id)) is not None}
            assert names <= self.subscribed_topics(reader)
        if self.homogeneous:
            sizes = [len(list(places(reader.owned))) for reader in self.living()]
            assert max(sizes) - min(sizes) <= 1

    def check_stable_consumer_group(self) -> None:
        group = self.stage.consumer_group()
        assert group.state == "Stable"
        assert set(group.members) == {committer_of(reader).member_id for reader in self.living()}

    def living(self) -> Iterator[Reader | ClassicReader]:
        yield from self.alive.values()
        yield from self.classic.values()

    def subscribed_topics(self, reader: Reader | ClassicReader) -> frozenset[str]:
        if isinstance(reader, ClassicReader):
            return frozenset(reader.topics)
        group = self.stage.consumer_group()
        return group.subscribed_topics(group.members[reader.id])


def committer_of(reader: Reader | ClassicReader) -> Committer:
    if isinstance(reader, ClassicReader):
        return reader.committer()
    return Committer(reader.id, reader.instance, reader.epoch)


@settings(max_examples=100)
@given(acts=st.lists(act, min_size=15, max_size=80), interval=st.sampled_from([0, 1_000]))
def test_members_with_the_same_subscription_share_evenly(acts: list[tuple[object, ...]], interval: int) -> None:
    storm = Storm(assignor="uniform", interval=interval, homogeneous=True)
    for name, *arguments in acts:
        storm.do(str(name), *arguments)
    storm.calm_down()


# A subscription that shrinks twice before the group is assigned anew.
SHRINKS_TWICE: list[tuple[object, ...]] = [("join", 0, 1), ("resubscribe", 0, 0), ("resubscribe", 0, 2)]


@settings(max_examples=100)
@given(
    acts=st.lists(act, min_size=15, max_size=80),
    interval=st.sampled_from([0, 1_000]),
    assignor=st.sampled_from(["uniform", "range"]),
)
@example(acts=SHRINKS_TWICE, interval=1_000, assignor="uniform")
def test_members_with_different_subscriptions_have_what_they_are_subscribed_to(
    acts: list[tuple[object, ...]], interval: int, assignor: str
) -> None:
    storm = Storm(assignor=assignor, interval=interval, homogeneous=False)
    for name, *arguments in acts:
        storm.do(str(name), *arguments)
    storm.calm_down()


@settings(max_examples=100)
@given(
    acts=st.lists(change, min_size=15, max_size=80),
    homogeneous=st.booleans(),
    cooperative=st.booleans(),
    assignor=st.sampled_from(["uniform", "range"]),
)
@example(acts=INTERRUPTED_REBALANCE, homogeneous=True, cooperative=True, assignor="uniform")
def test_classic_members_and_others_make_one_group_that_changes_with_them(
    acts: list[tuple[object, ...]], homogeneous: bool, cooperative: bool, assignor: str
) -> None:
    storm = Storm(
        assignor="uniform" if homogeneous else assignor, interval=0, homogeneous=homogeneous, cooperative=cooperative
    )
    for name, *arguments in acts:
        storm.do(str(name), *arguments)
    storm.calm_down()
