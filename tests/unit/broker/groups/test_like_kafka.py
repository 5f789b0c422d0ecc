"""The same requests to Apache Kafka and to us get the same answers.

Each scenario speaks the bytes of the protocol, one connection for each member, and writes down what it is told. Member
ids differ from run to run: in a transcript they have the names that the scenario gives to members.
"""

from __future__ import annotations

import itertools
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runnel import Broker
from runnel.protocol.decode import read_response
from runnel.protocol.encode import request_encoder, response_encoder
from runnel.protocol.versions import SERVED, Api
from tests.interop.kafka_server import kafka_server
from tests.unit.broker.groups.stage import subscription

pytestmark = pytest.mark.servers

SETTINGS = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0", "group.max.size": "3"}
LIMIT = 60.0
LONG = 30_000
MEMBER_ID = re.compile(r"\S*-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TOPIC = "orders"


class World:
    """A broker, what was asked of it and what it said."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._address = (host, int(port))
        self._names: dict[str, str] = {}
        self._sockets: list[socket.socket] = []
        self._numbers = itertools.count(1)
        self.transcript: list[tuple[str, Any]] = []
        self.topic_id: UUID | None = None
        self.group = "g"

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def connection(self) -> socket.socket:
        connection = socket.create_connection(self._address, LIMIT)
        self._sockets.append(connection)
        return connection

    def send(self, connection: socket.socket, api: Api, version: int, fields: dict[str, Any]) -> None:
        encoder = request_encoder(api, version)
        header = struct.pack(">hhih", api, version, next(self._numbers), 6) + b"client"
        body = b"".join(bytes(part) for part in encoder(fields))
        frame = header + (b"\x00" if encoder.flexible_header else b"") + body
        connection.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, connection: socket.socket, api: Api, version: int) -> dict[str, Any]:
        (size,) = struct.unpack(">i", self._exactly(connection, 4))
        answer = self._exactly(connection, size)
        start = 5 if response_encoder(api, version).flexible_header else 4
        return read_response(api, version, answer, start)

    def _exactly(self, connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def ask(self, label: str, api: Api, version: int | None = None, **fields: Any) -> dict[str, Any]:
        """Ask on a connection of its own, and note the answer."""
        answer = self.quietly(api, SERVED[api].most if version is None else version, **fields)
        self.note(label, answer)
        return answer

    def quietly(self, api: Api, version: int, **fields: Any) -> dict[str, Any]:
        """Ask, and note nothing."""
        with socket.create_connection(self._address, LIMIT) as connection:
            self.send(connection, api, version, fields)
            return self.receive(connection, api, version)

    def note(self, label: str, answer: dict[str, Any]) -> None:
        self.transcript.append((label, self._plain(answer)))

    def call(self, member_id: str, name: str) -> None:
        self._names.setdefault(member_id, name)

    def _plain(self, value: Any) -> Any:
        """Without what differs from run to run, and members in the order of their names."""
        if isinstance(value, dict):
            left_out = ("throttle_time", "topic_id", "committed_leader_epoch")
            return {key: self._plain(each) for key, each in value.items() if key not in left_out}
        if isinstance(value, list | tuple):
            return sorted((self._plain(each) for each in value), key=repr)
        if isinstance(value, str):
            return MEMBER_ID.sub(lambda found: self._names.get(found[0], "somebody"), value)
        return value


class Member:
    """One consumer, with a connection on which it waits."""

    def __init__(self, world: World, name: str, group: str, *, instance: str | None = None, **more: Any) -> None:
        self.world = world
        self.name = name
        self.group = group
        self.instance = instance
        self.version = more.get("version", 9)
        self.session = more.get("session", LONG)
        self.rebalance = more.get("rebalance", LONG)
        self.protocols = more.get("protocols", {"range": subscription(TOPIC)})
        self.protocol_type = more.get("protocol_type", "consumer")
        self.member_id = ""
        self.generation = -1
        self.protocol_name = "range"
        self.leads = False
        self._connection = world.connection()

    def ask_to_join(self) -> None:
        fields = {
            "group_id": self.group,
            "session_timeout": self.session,
            "rebalance_timeout": self.rebalance,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in self.protocols.items()],
            "reason": None,
        }
        self.world.send(self._connection, Api.JOIN_GROUP, self.version, fields)

    def joined(self) -> dict[str, Any]:
        answer = self.world.receive(self._connection, Api.JOIN_GROUP, self.version)
        if answer["member_id"]:
            self.world.call(answer["member_id"], self.name)
        if answer["error_code"] in (0, 79):
            self.member_id = answer["member_id"]
        if answer["error_code"] == 0:
            self.generation, self.protocol_name = answer["generation_id"], answer["protocol_name"]
            self.leads = answer["leader"] == answer["member_id"]
        self.world.note(f"{self.name} joined", answer)
        return answer

    def join(self) -> None:
        """Begin to join; with an id, if it is sent back for one."""
        self.ask_to_join()
        if not self.member_id and self.instance is None and self.version >= 4 and self.joined()["error_code"] == 79:
            self.ask_to_join()
        self._until_it_counts()

    def _until_it_counts(self) -> None:
        """Until it is answered, or waits: what other connections ask comes after it then."""
        deadline = time.monotonic() + LIMIT
        while not select.select([self._connection], [], [], 0)[0] and not self._waits():
            assert time.monotonic() < deadline, f"{self.name} neither waits nor is answered"

    def _waits(self) -> bool:
        asked = {"groups": [self.group], "include_authorized_operations": False}
        (group,) = self.world.quietly(Api.DESCRIBE_GROUPS, 5, **asked)["groups"]
        known = [member["member_id"] for member in group["members"]]
        return group["group_state"] == "PreparingRebalance" and (self.instance or self.member_id in known)

    def ask_to_sync(self, members: list[Member] | None = None, **more: Any) -> None:
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            "assignments": [
                {"member_id": each.member_id, "assignment": each.name.encode()}
                for each in (members or ())
                if self.leads
            ],
        }
        self.world.send(self._connection, Api.SYNC_GROUP, 5, fields | more)

    def synced(self) -> None:
        self.world.note(f"{self.name} synced", self.world.receive(self._connection, Api.SYNC_GROUP, 5))

    def heartbeat(self, **more: Any) -> None:
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
        self.world.ask(f"{self.name}'s heartbeat {more}", Api.HEARTBEAT, **fields | more)

    def leave(self, **more: Any) -> None:
        who = {"member_id": self.member_id, "group_instance_id": self.instance, "reason": None} | more
        self.world.ask(f"{self.name} leaves", Api.LEAVE_GROUP, group_id=self.group, members=[who])

    def commit(self, offset: int, **more: Any) -> None:
        fields = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
        commit(self.world, self.group, offset, label=f"{self.name} commits {sorted(more)}", **fields | more)


def commit(world: World, group: str, offset: int, *, label: str = "somebody commits", **more: Any) -> None:
    version = more.pop("version", 9)
    partition = {
        "partition_index": more.pop("partition", 0),
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": more.pop("metadata", "note"),
    }
    topic = {"name": more.pop("topic", TOPIC), "topic_id": world.topic_id, "partitions": [partition]}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "retention_time": -1}
    world.ask(f"{label} {version}", Api.OFFSET_COMMIT, version, group_id=group, topics=[topic], **fields | more)


def stable(*members: Member) -> None:
    """Let them all join and sync. The first one joins alone, so that it leads."""
    members[0].join()
    members[0].joined()
    for each in members[1:]:
        each.join()
    if len(members) > 1:
        members[0].join()
        for each in members:
            each.joined()
    for each in members:
        each.ask_to_sync(list(members))
    for each in members:
        each.synced()


def look(world: World, group: str) -> None:
    """All that can be seen of a group."""
    for version in (0, 4, 5, 6):
        answer = {"groups": [group], "include_authorized_operations": version >= 3}
        world.ask(f"described {version}", Api.DESCRIBE_GROUPS, version, **answer)
    for version in (1, 7):
        topics = [{"name": TOPIC, "partition_indexes": [0, 1]}, {"name": "nowhere", "partition_indexes": [0]}]
        world.ask(f"offsets {version}", Api.OFFSET_FETCH, version, group_id=group, topics=topics, require_stable=False)
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
    world.ask("all offsets", Api.OFFSET_FETCH, 9, groups=[asked], require_stable=True)
    by_id = [
        {"topic_id": world.topic_id, "partition_indexes": [0, 1]},
        {"topic_id": UUID(int=77), "partition_indexes": [0]},
    ]
    world.ask("offsets by id", Api.OFFSET_FETCH, 10, groups=[asked | {"topics": by_id}], require_stable=False)


# --- the scenarios


def strangers(world: World) -> None:
    nobody = Member(world, "nobody", "nowhere")
    nobody.member_id, nobody.generation = "nobody-1", 3
    nobody.ask_to_join()
    nobody.joined()
    nobody.ask_to_sync()
    nobody.synced()
    nobody.heartbeat()
    nobody.leave()
    for version in (8, 9, 10):
        nobody.commit(1, version=version)
    world.ask("left 1", Api.LEAVE_GROUP, 1, group_id="nowhere", member_id="nobody-1")
    look(world, "nowhere")
    world.ask("deleted", Api.DELETE_GROUPS, groups_names=["nowhere", "elsewhere"])
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
    world.ask("offsets deleted", Api.OFFSET_DELETE, group_id="nowhere", topics=topics)


def bad_wishes(world: World) -> None:
    for more in (
        {"session": 99},
        {"session": 2_000_000},
        {"protocols": {}},
        {"protocol_type": ""},
        {"version": 5, "session": 99},
        {"version": 8, "protocols": {}},
    ):
        wish = Member(world, f"wish {more}", "wishes", **more)
        wish.ask_to_join()
        wish.joined()
    nameless = Member(world, "nameless", "")
    nameless.ask_to_join()
    nameless.joined()
    nameless.ask_to_sync()
    nameless.synced()
    nameless.heartbeat()
    nameless.leave()
    commit(world, "", 5)
    look(world, "")


def one_generation(world: World) -> None:
    ann, bob = Member(world, "ann", "one"), Member(world, "bob", "one")
    ann.join()
    ann.joined()
    look(world, "one")
    ann.commit(3)
    ann.heartbeat()
    ann.ask_to_sync([ann])
    ann.synced()
    look(world, "one")
    ann.commit(5)
    commit(world, "one", 6)
    ann.commit(7, generation_id_or_member_epoch=9)
    ann.commit(7, generation_id_or_member_epoch=-1)
    ann.commit(7, member_id="stranger")
    ann.commit(7, group_instance_id="i-1")
    ann.heartbeat(generation_id=9)
    ann.heartbeat(member_id="stranger")
    ann.heartbeat(group_instance_id="i-1")
    ann.ask_to_sync(protocol_name="other")
    ann.synced()
    ann.ask_to_sync(protocol_type="other")
    ann.synced()
    ann.ask_to_sync(protocol_name=None)
    ann.synced()
    ann.ask_to_sync(protocol_type=None)
    ann.synced()
    ann.ask_to_sync(generation_id=9)
    ann.synced()
    bob.join()
    ann.heartbeat()
    look(world, "one")
    ann.commit(8)
    ann.ask_to_sync()
    ann.synced()
    world.ask("deleted", Api.DELETE_GROUPS, groups_names=["one"])
    ann.join()
    ann.joined()
    bob.joined()
    bob.ask_to_sync()
    ann.ask_to_sync([ann])
    ann.synced()
    bob.synced()
    look(world, "one")
    topics = [
        {"name": TOPIC, "partitions": [{"partition_index": 0}]},
        {"name": "nowhere", "partitions": [{"partition_index": 0}]},
    ]
    world.ask("offsets deleted", Api.OFFSET_DELETE, group_id="one", topics=topics)
    bob.join()
    bob.joined()
    ann.leave()
    ann.leave()
    bob.heartbeat()
    bob.join()
    bob.joined()
    bob.leave()
    look(world, "one")
    commit(world, "one", 11)
    world.ask("offsets deleted", Api.OFFSET_DELETE, group_id="one", topics=topics)
    look(world, "one")
    world.ask("deleted", Api.DELETE_GROUPS, groups_names=["one", "one"])
    look(world, "one")


def those_who_do_not_fit(world: World) -> None:
    ann = Member(world, "ann", "fit", protocols={"range": b"\x00", "sticky": b"\x01"})
    stable(ann)
    for more in (
        {"protocol_type": "connect"},
        {"protocols": {"other": b""}},
        {"protocols": {}},
        {"protocols": {"sticky": b"", "other": b""}},
    ):
        other = Member(world, f"other {more}", "fit", **more)
        other.ask_to_join()
        other.joined()
    look(world, "fit")


def a_full_group(world: World) -> None:
    members = [Member(world, name, "full") for name in ("ann", "bob", "cat")]
    stable(*members)
    dan = Member(world, "dan", "full")
    dan.ask_to_join()
    dan.joined()
    look(world, "full")


def an_elected_protocol(world: World) -> None:
    ann = Member(world, "ann", "vote", protocols={"a": b"a1", "b": b"b1", "c": b"c1"})
    bob = Member(world, "bob", "vote", protocols={"c": b"c2", "b": b"b2"})
    cat = Member(world, "cat", "vote", protocols={"b": b"b3", "c": b"c3"})
    ann.join()
    ann.joined()
    bob.join()
    cat.join()
    ann.join()
    for each in (ann, bob, cat):
        each.joined()
    ann.ask_to_sync([ann, bob, cat])
    ann.synced()
    look(world, "vote")


def static_members(world: World) -> None:
    for version in (9, 8, 5):
        group = f"static-{version}"
        ann = Member(world, "ann", group, instance="i-ann", version=version)
        bob = Member(world, "bob", group, instance="i-bob", version=version)
        stable(ann, bob)
        look(world, group)
        for before in (bob, ann):
            after = Member(world, f"{before.name} again", group, instance=before.instance, version=version)
            after.join()
            after.joined()
            before.heartbeat()
            before.commit(4)
            before.ask_to_sync()
            before.synced()
            before.leave()
            before.ask_to_join()
            before.joined()
            after.ask_to_sync()
            after.synced()
            after.heartbeat()
            after.commit(4)
        look(world, group)
        stranger = {"member_id": "", "group_instance_id": "i-stranger", "reason": None}
        world.ask("nobody removed", Api.LEAVE_GROUP, group_id=group, members=[stranger])
        removed = {"member_id": "", "group_instance_id": "i-ann", "reason": None}
        world.ask("ann removed", Api.LEAVE_GROUP, group_id=group, members=[removed, stranger])
        look(world, group)


def a_static_member_with_another_protocol(world: World) -> None:
    ann = Member(world, "ann", "other", instance="i-ann", protocols={"range": b"", "sticky": b""})
    stable(ann)
    again = Member(world, "ann again", "other", instance="i-ann", protocols={"sticky": b"", "range": b""})
    again.join()
    again.joined()
    again.ask_to_sync([again])
    again.synced()
    third = Member(world, "third ann", "other", instance="i-ann", protocols={"sticky": b"changed", "range": b""})
    third.join()
    third.joined()
    look(world, "other")


def a_static_member_that_waits(world: World) -> None:
    ann = Member(world, "ann", "waits", instance="i-ann")
    bob = Member(world, "bob", "waits", instance="i-bob")
    stable(ann, bob)
    ann.join()
    again = Member(world, "ann again", "waits", instance="i-ann")
    again.join()
    ann.joined()
    bob.join()
    bob.joined()
    again.joined()
    bob.ask_to_sync()
    third = Member(world, "third bob", "waits", instance="i-bob")
    third.join()
    bob.synced()
    again.heartbeat()
    again.join()
    again.joined()
    third.joined()


def a_member_that_asks_again(world: World) -> None:
    ann, bob = Member(world, "ann", "again"), Member(world, "bob", "again")
    stable(ann, bob)
    bob.join()
    bob.joined()
    bob.protocols = {"range": subscription("other")}
    bob.join()
    ann.heartbeat()
    ann.join()
    ann.joined()
    bob.joined()
    ann.join()
    ann.joined()
    bob.join()
    bob.joined()
    ann.ask_to_sync([ann, bob])
    ann.synced()
    bob.ask_to_sync()
    bob.synced()
    look(world, "again")


def silent_members(world: World) -> None:
    ann, bob = Member(world, "ann", "silent"), Member(world, "bob", "silent", session=300)
    stable(ann, bob)
    wait_for_rebalance(ann)
    bob.heartbeat()
    ann.join()
    ann.joined()
    look(world, "silent")


def late_members(world: World) -> None:
    ann, bob = Member(world, "ann", "late", rebalance=700), Member(world, "bob", "late", rebalance=700)
    stable(ann, bob)
    ann.join()
    ann.joined()
    bob.heartbeat()
    ann.ask_to_sync([ann])
    ann.synced()
    look(world, "late")


def members_that_do_not_sync(world: World) -> None:
    ann, bob = Member(world, "ann", "unsynced", rebalance=700), Member(world, "bob", "unsynced", rebalance=700)
    ann.join()
    ann.joined()
    bob.join()
    ann.join()
    ann.joined()
    bob.joined()
    bob.ask_to_sync()
    bob.synced()
    ann.heartbeat()
    bob.join()
    bob.joined()
    look(world, "unsynced")


def followers_that_do_not_sync(world: World) -> None:
    ann, bob = Member(world, "ann", "lazy", rebalance=700), Member(world, "bob", "lazy", rebalance=700)
    ann.join()
    ann.joined()
    bob.join()
    ann.join()
    ann.joined()
    bob.joined()
    ann.ask_to_sync([ann, bob])
    ann.synced()
    bob.heartbeat()
    wait_for_rebalance(ann)
    bob.heartbeat()
    look(world, "lazy")


def offsets_alone(world: World) -> None:
    for version in range(SERVED[Api.OFFSET_COMMIT].least, SERVED[Api.OFFSET_COMMIT].most + 1):
        commit(world, "alone", version, version=version)
        commit(world, "alone", version, version=version, partition=77)
        commit(world, "alone", version, version=version, partition=-1)
        commit(world, "alone", version, version=version, metadata="m" * 4097)
        commit(world, "alone", version, version=version, metadata=None, partition=1)
        if version < 10:
            commit(world, "alone", version, version=version, topic="nowhere")
        look(world, "alone")
    commit(world, "alone", 9, member_id="m")
    commit(world, "alone", 9, group_instance_id="i-1")
    commit(world, "alone", 9, generation_id_or_member_epoch=0)
    commit(world, "alone", 9, generation_id_or_member_epoch=0, member_id="m")
    topics = [{"name": TOPIC, "partitions": [{"partition_index": number} for number in (0, 1, 77)]}]
    world.ask("offsets deleted", Api.OFFSET_DELETE, group_id="alone", topics=topics)
    look(world, "alone")


def other_kinds(world: World) -> None:
    ann = Member(world, "worker", "kind", protocol_type="connect", protocols={"sessioned": b"\x00\x01"})
    stable(ann)
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
    world.ask("offsets deleted", Api.OFFSET_DELETE, group_id="kind", topics=topics)
    look(world, "kind")
    ann.leave()
    look(world, "kind")


def lists(world: World) -> None:
    stable(Member(world, "ann", "listed"))
    commit(world, "simply listed", 1)
    for version in range(6):
        listed(world, version, [], [])
    for states in (["Stable"], ["stable"], ["Empty", "Dead"], ["nonsense"]):
        listed(world, 5, states, [])
    for types in (["classic"], ["Classic"], ["consumer"]):
        listed(world, 5, [], types)


def listed(world: World, version: int, states: list[str], types: list[str]) -> None:
    """Without the groups of other scenarios."""
    answer = world.quietly(Api.LIST_GROUPS, version, states_filter=states, types_filter=types)
    answer["groups"] = [group for group in answer["groups"] if "listed" in group["group_id"]]
    world.note(f"list {version} {states} {types}", answer)


def wait_for_rebalance(member: Member) -> None:
    """By heartbeats that are not noted: how many there are depends on how fast the broker is."""
    deadline = time.monotonic() + LIMIT
    fields = {"group_id": member.group, "generation_id": member.generation, "group_instance_id": member.instance}
    while not member.world.quietly(Api.HEARTBEAT, 4, member_id=member.member_id, **fields)["error_code"]:
        assert time.monotonic() < deadline, "no rebalance began"
    member.heartbeat()


SCENARIOS = [
    strangers,
    bad_wishes,
    one_generation,
    those_who_do_not_fit,
    a_full_group,
    an_elected_protocol,
    static_members,
    a_static_member_with_another_protocol,
    a_static_member_that_waits,
    a_member_that_asks_again,
    silent_members,
    late_members,
    members_that_do_not_sync,
    followers_that_do_not_sync,
    offsets_alone,
    other_kinds,
    lists,
]


@contextmanager
def world_of(bootstrap: str) -> Iterator[World]:
    world = World(bootstrap)
    try:
        asked = {"topics": [{"topic_id": None, "name": TOPIC}], "allow_auto_topic_creation": True}
        deadline = time.monotonic() + LIMIT
        while world.topic_id is None:
            assert time.monotonic() < deadline, "the topic was not made"
            (topic,) = world.quietly(Api.METADATA, 12, **asked, include_topic_authorized_operations=False)["topics"]
            if not topic["error_code"] and len(topic["partitions"]) == 2:
                world.topic_id = topic["topic_id"]
        yield world
    finally:
        world.close()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with kafka_server(directory, SETTINGS | {"num.partitions": "2"}) as server:
        with world_of(server.bootstrap) as world:  # until the coordinator is there
            deadline = time.monotonic() + LIMIT
            while world.quietly(Api.FIND_COORDINATOR, 2, key="g", key_type=0)["error_code"]:
                assert time.monotonic() < deadline, "there is no coordinator"
                time.sleep(0.1)
            while world.quietly(Api.LIST_GROUPS, 5, states_filter=[], types_filter=[])["error_code"]:
                assert time.monotonic() < deadline, "the coordinator does not load"
                time.sleep(0.1)
        yield server.bootstrap


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafka_and_we_give_the_same_answers(kafka: str, scenario: Callable[[World], None]) -> None:
    with Broker(settings=SETTINGS | {"num.partitions": 2}) as broker, world_of(broker.bootstrap) as ours:
        scenario(ours)
    with world_of(kafka) as theirs:
        scenario(theirs)
    for own, expected in itertools.zip_longest(ours.transcript, theirs.transcript):
        assert own == expected
