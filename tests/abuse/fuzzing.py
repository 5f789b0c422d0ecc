"""Sends mutated frames to a broker over many connections, one frame at a time on each, and waits for its verdict.

Behind each frame comes a harmless question. Either it is answered, or the broker closes the connection: then the next
frame gets a new one. A frame may also have begun a long wait; then the client goes away, as clients do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

from tests.abuse.mutations import Mutations
from tests.abuse.wire import LENGTH, who_are_you

CONNECTIONS = 48
PATIENCE = 0.25  # seconds for a frame that may have begun a long wait
MARK = 0x5EED5EED

ANSWERED, CLOSED, LEFT = "answered", "closed", "left alone"


def fuzz(address: tuple[str, int], seed: str, frames: int, topic_ids: tuple[UUID, ...]) -> Counter[str]:
    """What became of so many frames."""
    return asyncio.run(_fuzz(address, seed, frames, topic_ids))


async def _fuzz(address: tuple[str, int], seed: str, frames: int, topic_ids: tuple[UUID, ...]) -> Counter[str]:
    mutations = Mutations(seed, topic_ids)
    fates: Counter[str] = Counter()
    left = frames

    async def work() -> None:
        nonlocal left
        client: Fuzzer | None = None
        while left > 0:
            left -= 1
            frame, lies = mutations.next()
            client = client or await Fuzzer.connected(address)
            fate = await client.send(frame, lies)
            fates[fate] += 1
            if fate != ANSWERED:
                client.close()
                client = None
        if client is not None:
            client.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(work())
    return fates


class Fuzzer(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = bytearray()
        self._verdict: asyncio.Future[str] | None = None
        self._lost = False

    @staticmethod
    async def connected(address: tuple[str, int]) -> Fuzzer:
        _, fuzzer = await asyncio.get_running_loop().create_connection(Fuzzer, *address)
        return fuzzer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def send(self, frame: bytes, lies: bool) -> str:
        if self._lost:
            return CLOSED
        loop = asyncio.get_running_loop()
        self._verdict = loop.create_future()
        timer = loop.call_later(PATIENCE, self._decide, LEFT)
        self._transport.write(frame + who_are_you(MARK))
        if lies:  # it waits for bytes that will not come, or has taken the question for a part of the frame
            self._transport.write_eof()
        fate = await self._verdict
        timer.cancel()
        return fate

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            if LENGTH.unpack_from(self._received, LENGTH.size)[0] == MARK:
                self._decide(ANSWERED)
            del self._received[:end]

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._decide(CLOSED)

    def close(self) -> None:
        self._transport.abort()

    def _decide(self, fate: str) -> None:
        if self._verdict is not None and not self._verdict.done():
            self._verdict.set_result(fate)
