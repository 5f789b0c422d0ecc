"""Tells alerts: to the log at once, to topics and commands by threads of their own, so that nobody waits for them.

What a topic cannot take now, because its broker is away, it is told later, in order. A command gets the alert as JSON
on standard input; one that fails is logged.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO

from runnel.app.alerts import Event
from runnel.client import Producer
from runnel.counted import counted
from runnel.errors import RunnelError
from runnel.pipeline.kafka import Kafka

logger = logging.getLogger(__name__)

MOST_WAITING = 1_000
AGAIN_AFTER = 5.0  # seconds
LONGEST_COMMAND = 60.0
LAST_WORDS = 10.0  # seconds that are waited at the end for what is still to be told
LOOK_EVERY = 0.5  # seconds, whether a command is to be ended
SHOWN = 500  # characters of what a command says
KEPT = 4 * SHOWN  # bytes
PIECE = 65_536
A_MOMENT = 1.0  # seconds, for what was said last


class Telling:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._producer: Producer | None = None
        self._made: set[str] = set()
        self._ending = threading.Event()
        self._topics = Line("topic", self._to_topic)
        self._commands = Line("command", lambda event: _to_command(event, self._ending))

    def tell(self, events: Iterable[Event]) -> None:
        for event in events:
            who = event.query or event.app
            level = logging.WARNING if event.begins else logging.INFO
            logger.log(
                level,
                "alert %s %s: %s: %s",
                event.rule.alert.kind,
                "begins" if event.begins else "ends",
                who,
                event.what,
                extra={"alert": event.to_object()},
            )
            if event.rule.topic is not None:
                self._topics.put(event)
            if event.rule.command is not None:
                self._commands.put(event)

    def close(self, *, patience: float = LAST_WORDS) -> None:
        """When all is told, or the patience is over: a command that still runs is ended then."""
        deadline = time.monotonic() + patience
        for line in (self._topics, self._commands):
            line.close(deadline)
        self._ending.set()
        self._commands.end(A_MOMENT)
        self._topics.end(0)
        if self._producer is not None:
            try:
                self._producer.close()
            except RunnelError as error:
                logger.warning("an alert was not told: %s", error)

    def _to_topic(self, event: Event) -> bool:
        """False: it must be tried again."""
        topic = event.rule.topic
        assert topic is not None
        try:
            if topic not in self._made:
                self._kafka.make_topic(topic)
                self._made.add(topic)
            if self._producer is None:
                self._producer = Producer(self._kafka.bootstrap, settings=dict(self._kafka.settings))
            self._producer.produce(topic, json.dumps(event.to_object()).encode(), key=event.key.encode())
        except RunnelError as error:
            self._made.discard(topic)  # it may have been deleted
            logger.warning("the topic %s could not be told of an alert, and is told later: %s", topic, error)
            return False
        return True


class Line:
    """Events that wait for one listener, in their order. Its thread begins with the first."""

    def __init__(self, name: str, tell: Callable[[Event], bool], *, again_after: float = AGAIN_AFTER) -> None:
        self._name = name
        self._tell = tell
        self._again_after = again_after
        self._waiting: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._ends = 0  # among what waits
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"runnel-alerts-{name}", daemon=True)

    def put(self, event: Event) -> None:
        if not self._thread.is_alive():
            self._thread.start()
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            logger.error("an alert is not told: %d wait already", MOST_WAITING)

    def close(self, deadline: float) -> None:
        if not self._thread.is_alive():
            return
        try:
            self._waiting.put_nowait(None)
            self._ends += 1
        except queue.Full:
            self._ending.set()
        self._thread.join(max(0.0, deadline - time.monotonic()))
        self._ending.set()

    def end(self, seconds: float) -> None:
        """Of one that is closed: what is under way has so long to end, and what is left is logged."""
        if self._thread.is_alive():
            self._thread.join(seconds)
        if left := self._waiting.unfinished_tasks - self._ends:
            told = counted(left, f"alert was not told to a {self._name}", f"alerts were not told to a {self._name}")
            logger.warning("%s: the app ends", told)

    def _serve(self) -> None:
        while (event := self._waiting.get()) is not None and not self._ending.is_set():
            while not self._is_told(event):
                if self._ending.wait(self._again_after):
                    return
            self._waiting.task_done()

    def _is_told(self, event: Event) -> bool:
        try:
            return self._tell(event)
        except Exception:  # a defect here must not go unseen, and must not end the line for those that follow
            logger.exception("an alert was not told")
            return True


def _to_command(event: Event, ending: threading.Event) -> bool:
    command = event.rule.command
    assert command is not None
    try:
        running = subprocess.Popen(
            command,
            shell=True,
            process_group=0,  # what the shell has started ends with it
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        logger.warning("the command of an alert could not be started: %s: %s", error.strerror, command)
        return True
    assert running.stdin is not None
    said = [Said(pipe) for pipe in (running.stderr, running.stdout) if pipe is not None]
    with suppress(BrokenPipeError), running.stdin as stdin:  # it need not want to know
        stdin.write(json.dumps(event.to_object()).encode())
    code = _waited_for(running, ending)
    if code is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        why = ", as the app ends" if ending.is_set() else f" after {LONGEST_COMMAND:.0f} s"
        logger.warning("the command of an alert was ended%s: %s", why, command)
    elif code:
        words = next(filter(None, (each.text() for each in said)), "")
        logger.warning("the command of an alert ended with exit code %d: %s: %s", code, command, words)
    return True


def _waited_for(running: subprocess.Popen[bytes], ending: threading.Event) -> int | None:
    """Its exit code; None if it takes too long, or longer than the app."""
    deadline = time.monotonic() + LONGEST_COMMAND
    while not ending.is_set() and time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            return running.wait(LOOK_EVERY)
    return running.poll()


class Said(threading.Thread):
    """Reads what a command says, and keeps the beginning: it may say very much, and what it leaves in the background
    may go on when it has ended.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(name="runnel-alerts-said", daemon=True)
        self._pipe = pipe
        self._kept = b""
        self.start()

    def run(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), PIECE):
                self._kept = (self._kept + piece)[:KEPT] if len(self._kept) < KEPT else self._kept

    def text(self) -> str:
        """Of a command that has ended."""
        self.join(A_MOMENT)
        return self._kept.decode(errors="backslashreplace").strip()[:SHOWN]  # it may say what is no text
