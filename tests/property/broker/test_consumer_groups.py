"""Consumer groups under a storm: members come, go, die, are slow, lose answers; topics change; the broker restarts.

At every moment a partition has at most one client whose commit for it would be taken, whatever clients believe that
they have. In the quiet after the storm the group settles: each partition has one owner, who is subscribed to it, and
among members with the same subscription the numbers differ by at most one.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.broker.groups.consumer.partitions import NOWHERE, places
from runnel.broker.groups.offsets import Committer
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import ConsumerStage, Reader

TOPICS = ("alpha", "beta", "gamma")
SUBSCRIPTIONS = (("alpha",), ("alpha", "beta"), ("beta", "gamma"), ("alpha", "beta", "gamma"))
EXPRESSIONS = ("a.*", ".*a", "b.*|g.*")
VERSION = 10  # of OffsetCommit

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


class Storm:
    def __init__(self, *, assignor: str, interval: int, homogeneous: bool) -> None:
        self.stage = ConsumerStage(
            group_consumer_assignment_interval_ms=interval,
            group_consumer_assignors=(assignor,),
            group_consumer_session_timeout_ms=45_000,
        )
        self.homogeneous = homogeneous
        self.alive: dict[int, Reader] = {}
        self.lingering: list[Reader] = []  # gone for the test, though they may believe that they have partitions
        self.away: dict[int, Reader] = {}
        self.born = 0
        for topic in TOPICS[:2]:
            self.stage.topics.create(topic, 3)

    def do(self, name: str, *arguments: object) -> None:
        getattr(self, f"do_{name}")(*arguments)
        self.check()

    # --- clients

    def do_join(self, place: int, kind: int) -> None:
        if place in self.alive:
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

    def do_beat(self, place: int) -> None:
        if place in self.alive:
            self.alive[place].heartbeat()

    def do_beat_all(self) -> None:
        for reader in self.alive.values():
            reader.heartbeat()

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

    def do_away(self, place: int) -> None:
        reader = self.alive.get(place)
        if reader is not None and reader.instance is not None:
            del self.alive[place]
            reader.go_away()
            self.away[place] = reader

    def do_die(self, place: int) -> None:
        reader = self.alive.pop(place, None)
        if reader is not None:
            self.lingering.append(reader)

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

    def do_kill(self) -> None:
        self.stage.kill()

    def do_lose_power(self) -> None:
        self.stage.lose_power(self.born)

    def do_compact(self) -> None:
        self.stage.log.partition("__consumer_offsets").compact()

    # --- what must hold

    def check(self) -> None:
        owners: Counter[object] = Counter()
        for reader in (*self.alive.values(), *self.lingering):
            committer = Committer(reader.id, reader.instance, reader.epoch)
            if "g" not in self.stage.groups.consumer or not reader.epoch:
                continue
            if self.stage.groups.check_commit("g", committer, VERSION):
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
        """Time passes, and all who are alive do as they should."""
        for _ in range(14):
            self.stage.advance(5_000)
            self.do_beat_all()
            self.check()
        if not self.alive:
            return
        group = self.stage.consumer_group()
        assert group.state == "Stable"
        assert set(group.members) == {reader.id for reader in self.alive.values()}
        owners = Counter(place for reader in self.alive.values() for place in reader.has)
        wanted = {name for member in group.members.values() for name in group.subscribed_topics(member)}
        known = [topic for name in wanted if (topic := self.stage.topics.find(name)) is not None]
        assert owners == Counter((topic.name, number) for topic in known for number in range(topic.count))
        for reader in self.alive.values():
            assert {name for name, _ in reader.has} <= group.subscribed_topics(group.members[reader.id])
        if self.homogeneous:
            sizes = [len(reader.has) for reader in self.alive.values()]
            assert max(sizes) - min(sizes) <= 1


@settings(max_examples=100)
@given(acts=st.lists(act, min_size=15, max_size=80), interval=st.sampled_from([0, 1_000]))
def test_members_with_the_same_subscription_share_evenly(acts: list[tuple[object, ...]], interval: int) -> None:
    storm = Storm(assignor="uniform", interval=interval, homogeneous=True)
    for name, *arguments in acts:
        storm.do(str(name), *arguments)
    storm.calm_down()


@settings(max_examples=100)
@given(
    acts=st.lists(act, min_size=15, max_size=80),
    interval=st.sampled_from([0, 1_000]),
    assignor=st.sampled_from(["uniform", "range"]),
)
def test_members_with_different_subscriptions_have_what_they_are_subscribed_to(
    acts: list[tuple[object, ...]], interval: int, assignor: str
) -> None:
    storm = Storm(assignor=assignor, interval=interval, homogeneous=False)
    for name, *arguments in acts:
        storm.do(str(name), *arguments)
    storm.calm_down()
