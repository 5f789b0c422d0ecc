"""Clients with transactions on a bad network and a broker that dies: what they record is handed to the checker.

    python -m tests.transactions.workload [--broker runnel|kafka] [--seed N] [--steps N] [--keep DIR] [--hurry]

Writers of both generations write to the input, loops of both carry it to the output, readers of both isolation levels
look on. A plan, drawn from the seed, says what happens to them step by step: the broker is killed and started again, a
client is killed and replaced, a client is stopped in the midst of its work, replaced, and wakes up as a zombie. All the
time the proxy spoils requests. At the end the network is good, a writer is killed in a transaction, the others end in
peace, and when the time of that transaction is over, everything is read.

With `--hurry` it ends after the first step with a violation, and waits for less long. Each violation is a line that
begins with `wrong: `.

The same seed gives the same plan, the same choices of each client and the same chances of the proxy; what meets what
is left to the machine. The history stays in the folder, so the checker can be asked again.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.transactions.brokers import BROKERS, ROOT, Broker
from tests.transactions.checker import Violation, check, check_so_far
from tests.transactions.clients import FENCED, GROUP, INPUT, OUTPUT, RECONNECT, STUCK, UNSURE, Settings
from tests.transactions.history import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FinalRead,
    GroupOffset,
    History,
    Place,
    Poll,
    Position,
    Recorder,
    Seen,
)
from tests.transactions.proxy import NO_FAULTS, Faults, Proxy

PARTITIONS = 4
FAULTS = Faults()
BETWEEN_STEPS = 25  # transactions
LIMIT = 180.0  # seconds for something that must happen
HURRIED_LIMIT = 30.0
WEIGHTS = {
    "kill the broker": 2,
    "kill the broker under stopped writers": 1,
    "wake a zombie writer": 4,
    "wake a zombie loop": 3,
    "kill a writer": 2,
    "kill a loop": 2,
    "kill a reader": 1,
}
FIRST_STEPS = (
    *("wake a zombie writer", "wake a zombie writer", "wake a zombie loop"),
    *("kill the broker", "kill the broker under stopped writers", "kill a writer"),
)
IN_A_TRANSACTION = {"begin", "send", "acknowledged", "send offsets"}  # the last event of a client that is in one
BETWEEN_TRANSACTIONS = {"initialised", "committed", "aborted"}
TRIES = 20  # to stop a client where it is wanted
VIOLATIONS = 3  # as an exit code: any other that is not 0 says nothing about the broker


def plan_of(seed: object, steps: int) -> list[str]:
    """What will happen; a short plan has the most telling steps, a long one has them all."""
    chance = random.Random(f"{seed}/plan")
    first = list(FIRST_STEPS)
    chance.shuffle(first)
    return (first + chance.choices([*WEIGHTS], [*WEIGHTS.values()], k=max(0, steps - len(first))))[:steps]


class Stuck(AssertionError):
    """Somebody waits for the broker in vain."""


@dataclass
class ClientProcess:
    settings: Settings
    process: subprocess.Popen[bytes]
    errors: Path

    @classmethod
    def start(cls, settings: Settings) -> ClientProcess:
        errors = Path(settings.history).with_suffix(".log")
        command = [sys.executable, "-m", "tests.transactions.clients", settings.to_json()]
        with errors.open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log)
        return cls(settings, process, errors)

    @property
    def who(self) -> str:
        return f"{self.settings.name}#{self.settings.incarnation}"

    def last_event(self) -> str:
        """The kind of the last one in its history."""
        path = Path(self.settings.history)
        lines = path.read_text().splitlines() if path.exists() else []
        return str(json.loads(lines[-1])[0]) if lines and lines[-1].endswith("]") else ""

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def let_end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.let_end()

    def has_ended(self) -> bool:
        code = self.process.poll()
        if code is not None and code not in (0, FENCED, UNSURE, STUCK):
            raise AssertionError(f"{self.who} ended with {code}:\n{self.errors.read_text()[-3000:]}")
        return code is not None


class Scene:
    """Use it with `with`: a broker behind a proxy, and its clients."""

    def __init__(
        self,
        directory: Path,
        broker: str,
        seed: object,
        faults: Faults = FAULTS,
        partitions: int = PARTITIONS,
        limit: float = LIMIT,
    ) -> None:
        self.directory = directory
        self.seed = seed
        self.chance = random.Random(f"{seed}/scene")
        self.faults = faults
        self.partitions = partitions
        self.limit = limit
        self.proxy = Proxy(random.Random(f"{seed}/proxy"))
        self.clients: dict[str, ClientProcess] = {}
        self.zombies: list[ClientProcess] = []
        self.violations: list[Violation] = []  # what is seen while it happens
        self._kind = broker
        self._looks = 0
        self._read: dict[Path, int] = {}
        self._committed: Counter[str] = Counter()

    def __enter__(self) -> Scene:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.proxy.__enter__()
        try:
            self.broker: Broker = BROKERS[self._kind](self.directory / "broker", self.proxy.port)
            self.start_broker()
            make_topics(self.proxy.bootstrap, {INPUT: self.partitions, OUTPUT: self.partitions})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for client in [*self.clients.values(), *self.zombies]:
            client.kill()
        if hasattr(self, "broker"):
            self.broker.kill()
        self.proxy.__exit__()

    # --- what can happen

    def start_broker(self) -> None:
        self.broker.start()
        self.proxy.target = self.broker.address

    def restart_broker(self) -> None:
        self.proxy.target = None
        self.broker.kill()
        self.start_broker()

    def start_clients(self) -> None:
        writers = [("writer", f"writer-{number}", {"generation": generation}) for number, generation in GENERATIONS]
        loops = [
            ("loop", f"loop-{number}", {"generation": generation, "partition": number})
            for number, generation in GENERATIONS[:PARTITIONS]
        ]
        readers = [("reader", isolation, {"isolation": isolation}) for isolation in (READ_COMMITTED, READ_UNCOMMITTED)]
        for kind, name, more in [*writers, *loops, *readers]:
            self.start_client(kind, name, **more)
        self.proxy.faults = self.faults

    def start_client(self, kind: str, name: str, **more: Any) -> None:
        settings = Settings(
            **{"generation": "confluent"} | more,
            kind=kind,
            name=name,
            incarnation=1,
            bootstrap=self.proxy.bootstrap,
            history=str(self.directory / f"{name}.1.history"),
            seed=f"{self.seed}/{name}/1",
            partitions=self.partitions,
        )
        self.clients[name] = ClientProcess.start(settings)

    def replace(self, name: str) -> ClientProcess:
        """Start the next incarnation of a client; the answer is the former one."""
        former = self.clients[name]
        incarnation = former.settings.incarnation + 1
        settings = replace(
            former.settings,
            incarnation=incarnation,
            history=str(self.directory / f"{name}.{incarnation}.history"),
            seed=f"{self.seed}/{name}/{incarnation}",
        )
        self.clients[name] = ClientProcess.start(settings)
        return former

    def happen(self, step: str) -> None:
        *_, kind = step.split()
        names = sorted(name for name, client in self.clients.items() if client.settings.kind == kind)
        if step == "kill the broker":
            self.wait_for_commits(self.chance.randrange(10))
            self.restart_broker()
        elif step == "kill the broker under stopped writers":
            self.restart_broker_under_stopped_writers()
        elif step.startswith("kill"):
            self.clients[name := self.chance.choice(names)].kill()
            self.replace(name)
        else:
            self.wake_a_zombie(self.chance.choice(names))

    def restart_broker_under_stopped_writers(self) -> None:
        """Their transactions are open before and after it, and what is committed is read in between."""
        writers = [client for client in self.clients.values() if client.settings.kind == "writer"]
        for writer in writers:
            self.pause_client(writer, IN_A_TRANSACTION)
        self.restart_broker()
        self.look()
        for writer in writers:
            writer.wake()

    def look(self) -> None:
        """Read all that is committed now, as one more reader."""
        self._looks += 1
        recorder = Recorder(self.directory / f"look.{self._looks}.history", "look", self._looks)
        for topic in (INPUT, OUTPUT):
            found = read_whole(self.proxy.bootstrap, topic, self.partitions, READ_COMMITTED, self.limit)
            for partition, (records, _) in found.items():
                recorder.note(Position, Place(topic, partition, 0))
                recorder.note(Poll, READ_COMMITTED, tuple(records))
        recorder.close()

    def wake_a_zombie(self, name: str) -> None:
        zombie = self.clients[name]
        self.wait_until(lambda: self.committed(zombie.who) > 0, f"a transaction of {zombie.who}", over=zombie)
        if self.clients[name] is not zombie:
            return  # it was fenced meanwhile
        # In a transaction it has most to do as a zombie; between two of them, nothing but its epoch gives it away.
        self.pause_client(zombie, self.chance.choice((IN_A_TRANSACTION, IN_A_TRANSACTION, BETWEEN_TRANSACTIONS)))
        self.zombies.append(self.replace(name))
        successor = self.clients[name]
        # Often before it has ended a transaction: in the partitions of that one, the log itself would know of it.
        wanted = self.chance.choice((0, 0, 1, 2))
        self.wait_until(
            lambda: successor.last_event() != "" and self.committed(successor.who) >= wanted,
            f"{successor.who} got on",
            over=successor,
        )
        zombie.wake()
        deadline = time.monotonic() + self.limit
        while not zombie.has_ended():
            self.tend()
            if time.monotonic() > deadline:
                self.violations.append(Violation("zombie", f"{zombie.who} goes on beside {successor.who}"))
                break
            time.sleep(0.02)
        self.zombies.remove(zombie)
        zombie.kill()

    def pause_client(self, client: ClientProcess, where: set[str]) -> None:
        """Stop it when its last event is one of these, if that can be had."""
        for _ in range(TRIES):
            client.pause()
            if client.last_event() in where:
                return
            client.wake()
            time.sleep(self.chance.uniform(0, 0.05))
        client.pause()

    # --- waiting

    def tend(self) -> None:
        """Replace the clients that had to end."""
        for name, client in list(self.clients.items()):
            if client.has_ended() and client.process.returncode != 0:
                client.let_end()
                self.replace(name)

    def wait_until(self, holds: Callable[[], bool], what: str, over: ClientProcess | None = None) -> None:
        """`over` is a client whose end ends the waiting."""
        deadline = time.monotonic() + self.limit
        while not holds():
            if over is not None and over.has_ended():
                return self.tend()
            self.tend()
            if time.monotonic() > deadline:
                raise Stuck(f"after {self.limit:.0f} s still not: {what}")
            time.sleep(0.02)
        return None

    def wait_for_commits(self, count: int) -> None:
        wanted = self.committed() + count
        self.wait_until(lambda: self.committed() >= wanted, f"{count} more transactions")

    def committed(self, who: str | None = None) -> int:
        """How many transactions were committed so far, of all or of one client."""
        for path in self.directory.glob("*.history"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                lines = file.read()
            whole = lines.rpartition(b"\n")[0]
            self._read[path] = self._read.get(path, 0) + len(whole) + bool(whole)
            name, number, _ = path.name.rsplit(".", 2)
            self._committed[f"{name}#{number}"] += sum(line.startswith(b'["committed"') for line in whole.split(b"\n"))
        return self._committed.total() if who is None else self._committed[who]

    # --- the end

    def end(self) -> None:
        """Leave one transaction open, let everybody else end in peace, then read everything."""
        self.proxy.faults = NO_FAULTS
        self.leave_a_transaction_open()
        for client in self.clients.values():
            client.let_end()
        deadline = time.monotonic() + self.limit
        for client in self.clients.values():
            while not client.has_ended():
                if time.monotonic() > deadline:
                    raise Stuck(f"{client.who} does not end")
                time.sleep(0.02)
        self.wait_until_quiet()
        self.read_everything()

    def leave_a_transaction_open(self) -> None:
        """Nobody but the broker can end it."""
        name = self.chance.choice(sorted(name for name in self.clients if name.startswith("writer")))
        self.pause_client(self.clients[name], IN_A_TRANSACTION)
        self.clients.pop(name).kill()

    def read_everything(self) -> None:
        bootstrap, recorder = self.proxy.bootstrap, Recorder(self.directory / "end.1.history", "end", 1)
        try:
            for topic, ends in wait_until_stable(bootstrap, self.partitions, self.limit).items():
                for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
                    found = read_whole(bootstrap, topic, self.partitions, isolation, self.limit)
                    for partition, (records, reached) in found.items():
                        recorder.note(FinalRead, isolation, topic, partition, tuple(records), ends[partition], reached)
            for partition, offset in group_offsets(bootstrap, self.partitions, self.limit).items():
                recorder.note(GroupOffset, GROUP, INPUT, partition, offset, time.monotonic_ns(), True)
        except KafkaException as problem:
            raise Stuck(f"everything cannot be read: {problem}") from problem
        recorder.close()

    def wait_until_quiet(self) -> None:
        deadline = time.monotonic() + self.limit
        while self.proxy.is_busy and time.monotonic() < deadline:
            time.sleep(0.02)

    def history(self) -> History:
        return History.read(sorted(self.directory.glob("*.history")))

    def history_so_far(self) -> History:
        """Up to now. Whatever comes before an event in it is in it too, though the files are not read at once."""
        now = time.monotonic_ns()
        return History(event for event in self.history().events if event.at <= now)


STARTED = time.monotonic()
GENERATIONS = list(enumerate(("modern", "confluent", "modern")))


def say(line: str) -> None:
    print(f"{time.monotonic() - STARTED:5.1f} s  {line}", flush=True)


def run(directory: Path, broker: str, seed: object, steps: int, *, hurry: bool = False) -> list[str]:
    """Everything; what is wrong, one line each."""
    with Scene(directory, broker, seed, limit=HURRIED_LIMIT if hurry else LIMIT) as scene:
        try:
            wrong = play(scene, plan_of(seed, steps), hurry=hurry)
        except Stuck as stuck:
            wrong = [*check_so_far(scene.history_so_far()), Violation("no progress", str(stuck))]
        complaints = scene.broker.complaints()
        say(f"{scene.committed()} transactions committed")
        say(f"requests and faults: {dict(scene.proxy.counts)}")
    return [str(violation) for violation in [*scene.violations, *wrong]] + complaints


def play(scene: Scene, plan: Sequence[str], *, hurry: bool) -> list[Violation]:
    scene.start_clients()
    for number, step in enumerate(plan, 1):
        scene.wait_for_commits(BETWEEN_STEPS)
        say(f"step {number}: {step}")
        scene.happen(step)
        if hurry and (wrong := check_so_far(scene.history_so_far())):
            return wrong
    scene.wait_for_commits(BETWEEN_STEPS)
    say("the end")
    scene.end()
    return check(scene.history())


# --- reading everything


def make_topics(bootstrap: str, partitions: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **RECONNECT})
    made = admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()], request_timeout=LIMIT)
    for answer in made.values():
        answer.result()


def ends_of(bootstrap: str, topic: str, partitions: int, isolation: str) -> dict[int, int]:
    """The end of each partition, as a reader of this isolation level sees it."""
    level = IsolationLevel.READ_COMMITTED if isolation == READ_COMMITTED else IsolationLevel.READ_UNCOMMITTED
    admin = AdminClient({"bootstrap.servers": bootstrap, **RECONNECT})
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=LIMIT)
    return {place.partition: answer.result().offset for place, answer in answers.items()}


def wait_until_stable(bootstrap: str, partitions: int, limit: float) -> dict[str, dict[int, int]]:
    """The end of each partition of each topic when no transaction is open any more; after the limit, whatever it is."""
    deadline = time.monotonic() + limit
    while True:
        stable, ends = (
            {topic: ends_of(bootstrap, topic, partitions, isolation) for topic in (INPUT, OUTPUT)}
            for isolation in (READ_COMMITTED, READ_UNCOMMITTED)  # in this order: a marker makes the log longer
        )
        if stable == ends or time.monotonic() > deadline:
            return ends
        time.sleep(0.1)


def read_whole(
    bootstrap: str, topic: str, partitions: int, isolation: str, limit: float = LIMIT
) -> dict[int, tuple[list[Seen], int]]:
    """The records of each partition, and where the broker said that it ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "end",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,  # the end of a partition is told by an empty answer
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            **RECONNECT,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    records: dict[int, list[Seen]] = {number: [] for number in range(partitions)}
    reached: dict[int, int] = {}
    deadline = time.monotonic() + limit
    while len(reached) < partitions and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.1):
            error, place = message.error(), Place(topic, message.partition(), message.offset())
            if error is None:
                records[place.partition].append(Seen(place, message.value().decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[place.partition] = place.offset
    consumer.close()
    return {number: (records[number], reached.get(number, -1)) for number in records}


def group_offsets(bootstrap: str, partitions: int, limit: float) -> dict[int, int | None]:
    options = {"bootstrap.servers": bootstrap, "group.id": GROUP, "isolation.level": READ_COMMITTED}
    consumer = Consumer(options | RECONNECT)
    answers = consumer.committed([TopicPartition(INPUT, number) for number in range(partitions)], limit)
    consumer.close()
    return {found.partition: None if found.offset == OFFSET_INVALID else found.offset for found in answers}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.transactions.workload", description=__doc__.split("\n")[0])
    parser.add_argument("--broker", choices=sorted(BROKERS), default="runnel")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(2**32)))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the history is left (default: nowhere)")
    parser.add_argument("--hurry", action="store_true", help="end with the first violation")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without ending the clients and the broker
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        directory = options.keep or Path(folder)
        wrong = run(directory, options.broker, options.seed, options.steps, hurry=options.hurry)
    for line in wrong:
        print(f"wrong: {line}")
    print(f"{len(wrong)} violations, {time.monotonic() - start:.0f} s")
    return VIOLATIONS if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
