"""The broker's sockets: it listens, keeps the connections, and stops in good order.

A stop takes three steps: no new connection and no new request; an answer to everything that is under way, for which
those who wait for records or for a rebalance are told at once, and the markers of transactions whose end was answered;
the log's clean end, so that the next start has nothing to check, and no marker to write again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping

from runnel.broker.configs.listeners import Listener
from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.connection import Connection
from runnel.broker.endpoints import Endpoint, advertised
from runnel.broker.limits import Connections, Received, Unsent
from runnel.broker.lines import RareLines
from runnel.broker.metrics import Counters
from runnel.broker.node import Node, open_node
from runnel.broker.request import Request
from runnel.broker.sockets import bind
from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.files import DISK, Files

SECONDS_TO_ANSWER = 15.0  # and to end what is under way at a stop
SECONDS_BETWEEN_CHECKS = 10.0

logger = logging.getLogger(__name__)


class Server:
    """Use `start_server`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.loop = node.loop
        self.connections: set[Connection] = set()
        self.counters = Counters()
        self.received = Received(node.loop, node.settings.queued_max_request_bytes)
        self._admitted = Connections()
        self.bound: list[Endpoint] = []  # where it listens, one for each listener
        self.listening: list[Endpoint] = []  # the same, and both families of one that listens everywhere
        self._servers: list[asyncio.Server] = []
        self._lines = RareLines(logger, node.clock)
        self._care: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def settings(self) -> BrokerSettings:
        return self.node.settings

    @property
    def clock(self) -> Clock:
        return self.node.clock

    @property
    def unsent(self) -> Unsent:
        return self.node.unsent

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Where clients are told to find the broker, by listener."""
        return self.node.endpoints

    # --- starting and stopping

    async def listen(self, listener: Listener, sockets: list[socket.socket]) -> None:
        self.bound.append(Endpoint(listener.host or "0.0.0.0", listener.port))
        self.listening.append(self.bound[-1])
        if not listener.host and any(one.family == socket.AF_INET6 for one in sockets):
            self.listening.append(Endpoint("::", listener.port))
        for one in sockets:
            server = await self.loop.create_server(
                lambda: Connection(self, listener.name),
                sock=one,
                backlog=self.settings.socket_listen_backlog_size,  # it listens once more, and the last word counts
            )
            self._servers.append(server)

    def begin_care(self) -> None:
        self._care = self.loop.create_task(self._take_care())

    async def stop(self) -> None:
        """Answer what is under way and stop cleanly."""
        self._stopping = True
        for server in self._servers:
            server.close()
        if self._care is not None:
            self._care.cancel()
        for connection in tuple(self.connections):
            connection.stop()
        self.node.stop()
        deadline = self.loop.time() + SECONDS_TO_ANSWER
        while (self.connections or self.node.transactions.are_ending) and self.loop.time() < deadline:
            await asyncio.sleep(0.005)
        for connection in tuple(self.connections):
            connection.abort()
        await asyncio.to_thread(self.node.close)

    def descriptors(self) -> list[int]:
        """Of the sockets that are open: those that it listens at, and its connections."""
        listening = [one.fileno() for server in self._servers for one in server.sockets]
        return listening + [connection.descriptor for connection in self.connections]

    # --- the connections' side

    def admit(self, connection: Connection) -> str | None:
        """None, or why the connection is refused."""
        settings = self.settings
        if self._stopping:
            return "the broker is stopping"
        refused = self._admitted.admit(connection.host, settings.max_connections, settings.max_connections_per_ip)
        if refused:
            self.counters.refused_connections += 1
            return refused
        self.counters.connections += 1
        self.connections.add(connection)
        return None

    def release(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._admitted.release(connection.host)

    def count(self, request: Request, answer_size: int) -> None:
        counters, key = self.counters, request.api_key
        counters.requests[key] += 1
        counters.request_bytes[key] += request.size
        counters.answer_bytes[key] += answer_size

    def tell_rarely(self, message: str, *arguments: object, error: BaseException | None = None) -> None:
        """What a client can cause again and again must not fill the disk with lines."""
        self.counters.errors += 1
        self._lines.tell(message, *arguments, error=error)

    # --- care

    async def _take_care(self) -> None:
        # Only open partitions are rolled and retained; opening is spread, so that a start need not wait for it.
        for topic in tuple(self.node.topics.all()):
            try:
                await self.node.in_thread(topic.open_all)
            except Exception:  # the others must not suffer; whoever uses it is told
                logger.exception("topic %s could not be opened", topic.name)
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
            self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that have been silent for `connections.max.idle.ms`."""
        limit = self.settings.connections_max_idle_ms
        if limit < 0:
            return
        now = self.clock.elapsed()
        for connection in tuple(self.connections):
            if not connection.has_been_silent():
                connection.last_active = now
            elif connection.last_active < now - limit:
                connection.abort()


async def start_server(
    data: str, configs: Mapping[str, str], *, files: Files = DISK, clock: Clock = SYSTEM_CLOCK
) -> Server:
    """Take the ports, open the data directory, and serve."""
    settings, _ = BrokerSettings.from_names(configs)
    bound = [bind(listener, settings.socket_listen_backlog_size) for listener in settings.client_listeners]
    try:
        node = open_node(data, configs, files=files, loop=asyncio.get_running_loop(), clock=clock)
    except BaseException:
        for _, sockets in bound:
            for one in sockets:
                one.close()
        raise
    node.endpoints = advertised([listener for listener, _ in bound], settings.advertised_listeners)
    server = Server(node)
    node.log.commit_on(node.loop, node.handover.together)
    node.transactions.start()  # before anybody can ask: whoever reads waits for the ends that a crash has left
    for listener, sockets in bound:
        await server.listen(listener, sockets)
    server.begin_care()
    return server
