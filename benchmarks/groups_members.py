"""Members of one group, which speak both group protocols as a client does and have no timer but the heartbeat's.

The heartbeats of the members are spread over the interval evenly: member n of ten sends its own n tenths of an interval
after the first, whatever it has sent besides. What an answer asks for is done at once. Nothing is consumed.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import UUID, uuid4

from benchmarks import broker_wire as wire
from benchmarks.groups_clock import GroupClock, State
from benchmarks.groups_partitions import (
    Partitions,
    assignment,
    divided,
    divided_again,
    is_settled,
    owned_in,
    partitions_in,
    subscription,
)
from runnel.protocol.versions import Api

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION, CONSUMER_HEARTBEAT_VERSION = 9, 5, 4, 5, 1
SESSION = 30_000  # milliseconds
REBALANCE = 60_000
JOINS, LEAVES = 0, -1  # member epochs that say so
NO_GENERATION = -1
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
EAGER, COOPERATIVE, CONSUMER = "classic, eager", "classic, cooperative", "consumer"


class Group:
    """One topic, its members, and when all of them have what they are to have."""

    def __init__(self, name: str, topic: str, topic_id: UUID, partitions: int, interval: float, places: int) -> None:
        self.name, self.topic, self.topic_id, self.partitions = name, topic, topic_id, partitions
        self.clock = GroupClock()
        self.members: list[Member] = []
        self._interval, self._places = interval, places
        self._began = time.perf_counter()
        self._settled = asyncio.Event()
        self._expected = 0

    def expect(self, members: int) -> None:
        self._expected = members
        self._settled.clear()

    async def settled(self) -> None:
        """Every member is in the same generation, and each partition has one owner."""
        await self._settled.wait()

    def look(self) -> None:
        members = self.members
        same = len({member.generation for member in members}) == 1
        if same and len(members) == self._expected and is_settled((each.owned for each in members), self.partitions):
            self._settled.set()

    def until_next(self, place: float) -> float:
        """Seconds until this place of the interval comes, between 0 and the number of places."""
        phase = place / self._places * self._interval
        return self._interval - (time.perf_counter() - self._began - phase) % self._interval


class Member(Protocol):
    owned: Partitions
    generation: int

    async def connect(self, host: str, port: int) -> None: ...

    async def run(self) -> None:
        """Join, and stay until told to leave."""

    def leave(self) -> None: ...


class Conversation:
    """A connection with one request in flight."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, api: Api, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
        self._writer.write(wire.frame(api, version, body))
        (size,) = wire.LENGTH.unpack(await self._reader.readexactly(wire.LENGTH.size))
        return wire.decoded(api, version, await self._reader.readexactly(size))

    def close(self) -> None:
        self._writer.close()


class _Heartbeats:
    """What the members of both protocols share: a connection, a place in the interval, and an end."""

    def __init__(self, group: Group, place: int) -> None:
        self.owned: Partitions = frozenset()
        self.generation = NO_GENERATION
        self._group = group
        self._place = place
        self._leaves = asyncio.Event()

    async def connect(self, host: str, port: int) -> None:
        self._conversation = Conversation(*await asyncio.open_connection(host, port))

    def leave(self) -> None:
        self._leaves.set()

    async def run(self) -> None:
        self._group.members.append(self)
        self._is(State.ASKING)
        await self._join_group()
        while not await self._rest():
            self._is(State.ASKING)
            await self._heartbeat()
        self._is(State.ASKING)
        self._group.members.remove(self)
        await self._leave_group()
        self._group.clock.remove(self)
        self._conversation.close()

    def _is(self, state: State) -> None:
        self._group.clock.set(self, state)

    async def _rest(self) -> bool:
        """Until the next heartbeat is due; the answer is whether it is to leave instead."""
        self._is(State.RESTING)
        try:
            await asyncio.wait_for(self._leaves.wait(), self._group.until_next(self._place))
        except TimeoutError:
            return False
        return True

    async def _join_group(self) -> None: ...

    async def _heartbeat(self) -> None: ...

    async def _leave_group(self) -> None: ...


def refuse(answer: Mapping[str, Any], what: str) -> None:
    if answer["error_code"]:
        raise wire.BrokerRefused(f"{what} was refused with error {answer['error_code']}: {answer.get('error_message')}")


