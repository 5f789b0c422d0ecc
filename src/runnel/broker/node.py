"""One broker's parts, as its handlers see them.

Everything here lives on the event loop's thread. What may wait for a disk goes through `in_thread`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.broker.cluster import ClusterState, cluster_id_entry, open_cluster
from runnel.broker.configs.groups import GroupConfigs
from runnel.broker.configs.live import live_settings
from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.configs.topics import topic_settings
from runnel.broker.disk_room import DiskRoom
from runnel.broker.endpoints import Endpoint
from runnel.broker.groups import open_groups
from runnel.broker.handover import Handover
from runnel.broker.limits import Unsent
from runnel.broker.lines import RareLines
from runnel.broker.mistakes import CLIENTS_TRY_AGAIN, LONGEST_TEXT
from runnel.broker.producer_ids import ProducerIds
from runnel.broker.quotas import Quotas
from runnel.broker.topics import Topics
from runnel.broker.transactions import open_transactions
from runnel.broker.waits import Waits
from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.files import DISK, Files
from runnel.log import Append, Appended, Log, open_log
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision

if TYPE_CHECKING:
    from runnel.broker.request import Request

Answer = TypeVar("Answer")

THREADS = 4  # for reads from the disk and for the care of topics

logger = logging.getLogger(__name__)


class Node:
    def __init__(
        self,
        log: Log,
        static_configs: Mapping[str, str],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock = SYSTEM_CLOCK,
        chance: random.Random | None = None,
    ) -> None:
        self.log = log
        self.loop = loop
        self.clock = clock
        self.chance = chance or random.SystemRandom()
        self.static_configs = static_configs  # as they were given at the start
        self.endpoints: Mapping[str, Endpoint] = {}
        self.handover = Handover(loop)
        self.unsent = Unsent()
        self.waits = Waits(self.handover)
        self.disk_room = DiskRoom(log, clock)
        self.disk_reads = asyncio.Semaphore(THREADS)  # what a fetch may read is known when its turn comes
        self.stopping = False
        self._refusals = RareLines(logger, clock)
        self._tasks: set[asyncio.Task[object]] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="runnel-broker")
        self.cluster = open_cluster(log)
        self.cluster_id = self.cluster.run(self._named)
        self.settings = live_settings(static_configs, self.cluster.read(lambda state: dict(state.configs)))
        log.follow(self.settings.log)
        self.producer_ids = ProducerIds(self.cluster, clock)
        self.group_configs = GroupConfigs(self.cluster.read(lambda state: dict(state.configs)))
        self.quotas = Quotas(self.settings, self.cluster.read(lambda state: dict(state.quotas)))
        self.topics = Topics(
            self.cluster,
            log,
            clock,
            self.chance,
            settings_of=lambda configs: topic_settings(self.settings, configs),
            in_thread=self.in_thread,
        )
        self.groups = open_groups(
            log,
            settings=lambda: self.settings,
            clock=clock,
            timers=loop,
            chance=self.chance,
            topics=self.topics,
            configs_of=self.group_configs.of,
        )
        self.transactions = open_transactions(self)
        self.topics.load()
        self.topics.when_deleted.append(self.groups.forget_topic)
        self.groups.start()

    @property
    def node_id(self) -> int:
        return self.settings.id

    def endpoint(self, listener: str) -> Endpoint:
        """Where a client of this listener finds the broker."""
        return self.endpoints[listener]

    async def in_thread(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Run what may wait for a disk in a thread."""
        return await self.loop.run_in_executor(self._threads, function, *arguments)

    def appended(self, append: Append) -> Awaitable[Appended]:
        """The answer to an append, on the event loop."""
        future: asyncio.Future[Appended] = self.loop.create_future()

        def settle(done: Append) -> None:
            if future.done():
                return
            if done.error is not None:
                future.set_exception(done.error)
            else:
                future.set_result(done.appended)

        append.when_done(lambda done: self.handover.call(settle, done))
        return future

    def refused(self, request: Request, code: ErrorCode, reason: object) -> None:
        """A line in the log for what is wrong with a client, or between clients; not for what they try again."""
        if code in CLIENTS_TRY_AGAIN:
            return
        self._refusals.tell(
            "%s of client %s at %s is refused, %s: %.*s",
            request.name, request.client_id, request.peer.host, code.name, LONGEST_TEXT, reason,
        )  # fmt: skip

    def start_task(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something that nobody waits for; an error is logged."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task failed", exc_info=task.exception())

    def decide(self, handler: Callable[[ClusterState], Decision[Answer]]) -> Awaitable[Answer]:
        """Decide on the cluster state; the answer comes when it is durable."""
        return asyncio.wrap_future(self.cluster.submit(handler), loop=self.loop)

    def throttle_producer(self, client_id: str | None, size: int) -> int:
        """How many milliseconds a producer is to wait: it is over its quota, or the disk is nearly full."""
        short_of_room = self.disk_room.throttle_ms(size)
        if not self.quotas.are_set:
            return short_of_room
        over_quota = self.quotas.throttle_ms("producer_byte_rate", client_id or "", size, self.clock.elapsed())
        return max(over_quota, short_of_room)

    def consumable(self, client_id: str | None, size: int) -> int:
        """How much of `size` bytes a consumer gets at once, so that it can be held to its quota."""
        if not self.quotas.are_set:
            return size
        return int(min(size, self.quotas.room("consumer_byte_rate", client_id, self.clock.elapsed())))

    def throttle_consumer(self, client_id: str | None, size: int) -> int:
        return self.quotas.throttle_ms("consumer_byte_rate", client_id or "", size, self.clock.elapsed())

    def stop(self) -> None:
        """Answer those who wait."""
        self.stopping = True
        self.transactions.stop()
        self.groups.stop()
        self.waits.wake_all()

    def close(self) -> None:
        """After the last answer: stop the log cleanly."""
        self._threads.shutdown()
        self.log.close()

    def _named(self, state: ClusterState) -> Decision[str]:
        if state.cluster_id:
            return Decision(state.cluster_id)
        entry = cluster_id_entry(self.clock, self.chance)
        return Decision(_text(entry.value), [entry])


def _text(value: bytes | None) -> str:
    return (value or b"").decode().strip('"')


def open_node(
    data: str,
    configs: Mapping[str, str],
    *,
    files: Files = DISK,
    loop: asyncio.AbstractEventLoop,
    clock: Clock = SYSTEM_CLOCK,
) -> Node:
    """Open the data directory and all that is in it."""
    settings, notices = BrokerSettings.from_names(configs)
    for notice in notices:
        logger.warning("%s", notice)
    log = open_log(data, settings=settings.log, files=files, clock=clock)
    try:
        return Node(log, configs, loop=loop, clock=clock)
    except BaseException:
        log.close()
        raise
