"""A bad network between clients and a broker: it delays, drops, doubles and reorders whole requests.

The proxy understands Kafka's framing and the first fields of a request, no more. To the client it is a broker whose
answers come in order; to the broker it is many clients. What it may do to a request:

    delay       it and those behind it wait;
    drop        the connection ends before the broker sees it;
    lose        the broker does it, and the connection ends before the client has the answer;
    strand      the connection ends, and the request arrives later, on a connection of its own;
    duplicate   it goes its way, and a copy arrives later, on a connection of its own, whose answer nobody reads;
    reorder     it goes by another connection, behind those that follow it; the answers still come in order.

A request that arrives late is what transactions fear most. Before version 5 of EndTxn (KIP-890) Kafka has no defence
against a late one of the same producer epoch, nor against a late TxnOffsetCommit, so `strand` and `duplicate` spare
these versions: a client of that generation would fail on Apache Kafka, too.

Requests with acks=0 have no answer; a client that sends them through the proxy would wait for ever.
"""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">hhi")  # API key, version, correlation id
HOST = "127.0.0.1"

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 0, 22, 24, 25, 26, 28
TRANSACTIONAL = (PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT)
# The least version that a broker can tell from one of a later transaction.
SAFE_WHEN_LATE = {PRODUCE: 0, INIT_PRODUCER_ID: 0, ADD_PARTITIONS: 0, ADD_OFFSETS: 0, END_TXN: 5, TXN_OFFSET_COMMIT: 5}
LATE_FAULTS = ("strand", "duplicate")


class Request(NamedTuple):
    key: int
    version: int
    frame: bytes

    @classmethod
    def parse(cls, frame: bytes) -> Request:
        key, version, _ = HEADER.unpack_from(frame, LENGTH.size)
        return cls(key, version, frame)


@dataclass(frozen=True)
class Faults:
    """How likely each fault is for a request of a transaction, and how long things are held, in seconds."""

    delay: float = 0.05
    drop: float = 0.01
    lose: float = 0.02
    strand: float = 0.01
    duplicate: float = 0.1
    reorder: float = 0.03
    longest_delay: float = 0.1
    longest_lateness: float = 1.0

    def likelihoods(self, request: Request) -> Mapping[str, float]:
        if request.key not in TRANSACTIONAL:
            return {"delay": self.delay / 5}
        names = ["delay", "drop", "lose", "reorder"]
        if request.version >= SAFE_WHEN_LATE[request.key]:
            names += LATE_FAULTS
        return {name: getattr(self, name) for name in names}

    def draw(self, request: Request, chance: random.Random) -> str:
        number = chance.random()
        for name, likelihood in self.likelihoods(request).items():
            number -= likelihood
            if number < 0:
                return name
        return "pass"


NO_FAULTS = Faults(0, 0, 0, 0, 0, 0)


class Proxy:
    """Use it with `with`: it runs in a thread of its own. `faults` can be changed at any time."""

    def __init__(self, chance: random.Random, faults: Faults = NO_FAULTS, *, port: int = 0) -> None:
        self.faults = faults
        self.target: tuple[str, int] | None = None  # where the broker listens; None while there is none
        self.port = port
        self.counts: Counter[str] = Counter()
        self._chance = chance
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds them only weakly

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def is_busy(self) -> bool:
        """Whether requests are still to arrive late."""
        return bool(self._tasks)

    def __enter__(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        with suppress(OSError, asyncio.IncompleteReadError, Cut):
            if self.target is not None:
                await self._pass(reader, writer, await Upstream.connect(self.target))
        writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: Upstream) -> None:
        answers: asyncio.Queue[asyncio.Future[bytes]] = asyncio.Queue()
        passing = asyncio.create_task(_pass_answers(answers, writer))
        try:
            while not passing.done():
                request = Request.parse(await read_frame(reader))
                answers.put_nowait(await self._forward(request, upstream))
        finally:
            writer.close()
            passing.cancel()
            upstream.close()

    async def _forward(self, request: Request, upstream: Upstream) -> asyncio.Future[bytes]:
        """Do to a request what chance wants; the answer to come."""
        fault = self.faults.draw(request, self._chance)
        self.counts[fault] += 1
        if fault == "delay":
            await asyncio.sleep(self._chance.uniform(0, self.faults.longest_delay))
        elif fault == "drop":
            raise Cut
        elif fault == "lose":
            await upstream.ask(request.frame)
            raise Cut
        elif fault == "strand":
            self._send_late(request, self._chance.uniform(0, self.faults.longest_lateness))
            raise Cut
        elif fault == "duplicate":
            self._send_late(request, self._chance.uniform(0, self.faults.longest_lateness))
        elif fault == "reorder":
            return self._send_late(request, self._chance.uniform(0, self.faults.longest_delay))
        return upstream.ask(request.frame)

    def _send_late(self, request: Request, seconds: float) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._deliver(request, seconds, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer

    async def _deliver(self, request: Request, seconds: float, answer: asyncio.Future[bytes]) -> None:
        try:
            await asyncio.sleep(seconds)
            if self.target is None:
                return
            upstream = await Upstream.connect(self.target)
            try:
                found = await upstream.ask(request.frame)
                if not answer.done():
                    answer.set_result(found)
            finally:
                upstream.close()
        except (OSError, Cut):
            pass  # the broker is not there; so the request is lost
        finally:
            answer.cancel()


class Cut(Exception):
    """The connection is to end."""


class Upstream:
    """A connection to the broker. Its answers come in the order of the requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked: list[asyncio.Future[bytes]] = []
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, address: tuple[str, int]) -> Upstream:
        return cls(*await asyncio.open_connection(*address, limit=1 << 20))

    def ask(self, frame: bytes) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._listening.done():
            answer.set_exception(Cut())
            answer.exception()  # nobody may wait for it any more
            return answer
        self._asked.append(answer)
        self._writer.write(frame)
        return answer

    async def _listen(self) -> None:
        try:
            while True:
                frame = await read_frame(self._reader)
                answer = self._asked.pop(0)
                if not answer.done():
                    answer.set_result(frame)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for answer in self._asked:
                if not answer.done():
                    answer.set_exception(Cut())
                    answer.exception()  # nobody may wait for it any more

    def close(self) -> None:
        """Without waiting: whoever waits can be cancelled before all is closed."""
        self._writer.close()
        self._listening.cancel()


async def _pass_answers(answers: asyncio.Queue[asyncio.Future[bytes]], writer: asyncio.StreamWriter) -> None:
    """Give the client its answers in order; the connection ends with the first that does not come."""
    try:
        while True:
            answer = await answers.get()
            writer.write(await asyncio.shield(answer))
            await writer.drain()
    except (OSError, Cut, asyncio.CancelledError):
        pass
    finally:
        writer.close()  # which ends the reading side, too


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(LENGTH.size)
    return length + await reader.readexactly(LENGTH.unpack(length)[0])