class ClassicMember(_Heartbeats):
    def __init__(self, group: Group, place: int, *, cooperative: bool) -> None:
        super().__init__(group, place)
        self._cooperative = cooperative
        self._id = ""
        self._protocol = "cooperative" if cooperative else "eager"

    async def _join_group(self) -> None:
        while True:
            if not self._cooperative:
                self.owned = frozenset()
            joined = await self._joined()
            had, answer = self.owned, await self._synced(joined)
            if answer["error_code"] == REBALANCE_IN_PROGRESS:
                continue
            refuse(answer, "SyncGroup")
            self.generation = joined["generation_id"]
            self.owned = partitions_in(answer["assignment"], self._group.topic)
            self._group.look()
            if not (self._cooperative and had - self.owned):
                return

    async def _joined(self) -> dict[str, Any]:
        while True:
            self._is(State.JOINING if self._id else State.ASKING)
            body = {
                "group_id": self._group.name,
                "session_timeout": SESSION,
                "rebalance_timeout": REBALANCE,
                "member_id": self._id,
                "protocol_type": "consumer",
                "protocols": [{"name": self._protocol, "metadata": subscription(self._group.topic, self.owned)}],
            }
            answer = await self._conversation.ask(Api.JOIN_GROUP, JOIN_VERSION, body)
            self._id = answer["member_id"]
            if answer["error_code"] != MEMBER_ID_REQUIRED:
                refuse(answer, "JoinGroup")
                return answer

    async def _synced(self, joined: Mapping[str, Any]) -> dict[str, Any]:
        self._is(State.ASKING)
        body = {
            "group_id": self._group.name,
            "generation_id": joined["generation_id"],
            "member_id": self._id,
            "protocol_type": "consumer",
            "protocol_name": self._protocol,
            "assignments": self._assignments(joined["members"]) if joined["leader"] == self._id else [],
        }
        return await self._conversation.ask(Api.SYNC_GROUP, SYNC_VERSION, body)

    def _assignments(self, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        topic, partitions = self._group.topic, self._group.partitions
        owned = {member["member_id"]: owned_in(bytes(member["metadata"]), topic) for member in members}
        given = divided_again(owned, partitions) if self._cooperative else divided(owned, partitions)
        return [{"member_id": name, "assignment": assignment(topic, each)} for name, each in given.items()]

    async def _heartbeat(self) -> None:
        body = {"group_id": self._group.name, "generation_id": self.generation, "member_id": self._id}
        answer = await self._conversation.ask(Api.HEARTBEAT, HEARTBEAT_VERSION, body)
        if answer["error_code"] == REBALANCE_IN_PROGRESS:
            await self._join_group()
        else:
            refuse(answer, "Heartbeat")

    async def _leave_group(self) -> None:
        body = {"group_id": self._group.name, "members": [{"member_id": self._id}]}
        refuse(await self._conversation.ask(Api.LEAVE_GROUP, LEAVE_VERSION, body), "LeaveGroup")


class ConsumerMember(_Heartbeats):
    def __init__(self, group: Group, place: int) -> None:
        super().__init__(group, place)
        self._id = str(uuid4())

    async def _join_group(self) -> None:
        names = [self._group.topic]
        await self._tell(JOINS, owned=self.owned, rebalance_timeout=REBALANCE, subscribed_topic_names=names)

    async def _heartbeat(self) -> None:
        await self._tell(self.generation)

    async def _leave_group(self) -> None:
        await self._tell(LEAVES)

    async def _tell(self, epoch: int, owned: Partitions | None = None, **changed: object) -> None:
        """Send a heartbeat, and another as soon as an assignment is taken over."""
        while True:
            partitions = None if owned is None else [{"topic_id": self._group.topic_id, "partitions": sorted(owned)}]
            body = {"group_id": self._group.name, "member_id": self._id, "member_epoch": epoch, **changed}
            body["topic_partitions"] = [] if owned == frozenset() else partitions
            answer = await self._conversation.ask(Api.CONSUMER_GROUP_HEARTBEAT, CONSUMER_HEARTBEAT_VERSION, body)
            refuse(answer, "ConsumerGroupHeartbeat")
            epoch = self.generation = answer["member_epoch"]
            given = answer["assignment"]
            owned = (
                frozenset(number for each in given["topic_partitions"] for number in each["partitions"])
                if given
                else None
            )
            if owned is None or owned == self.owned:
                self._group.look()
                return
            self.owned, changed = owned, {}
            self._group.look()


def _assigned(answer: Mapping[str, Any]) -> Partitions | None:
    """None if nothing was said."""
    if answer["assignment"] is None:
        return None
    return frozenset(number for topic in answer["assignment"]["topic_partitions"] for number in topic["partitions"])


def member_of(group: Group, protocol: str, place: int) -> Member:
    if protocol == CONSUMER:
        return ConsumerMember(group, place)
    return ClassicMember(group, place, cooperative=protocol == COOPERATIVE)
