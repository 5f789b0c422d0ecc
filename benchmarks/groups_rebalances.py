"""Rebalances a group again and again: python -m benchmarks.groups_rebalances HOST PORT TOPIC PROTOCOL ...

A process of its own (see `main`). Nine members are there; a tenth joins, and leaves again. Both happen between the
heartbeats of the ninth member and of the first. Prints JSON: for each join and each leave how long it took until
every member had the settled assignment, and how much of that was beyond the heartbeats, in milliseconds.
"""

import asyncio
import gc
import json
import sys
from uuid import uuid4

from benchmarks import broker_wire as wire
from benchmarks.groups_clock import Rebalance
from benchmarks.groups_members import Group, Member, member_of

MEMBERS = 10
LIMIT = 60.0  # seconds, for a rebalance
CALM = 1.2  # seconds before each: brokers put off a new assignment of the consumer protocol for 1 s after the last


class Rebalances:
    def __init__(self, group: Group, protocol: str, address: tuple[str, int], tasks: asyncio.TaskGroup) -> None:
        self._group, self._protocol, self._address, self._tasks = group, protocol, address, tasks
        self.joins: list[Rebalance] = []
        self.leaves: list[Rebalance] = []

    async def run(self, cycles: int, calm: float = CALM) -> None:
        self._group.expect(MEMBERS - 1)
        others = [await self._connected(place) for place in range(MEMBERS - 1)]
        for member in others:
            self._tasks.create_task(member.run())
        await asyncio.wait_for(self._group.settled(), LIMIT)
        for _ in range(cycles):
            await self._cycle(calm)
        for member in others:
            member.leave()

    async def _cycle(self, calm: float) -> None:
        last = await self._connected(MEMBERS - 1)
        await self._calm_for(calm)
        self._group.expect(MEMBERS)
        self._group.clock.start()
        self._tasks.create_task(last.run())
        self.joins.append(await self._rebalance())
        await self._calm_for(calm)
        self._group.expect(MEMBERS - 1)
        self._group.clock.start()
        last.leave()
        self.leaves.append(await self._rebalance())

    async def _rebalance(self) -> Rebalance:
        await asyncio.wait_for(self._group.settled(), LIMIT)
        return self._group.clock.stop()

    async def _calm_for(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await asyncio.sleep(self._group.until_next(MEMBERS - 0.5))

    async def _connected(self, place: int) -> Member:
        member = member_of(self._group, self._protocol, place)
        await member.connect(*self._address)
        return member


async def rebalanced(
    address: tuple[str, int], topic: str, protocol: str, interval: float, cycles: int, calm: float = CALM
) -> Rebalances:
    with wire.connect(*address) as connection:
        (found,) = wire.metadata(connection, [topic])["topics"]
    group = Group(str(uuid4()), topic, found["topic_id"], len(found["partitions"]), interval, MEMBERS)
    async with asyncio.TaskGroup() as tasks:
        rebalances = Rebalances(group, protocol, address, tasks)
        await rebalances.run(cycles, calm)
    return rebalances


def main(host: str, port: str, topic: str, protocol: str, interval: str, cycles: str) -> None:
    gc.disable()
    done = asyncio.run(rebalanced((host, int(port)), topic, protocol, float(interval), int(cycles)))
    milliseconds = {
        name: [[part * 1e3 for part in each] for each in rebalances]
        for name, rebalances in (("joins", done.joins), ("leaves", done.leaves))
    }
    print(json.dumps(milliseconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
