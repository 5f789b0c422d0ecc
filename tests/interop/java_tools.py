"""The tools of Apache Kafka's own distribution, run on a broker.

    told = succeeds(broker.bootstrap, "TopicCommand", "--list")

`Verifiables` runs the tools that tell what they do as lines of JSON, and waits for what they tell.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tests.interop.kafka_distribution import java_command, java_environment

TOOLS = "org.apache.kafka.tools"
LIMIT = 120.0  # seconds
# Every consumer of the old protocol says so.
ADVERTISEMENT = "The consumer rebalance protocol (KIP-848) is production-ready!"


def run(bootstrap: str, tool: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a tool by its class, in the tools' package unless it tells its own."""
    return subprocess.run(
        command(bootstrap, tool, *arguments),
        env=java_environment(),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )


def command(bootstrap: str, tool: str, *arguments: str) -> list[str]:
    name = tool if tool.startswith("kafka.") else f"{TOOLS}.{tool}"
    return java_command(name, "--bootstrap-server", bootstrap, *arguments)


def succeeds(bootstrap: str, tool: str, *arguments: str, stdin: str = "", stderr: str = "") -> str:
    """What it says; it must end well, and say on stderr only what is expected."""
    ended = run(bootstrap, tool, *arguments, stdin=stdin)
    said = [line for line in ended.stderr.splitlines() if line and not line.startswith(ADVERTISEMENT)]
    assert (ended.returncode, said) == (0, [stderr] if stderr else []), ended.stdout
    return ended.stdout


def fails(bootstrap: str, tool: str, *arguments: str) -> str:
    """What it says when it ends with 1."""
    ended = run(bootstrap, tool, *arguments)
    assert ended.returncode == 1, ended.stdout
    return ended.stdout + ended.stderr


def table(told: str) -> list[dict[str, str]]:
    """The rows of a table, by their headings."""
    heading, *rows = [line.split() for line in told.splitlines() if line.strip()]
    return [dict(zip(heading, row, strict=False)) for row in rows]


class Verifiable:
    """A tool that is running, and what it has told so far."""

    def __init__(self, command: list[str], told: threading.Condition) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process
        self.process = subprocess.Popen(
            command, env=java_environment(), stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.events: list[dict[str, Any]] = []
        self._told = told
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._told:
                self.events.append(json.loads(line))
                self._told.notify_all()
        with self._told:  # whoever waits shall see that it has ended
            self._told.notify_all()

    @property
    def mishap(self) -> str | None:
        """Why it has ended, if not as it should."""
        if not self._reader.is_alive() and self.process.wait(LIMIT) > 0:
            self._errors.seek(0)
            return self._errors.read()
        return None

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["name"] == name]

    @property
    def assigned(self) -> set[tuple[str, int]]:
        """The partitions that a consumer has now."""
        held: set[tuple[str, int]] = set()
        for event in self.events:
            partitions = {(each["topic"], each["partition"]) for each in event.get("partitions", ())}
            if event["name"] == "partitions_assigned":
                held |= partitions
            elif event["name"] == "partitions_revoked":
                held -= partitions
        return held

    @property
    def consumed(self) -> int:
        return sum(event["count"] for event in self.named("records_consumed"))

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def _end(self) -> None:
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


class Verifiables:
    """Tools that run side by side until the block ends."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._told = threading.Condition()
        self._running: list[Verifiable] = []

    def __enter__(self) -> Verifiables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._running:
            each.kill()

    def start(self, tool: str, *arguments: str) -> Verifiable:
        started = Verifiable(command(self._bootstrap, tool, *arguments), self._told)
        self._running.append(started)
        return started

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, which is looked at whenever one of the tools tells something."""
        with self._told:
            if not self._told.wait_for(lambda: condition() or bool(self._mishaps()), LIMIT):
                told = [[event["name"] for event in each.events] for each in self._running]
                raise AssertionError(f"not after {LIMIT:.0f} s; told were {told}")
            assert condition(), "".join(self._mishaps())

    def _mishaps(self) -> list[str]:
        return [mishap for each in self._running if (mishap := each.mishap) is not None]
