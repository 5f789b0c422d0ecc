"""A storm over one group: members come, leave, are killed, are stopped, are slow; what is recorded is checked.

    python -m tests.interop.groups.storm [--protocol NAME] [--broker runnel|kafka] [--seed N] [--steps N] [--keep DIR]

Members are confluent-kafka in processes of their own. A plan, drawn from the seed, says what happens step by step. With
the protocols `classic` (which is eager), `cooperative` and `consumer` all members speak that; in a `rolling` storm
classic members are replaced one by one by those that speak the consumer protocol, and these by classic ones again.

    join    one more
    leave   one goes as it should
    kill    one is killed, and nobody hears of it
    pause   one is stopped until it is no member any more, and goes on
    nap     one is stopped for a moment, and goes on
    hold    one takes too long for its work, while it is heard of, until it is no member any more
    forge   somebody commits as a member that once had a partition
    crash   the broker is killed and started again

Records are written all the time. At the end all is quiet until the group has settled.

The same seed gives the same plan and the same choices; what meets what is left to the machine.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka import Message, Producer

from runnel.broker.groups.consumer.embedded import read_assignment
from runnel.protocol.versions import Api
from tests.broker_wire import Closed, Wire, create_topic
from tests.interop.groups.checker import check
from tests.interop.groups.history import (
    Assigned,
    Commit,
    Described,
    End,
    Event,
    History,
    Processed,
    Produced,
    Restarted,
    grants,
)
from tests.interop.groups.member import FATAL, HEARTBEAT, SESSION
from tests.interop.groups.recorder import Recorder
from tests.transactions.brokers import BROKERS, ROOT, Broker
from tests.transactions.brokers import SETTINGS as COMMON

GROUP, TOPIC = "storm", "rain"
PARTITIONS = 4
LEAST_MEMBERS, FIRST_MEMBERS, MOST_MEMBERS = 2, 3, 5
LIMIT = 120.0  # seconds for something that must happen
LOOK = 0.05  # seconds between two looks at the group
PACE = 0.02  # seconds between two records
FEW = 4  # commits, while one naps
SETTINGS = {
    **COMMON,
    "group.consumer.min.session.timeout.ms": str(SESSION),
    "group.consumer.session.timeout.ms": str(SESSION),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT),
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.assignment.interval.ms": "0",
}
ROLLING = {"rolling": "classic", "rolling-cooperative": "cooperative"}  # and which members are replaced
PROTOCOLS = ("classic", "cooperative", "consumer", *ROLLING)
SMALL_STEPS = ("nap", "forge")
FIRST_STEPS = ("pause", "hold", "kill", "leave", "join", "nap", "forge", "join")
WEIGHTS = {"join": 4, "leave": 2, "kill": 2, "pause": 3, "nap": 2, "hold": 2, "forge": 3, "crash": 1}
DISTURBANCES = ("pause", "kill", "nap", "hold")
WRONG = "wrong: "
VIOLATIONS, NO_PROGRESS = 3, 4  # as exit codes: any other that is not 0 says nothing about the broker

Step = tuple[str, str]  # what, and of which protocol the member is; empty: of any


class Stuck(AssertionError):
    """Something that must happen does not."""


# --- the plan


def plan_of(protocol: str, seed: object, steps: int) -> list[Step]:
    """A short plan has the most telling steps, a long one has them all."""
    chance = random.Random(f"{seed}/{protocol}/plan")
    if protocol in ROLLING:
        rounds = range(max(1, steps // 20))
        return [step for _ in rounds for step in _there_and_back(chance, ROLLING[protocol], steps)]
    first = list(FIRST_STEPS)
    chance.shuffle(first)
    more = chance.choices([*WEIGHTS], [*WEIGHTS.values()], k=max(0, steps - len(first)))
    return [(what, protocol if what == "join" else "") for what in (first + more)[:steps]]


def _there_and_back(chance: random.Random, classic: str, steps: int) -> Iterator[Step]:
    for old, new in ((classic, "consumer"), ("consumer", classic)):
        for number in range(FIRST_MEMBERS):
            yield "join", new
            if number < 2 or steps > len(FIRST_STEPS):
                yield chance.choice(DISTURBANCES if number == 1 else SMALL_STEPS), ""
            yield chance.choice(("leave", "leave", "kill")), old


# --- members


@dataclass
class MemberProcess:
    name: str
    protocol: str
    process: subprocess.Popen[str]
    path: Path

    @classmethod
    def start(cls, directory: Path, bootstrap: str, name: str, protocol: str) -> MemberProcess:
        path = directory / f"{name}.processed"
        command = [sys.executable, "-m", "tests.interop.groups.member", protocol, bootstrap, GROUP, TOPIC, name]
        with path.with_suffix(".log").open("w") as log:
            process = subprocess.Popen(
                [*command, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
            )
        return cls(name, protocol, process, path)

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def let_end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.let_end()

    def complaints(self) -> list[str]:
        code = self.process.poll()
        said = self.path.with_suffix(".log").read_text()
        if code in (None, 0, FATAL, -signal.SIGKILL) and "Traceback" not in said:
            return []
        return [f"member {self.name} ended with {code}: {said[-3000:]}"]

    def work_done(self) -> int:
        """Grows with each record."""
        return self.path.stat().st_size if self.path.exists() else 0

    def processed(self) -> Iterator[Processed]:
        if self.path.exists():
            for line in self.path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # or it was killed while it wrote
                    at, partition, offset = map(int, line.split())
                    yield Processed(at, self.name, partition, offset)


class Rain:
    """Writes records until it is stopped, and knows which there are."""

    def __init__(self, bootstrap: str) -> None:
        self.produced: list[Produced] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._fall, name="rain")
        self._thread.start()

    def _fall(self) -> None:
        number = 0
        while not self._stops.wait(PACE):
            self._producer.produce(TOPIC, str(number), partition=number % PARTITIONS, on_delivery=self._note)
            self._producer.poll(0)
            number += 1

    def _note(self, error: object, message: Message) -> None:
        if error is None:
            self.produced.append(Produced(message.partition(), message.offset()))

    def stop(self) -> None:
        self._stops.set()
        self._thread.join()
        if self._producer.flush(LIMIT):
            raise Stuck("the broker does not take the last records")

    def close(self) -> None:
        """Without waiting for the broker, and without a connection that stays open."""
        self._stops.set()
        self._thread.join()
        self._producer.purge()
        del self._producer

    def ends(self) -> dict[int, int]:
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for partition, offset in self.produced:
            ends[partition] = max(ends[partition], offset + 1)
        return ends


# --- the storm


class Storm:
    """Use it with `with`."""

    def __init__(self, directory: Path, broker: str, protocol: str, seed: object) -> None:
        self.directory = directory
        self.protocol = protocol
        self.chance = random.Random(f"{seed}/{protocol}/storm")
        self.recorder = Recorder()
        self.members: dict[str, MemberProcess] = {}
        self.gone: list[MemberProcess] = []
        self.events: list[Event] = []  # all but what the recorder and the members note
        self.kinds: list[str] = []  # that the group was of, one after the other
        self._broker_kind = broker
        self._born = 0
        self._wire: Wire | None = None

    def __enter__(self) -> Storm:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.recorder.__enter__()
        try:
            self.broker: Broker = BROKERS[self._broker_kind](self.directory / "broker", self.recorder.port, SETTINGS)
            self.broker.start()
            self.recorder.target = self.broker.address
            with Wire("{}:{}".format(*self.broker.address)) as wire:
                self.topic_id: UUID = create_topic(wire, TOPIC, PARTITIONS)
            self.rain = Rain(self.recorder.bootstrap)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            member.kill()
        if hasattr(self, "rain"):
            self.rain.close()
        if self._wire is not None:
            self._wire.close()
        if hasattr(self, "broker"):
            self.broker.kill()
        self.recorder.__exit__()

    # --- what can happen

    def happen(self, what: str, protocol: str) -> None:
        known = sorted(name for name, each in self.members.items() if protocol in ("", each.protocol))
        if what == "join":
            if len(self.members) < MOST_MEMBERS or self.protocol in ROLLING:
                self.join(protocol)
        elif what in ("hold", "forge", "crash"):
            getattr(self, what)()
        elif known and (what not in ("leave", "kill") or len(self.members) > LEAST_MEMBERS):
            getattr(self, what)(self.chance.choice(known))

    def join(self, protocol: str) -> None:
        name = self.start(protocol)
        self.wait_until(lambda: self.is_member(name), f"{name} is a member")

    def start(self, protocol: str) -> str:
        self._born += 1
        name = f"{protocol}-{self._born}"
        self.members[name] = MemberProcess.start(self.directory, self.recorder.bootstrap, name, protocol)
        return name

    def leave(self, name: str) -> None:
        member = self.members.pop(name)
        self.gone.append(member)
        member.let_end()
        self.wait_until(lambda: member.process.poll() is not None, f"{name} has left")

    def kill(self, name: str) -> None:
        member = self.members.pop(name)
        self.gone.append(member)
        ids = self.ids_of(name)
        member.kill()
        if self.chance.random() < 0.7:
            self.wait_until(lambda: self.is_gone(name), f"{name} is fenced")
            self.forge(*ids)

    def pause(self, name: str) -> None:
        member, ids = self.members[name], self.ids_of(name)
        member.process.send_signal(signal.SIGSTOP)
        self.wait_until(lambda: self.is_gone(name), f"{name} is fenced")
        self.forge(*ids)
        member.process.send_signal(signal.SIGCONT)
        self.wait_until(lambda: self.is_back(name), f"{name} is a member again")

    def nap(self, name: str) -> None:
        count = self.accepted()
        self.members[name].process.send_signal(signal.SIGSTOP)
        self.wait_until(lambda: self.accepted() >= count + FEW, "others commit")
        self.members[name].process.send_signal(signal.SIGCONT)

    def hold(self) -> None:
        member = self.members[self.busy()]
        ids = self.ids_of(member.name)
        member.tell("hold")
        self.wait_until(lambda: self.is_gone(member.name), f"{member.name} is sent away")
        self.forge(*ids)
        member.tell("go")
        self.wait_until(lambda: self.is_back(member.name), f"{member.name} is a member again")

    def busy(self) -> str:
        """One that works: librdkafka lets somebody who has just joined, and never looks for records, be a member."""
        before = {name: each.work_done() for name, each in self.members.items()}
        found: list[str] = []

        def look() -> bool:
            found.extend(name for name, each in self.members.items() if each.work_done() > before[name])
            return bool(found)

        self.wait_until(look, "somebody works")
        return self.chance.choice(sorted(found))

    def forge(self, *ids: str) -> None:
        """Commit in the name of these, or else of anybody, with an epoch in which it had a partition."""
        known = list(grants(History(list(self.recorder.exchanges))))
        if ids:
            chosen = [each for each in known if each.member in ids]
        else:
            last = {each.partition: each for each in sorted(known, key=lambda each: each.ended)}
            chosen = [each for each in known if last[each.partition].member != each.member]
        if not chosen:
            return
        grant = self.chance.choice(chosen[-10:])
        place = {
            "partition_index": grant.partition,
            "committed_offset": 0,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        with Wire(self.recorder.bootstrap) as wire:
            wire.ask(
                Api.OFFSET_COMMIT,
                9,
                group_id=GROUP,
                generation_id_or_member_epoch=grant.epoch,
                member_id=grant.member,
                group_instance_id=None,
                topics=[{"name": TOPIC, "partitions": [place]}],
            )

    def crash(self) -> None:
        begun = time.monotonic_ns()
        self.recorder.target = None
        self.broker.kill()
        self.events.append(Restarted(begun, time.monotonic_ns()))
        self.broker.start()
        self.recorder.target = self.broker.address

    # --- looking

    def ask(self, api: int, version: int, **body: Any) -> dict[str, Any]:
        """Past the recorder; as often as it takes, since the broker may have been killed."""
        for _ in range(2):
            try:
                if self._wire is None:
                    self._wire = Wire("{}:{}".format(*self.broker.address))
                return self._wire.ask(api, version, **body)
            except (Closed, OSError):
                self._wire = None
        raise Stuck("the broker does not answer")

    def describe(self) -> Described | None:
        """None while the group is not there, changes its kind at this moment, or has no coordinator."""
        asked = time.monotonic_ns()
        request = {"include_authorized_operations": False}
        (shown,) = self.ask(Api.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[GROUP], **request)["groups"]
        if not shown["error_code"]:
            members = {each["member_id"]: Assigned(each["client_id"], _held(each)) for each in shown["members"]}
            return self._described(asked, "consumer", shown["group_state"], members)
        (shown,) = self.ask(Api.DESCRIBE_GROUPS, 6, groups=[GROUP], **request)["groups"]
        if shown["error_code"]:
            return None
        members = {
            each["member_id"]: Assigned(
                each["client_id"], frozenset(number for _, number in read_assignment(each["member_assignment"]))
            )
            for each in shown["members"]
        }
        return self._described(asked, "classic", shown["group_state"], members)

    def _described(self, asked: int, kind: str, state: str, members: dict[str, Assigned]) -> Described:
        described = Described(asked, time.monotonic_ns(), kind, state, members)
        self.events.append(described)
        if not self.kinds or self.kinds[-1] != kind:
            self.kinds.append(kind)
        return described

    def is_member(self, name: str) -> bool:
        return bool(self.ids_of(name))

    def is_back(self, name: str) -> bool:
        """Or there is another one in its place."""
        return name not in self.members or self.is_member(name)

    def is_gone(self, name: str) -> bool:
        """False while nobody knows: somebody else is always there, so the group is."""
        described = self.describe()
        return described is not None and all(each.client != name for each in described.members.values())

    def ids_of(self, name: str) -> list[str]:
        described = self.describe()
        return [] if described is None else [id for id, each in described.members.items() if each.client == name]

    def accepted(self) -> int:
        return sum(isinstance(each, Commit) and each.error == 0 for each in list(self.recorder.exchanges))

    def refused(self) -> int:
        return sum(isinstance(each, Commit) and bool(each.error) for each in list(self.recorder.exchanges))

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LIMIT
        while not holds():
            self.tend()
            if time.monotonic() > deadline:
                raise Stuck(f"after {LIMIT:.0f} s still not: {what}; see {self.directory}")
            time.sleep(LOOK)

    def tend(self) -> None:
        """Replace the members that had to end."""
        for name, member in list(self.members.items()):
            if member.process.poll() == FATAL:
                member.let_end()
                self.gone.append(self.members.pop(name))
                self.start(member.protocol)
            elif member.process.poll() is not None:
                raise AssertionError(member.complaints())

    # --- the end

    def calm_down(self) -> None:
        """Wait until the group has settled, or for long enough; which of them it was, the checker says."""
        self.rain.stop()
        deadline = time.monotonic() + LIMIT
        while not self.note_end() and time.monotonic() < deadline:
            self.tend()
            time.sleep(LOOK)

    def note_end(self) -> bool:
        """Whether it is a good one."""
        described = self.describe()
        if described is None:
            return False
        self.events = [event for event in self.events if not isinstance(event, End)]
        end = End(frozenset(self.members), described, self.committed(), self.rain.ends())
        self.events.append(end)
        owned = sorted(number for each in described.members.values() for number in each.partitions)
        clients = sorted(each.client for each in described.members.values())
        is_settled = described.state == "Stable" and owned == [*range(PARTITIONS)] and clients == sorted(self.members)
        return is_settled and end.committed == end.ends

    def committed(self) -> dict[int, int]:
        asked = {"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": None}
        (group,) = self.ask(Api.OFFSET_FETCH, 9, groups=[asked], require_stable=False)["groups"]
        places = [place for topic in group["topics"] for place in topic["partitions"]]
        return {place["partition_index"]: place["committed_offset"] for place in places}

    def let_all_end(self) -> list[str]:
        for member in self.members.values():
            member.let_end()
        deadline = time.monotonic() + LIMIT
        while any(member.process.poll() is None for member in self.members.values()):
            if time.monotonic() > deadline:
                raise Stuck(f"members do not end; see {self.directory}")
            time.sleep(LOOK)
        return [line for member in [*self.members.values(), *self.gone] for line in member.complaints()]

    def history(self) -> History:
        processed = [each for member in [*self.members.values(), *self.gone] for each in member.processed()]
        return History([*self.events, *self.rain.produced, *self.recorder.exchanges, *processed])


def _held(member: dict[str, Any]) -> frozenset[int]:
    return frozenset(number for topic in member["assignment"]["topic_partitions"] for number in topic["partitions"])


STARTED = time.monotonic()


def say(line: str) -> None:
    print(f"{time.monotonic() - STARTED:5.1f} s  {line}", flush=True)


def run(directory: Path, protocol: str, seed: object, steps: int, broker: str = "runnel") -> list[str]:
    """Everything; what is wrong, one line each."""
    with Storm(directory, broker, protocol, seed) as storm:
        for _ in range(FIRST_MEMBERS):
            storm.join(ROLLING.get(protocol, protocol))
        for number, step in enumerate(plan_of(protocol, seed, steps), 1):
            say(f"step {number}: {' '.join(step)}")
            storm.happen(*step)
        say("calm")
        storm.calm_down()
        complaints = [*storm.broker.complaints(), *storm.let_all_end()]
        history = storm.history()
        write_down(history, directory / "history")
        say(
            f"{len(history.of(Produced))} records, processed {len(history.of(Processed))} times; "
            f"{storm.accepted()} commits taken, {storm.refused()} refused; it was {', '.join(storm.kinds)}"
        )
        if not storm.refused():
            complaints.append("nothing was refused: the storm was none")
        if protocol in ROLLING and not (len(storm.kinds) > 2 and storm.kinds[-1] == "classic"):
            complaints.append(f"the group did not change there and back, it was {storm.kinds}")
    return [str(violation) for violation in check(history)] + complaints


def write_down(history: History, path: Path) -> None:
    """For people who look for the cause of a failure."""
    path.write_text("".join(f"{event}\n" for event in sorted(history.events, key=time_of)))


def time_of(event: Any) -> int:
    return int(getattr(event, "asked", 0) or getattr(event, "at", 0) or getattr(event, "begun", 0))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.groups.storm", description=__doc__.split("\n")[0])
    parser.add_argument("--protocol", choices=PROTOCOLS, default="consumer")
    parser.add_argument("--broker", choices=sorted(BROKERS), default="runnel")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(2**32)))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the history is left (default: nowhere)")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without ending the members and the broker
    with tempfile.TemporaryDirectory() as folder:
        try:
            wrong = run(options.keep or Path(folder), options.protocol, options.seed, options.steps, options.broker)
        except Stuck as stuck:
            print(f"{WRONG}{stuck}")
            return NO_PROGRESS
    for line in wrong:
        print(f"{WRONG}{line}")
    print(f"{len(wrong)} violations, {time.monotonic() - STARTED:.0f} s")
    return VIOLATIONS if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
