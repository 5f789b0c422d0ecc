"""A broker inside another program: for its tests, or because it needs no more.

from runnel import Broker

with Broker() as broker:
    print(broker.bootstrap)
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any

import uvloop

from runnel.broker.configs.topics import check_topic_configs
from runnel.broker.server import Server, start_server
from runnel.broker.topic_names import mistake_in_name
from runnel.broker.topics import MOST_PARTITIONS
from runnel.errors import Closed, InvalidSetting

SECONDS_TO_STOP = 60.0


class Broker:
    """A broker on a free port of the loopback interface, in a thread of this process.

    Without `data` it keeps its records in a temporary directory, which is removed at the end. `settings` are Kafka's,
    such as `{"num.partitions": 4}`; a group waits for no further members, unless they say otherwise.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        listen: str = "127.0.0.1:0",
        settings: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        temporary = tempfile.mkdtemp(prefix="runnel-") if data is None else None
        self.data = os.path.abspath(data if data is not None else f"{temporary}/data")
        # At the end of the program, if not before.
        self._remove_data = weakref.finalize(self, _remove, temporary, os.getpid())
        self._configs = {"listeners": f"PLAINTEXT://{listen}", "group.initial.rebalance.delay.ms": "0"}
        self._configs |= _texts("settings", settings)
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._stop: asyncio.Event | None = None

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self._remove_data()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The address for clients: `HOST:PORT`."""
        return str(next(iter(self._running().endpoints.values())))

    def start(self) -> None:
        """Return when it serves. The error, if it cannot, is raised here."""
        if self._thread is not None:
            raise RuntimeError("this broker is running already")
        ready: Future[None] = Future()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="runnel-embedded", daemon=True)
        try:
            self._thread.start()
            ready.result()
        except BaseException:
            if self._thread.ident is not None:  # else the system gave us no thread
                wait([ready])
                if ready.exception() is None:  # it was the start, or the wait for it, that was interrupted
                    self._end_thread()
                self._thread.join()
            self._thread = self._server = None
            raise

    def stop(self) -> None:
        """Stop in good order. The data stay, and `start` goes on with them."""
        if self._process != os.getpid():  # its thread is another process's
            return
        if self._thread is not None:
            self._end_thread()
            self._thread.join(SECONDS_TO_STOP)
            self._thread = self._server = None

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | int | bool] | None = None
    ) -> None:
        """Make a topic without a client; its configuration is under Kafka's names."""
        given = _texts("configs", configs)
        check_topic_configs(given)
        if not _is_whole(partitions) or partitions not in range(1, MOST_PARTITIONS + 1):
            raise InvalidSetting("partitions", partitions, f"a whole number from 1 to {MOST_PARTITIONS:,}")
        node = self._running().node
        mistake = mistake_in_name(name, node.topics)
        if mistake is not None:
            raise InvalidSetting("topic", name, mistake)
        self._on_loop(node.topics.create(name, partitions, given))

    def delete_topic(self, name: str) -> None:
        topics = self._running().node.topics
        topic = topics.find(name)
        if topic is not None and topic.is_internal:
            raise InvalidSetting("topic", name, "one that is not the broker's own")
        self._on_loop(topics.delete(name))

    def close(self) -> None:
        """Stop, and remove the data if they are temporary. In a process that was forked meanwhile nothing happens."""
        self.stop()
        self._remove_data()

    def _end_thread(self) -> None:
        """Ask it to; it serves by now."""
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)

    def _running(self) -> Server:
        if self._server is None:
            raise Closed("this broker")
        return self._server

    def _on_loop(self, work: Coroutine[Any, Any, object]) -> None:
        assert self._loop is not None
        if self._process != os.getpid():  # nobody would do the work
            work.close()
            raise RuntimeError("this broker runs in the process that this one was forked from")
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self, ready: Future[None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._serve(ready))
            except BaseException as error:
                if ready.done():  # it served before: there is nobody to raise it to
                    raise
                ready.set_exception(error)

    async def _serve(self, ready: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._server = await start_server(self.data, self._configs)
        _serving.add(self)
        # With the ports that were taken: after a restart its clients find it again.
        asked, taken = self._server.settings.client_listeners, self._server.bound
        at = [listener._replace(port=endpoint.port) for listener, endpoint in zip(asked, taken, strict=True)]
        self._configs["listeners"] = ",".join(map(str, at))
        ready.set_result(None)
        await self._stop.wait()
        await self._server.stop()


_serving: weakref.WeakSet[Broker] = weakref.WeakSet()


def _leave_sockets() -> None:
    """To the process that this one was forked from: else they would stay open when the broker is stopped there, and its
    clients would wait for an answer. The numbers stay taken, for the loop, which does not run here, has them.
    """
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for broker in tuple(_serving):
        for descriptor in broker._server.descriptors() if broker._server is not None else ():
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
    _serving.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_leave_sockets)


def _remove(temporary: str | None, owner: int) -> None:
    """A process that was forked from the owner ends as well, and the broker is not its. It may be gone already."""
    if temporary is not None and os.getpid() == owner:
        shutil.rmtree(temporary, ignore_errors=True)


def _texts(argument: str, given: Mapping[str, str | int | bool] | None) -> dict[str, str]:
    values: Any = {} if given is None else given
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InvalidSetting(argument, given, 'names and values, such as {"retention.ms": 60_000}')
    return {name: _text(value) for name, value in values.items()}


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
