"""A small bank whose state lives in a log, and a disk that fails, forgets and stops at any moment.

After each restart the bank is the fold of exactly the durable decisions. The check replays the whole history through a
plain model: each decision that was answered must get the same answer from the decisions before it that are there, so
nobody was told anything that rests on what was lost later.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from runnel.errors import ReplayFailed, Transient
from runnel.log import LogSettings, TopicSettings, open_log
from runnel.log.journal import PartitionJournal
from runnel.replay import Decision, Entry, JournaledState, SnapshotFile
from runnel.settings import KIB, MIB
from runnel.testing import Crashed, FaultyFiles, StoppedClock

ACCOUNTS = ("ann", "bob", "cat", "dan")
EACH = 100
STEPS = 200
FAULTS = ("sync", "write", "read", "truncate", "create", "rename", "open", "sync_directory")
DONE, REFUSED = "done", "refused"


class Refused(Exception):
    pass


@dataclass
class Bank:
    accounts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACCOUNTS, EACH))
    numbers: list[int] = field(default_factory=list)  # of the commands, once for each of their entries

    @classmethod
    def load(cls, dump: bytes) -> Bank:
        return cls(**json.loads(dump))

    def dump(self) -> bytes:
        return json.dumps(vars(self)).encode()


def replay(bank: Bank, entry: Entry) -> None:
    assert entry.key is not None
    assert entry.value is not None
    change = json.loads(entry.value)
    bank.accounts[entry.key.decode()] += change["amount"]
    bank.numbers.append(change["number"])
    if change["poisoned"]:
        raise ValueError("a defect")


@dataclass
class Command:
    """Takes money from one account for others, all of it or nothing; without `shares` it is a look at all accounts."""

    number: int
    source: str = ""
    shares: dict[str, int] = field(default_factory=dict)
    poisoned: bool = False
    raises: bool = False  # when it is refused
    outcome: Any = None  # once it is known
    future: Future[Any] | None = None

    def decide(self, bank: Bank) -> Decision[Any]:
        answer = self.judge(bank.accounts)
        if answer == REFUSED and self.raises:
            raise Refused
        return Decision(answer, self.entries() if answer == DONE else ())

    def judge(self, accounts: dict[str, int]) -> Any:
        if not self.shares:
            return dict(accounts)
        return DONE if accounts[self.source] >= sum(self.shares.values()) else REFUSED

    def entries(self) -> list[Entry]:
        amounts = [(self.source, -sum(self.shares.values())), *self.shares.items()]
        return [Entry(name.encode(), self._change(amount), self.number) for name, amount in amounts]

    def _change(self, amount: int) -> bytes:
        return json.dumps({"number": self.number, "amount": amount, "poisoned": self.poisoned}).encode()

    def apply(self, accounts: dict[str, int]) -> None:
        for name, amount in self.shares.items():
            accounts[self.source] -= amount
            accounts[name] += amount

    def note_outcome(self) -> None:
        if self.future is None or not self.future.done():
            return
        error = self.future.exception()
        if error is None:
            self.outcome = self.future.result()
        elif isinstance(error, Refused):
            self.outcome = REFUSED
        else:
            assert isinstance(error, (Transient, ReplayFailed) if self.poisoned else Transient), error
            self.outcome = "failed"
        self.future = None


def any_command(number: int, chance: Random) -> Command:
    if chance.random() < 0.3:
        return Command(number)
    source, *others = chance.sample(ACCOUNTS, chance.randint(2, len(ACCOUNTS)))
    shares = {name: chance.randint(1, 60) for name in others}
    return Command(number, source, shares, poisoned=chance.random() < 0.05, raises=chance.random() < 0.5)


class Machine:
    """Runs commands on a bank, over any number of restarts, and knows what was answered."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.commands: list[Command] = []
        self.clock = StoppedClock()
        self.files = FaultyFiles(chance=chance, clock=self.clock)

    def open(self) -> None:
        settings = LogSettings(tail_cache_bytes=self.chance.choice((0, MIB)))  # 0: a rebuild reads the disk
        self.log = open_log(
            "/data", settings=settings, files=self.files, clock=self.clock, chance=self.chance, background=False
        )
        journal = PartitionJournal(self.log.partition("bank", settings=TopicSettings(segment_bytes=2 * KIB)))
        snapshot = SnapshotFile("/bank.snapshot", Bank.dump, Bank.load, self.files)
        self.bank = JournaledState(journal, Bank, replay, snapshot)
        self.bank.start()

    # --- what may happen

    def command(self) -> None:
        command = any_command(len(self.commands), self.chance)
        self.commands.append(command)
        command.future = self.bank.submit(command.decide)

    def commit(self) -> None:
        self.log.commit()

    def fold(self) -> None:
        with suppress(Transient):
            self.bank.fold(trim=self.chance.random() < 0.5)

    def fail(self) -> None:
        times, after = self.chance.randint(1, 3), self.chance.randint(0, 4)
        self.files.fail(self.chance.choice(FAULTS), times=times, after=after)

    def heal(self) -> None:
        if self.chance.random() < 0.7:
            self.files.heal()
        self.clock.advance(2_000)
        with suppress(OSError):
            self.log.maintain()

    def stop(self) -> None:
        with suppress(OSError):
            self.log.close()
        self.restart(self.files.kill())

    def kill(self) -> None:
        self.restart(self.files.kill())

    def cut_power(self) -> None:
        self.restart(self.files.crash(self.chance))

    def step(self) -> None:
        happenings = {
            self.command: 60,
            self.commit: 20,
            self.fold: 5,
            self.fail: 4,
            self.heal: 5,
            self.stop: 1,
            self.kill: 1,
            self.cut_power: 2,
        }
        self.chance.choices(list(happenings), weights=list(happenings.values()))[0]()

    # --- what must be

    def restart(self, files: FaultyFiles) -> None:
        for command in self.commands:
            command.note_outcome()
        self.files = files
        self.open()
        self.check(self.bank.read(lambda bank: Bank.load(bank.dump())))

    def check(self, bank: Bank) -> None:
        assert sum(bank.accounts.values()) == EACH * len(ACCOUNTS)
        present = list(dict.fromkeys(bank.numbers))
        whole = [number for number in present for _ in self.commands[number].entries()]
        assert bank.numbers == whole, "a decision is there in part, or more than once"
        assert present == sorted(present)
        accounts = dict.fromkeys(ACCOUNTS, EACH)
        for command in self.commands:
            there = command.number in present
            self.check_one(command, there, accounts)
            if there:
                command.apply(accounts)
        assert bank.accounts == accounts
        self.check_lost_ones_stay_lost(present)
        self.remember(present)

    def check_one(self, command: Command, there: bool, accounts: dict[str, int]) -> None:
        judged = command.judge(accounts)
        if there:
            assert judged == DONE, f"{command} was decided on a state that never was"
            assert not command.poisoned
        elif command.outcome not in (None, "failed", "gone"):
            assert judged == command.outcome, f"{command} was answered on a state that never was"
            assert command.outcome != DONE, f"{command} was acknowledged and is not there"
        if command.outcome in (REFUSED, "gone"):
            assert not there, f"{command} was not done, and is there"

    def check_lost_ones_stay_lost(self, present: list[int]) -> None:
        """A durable decision that came later stands where the lost ones stood."""
        last = max((command.number for command in self.commands if command.outcome == DONE), default=-1)
        lost = {command.number for command in self.commands[: last + 1] if command.outcome == "failed"}
        assert lost.isdisjoint(present)

    def remember(self, present: list[int]) -> None:
        """What was open is settled by now: there for good, or gone for good."""
        for command in self.commands:
            command.future = None
            if command.outcome in (None, "failed"):
                command.outcome = DONE if command.number in present else "gone"


def survive(machine: Machine) -> None:
    """Restart after a crash; the machine may crash again while it does."""
    while True:
        left = machine.files.kill() if machine.chance.random() < 0.3 else machine.files.crash(machine.chance)
        left.crash_at = machine.chance.randint(1, 200)
        try:
            machine.restart(left)
        except Crashed:
            continue
        return


def test_the_bank_is_the_fold_of_the_durable_decisions(seed: int, rounds: int) -> None:
    for number in range(rounds):
        machine = Machine(Random(f"{seed}/{number}"))
        machine.open()
        machine.files.crash_at = machine.chance.randint(1, 200)
        for _ in range(STEPS):
            try:
                machine.step()
            except Crashed:
                survive(machine)
        machine.files.crash_at = None
        machine.stop()


@pytest.mark.soak
def test_the_bank_is_the_fold_of_the_durable_decisions_over_many_histories(seed: int, rounds: int) -> None:
    test_the_bank_is_the_fold_of_the_durable_decisions(seed, rounds)


def test_the_bank_survives_a_crash_at_every_file_operation(seed: int) -> None:
    machine = Machine(Random(seed))
    plan(machine)
    operations = machine.files.operations
    assert operations > 100
    for operation in range(1, operations + 1):
        machine = Machine(Random(seed))
        machine.files.crash_at = operation
        with pytest.raises(Crashed):
            plan(machine)
        machine.chance = Random(f"{seed}/{operation}")
        survive(machine)


def plan(machine: Machine) -> None:
    """The same commands each time, with folds in between, a disk that fails once, and a clean stop."""
    machine.open()
    for number in range(8):
        for _ in range(5):
            machine.command()
        machine.commit()
        machine.command()
        machine.bank.fold(trim=number % 2 == 1)
        if number == 4:
            machine.files.fail("sync", ".log")
            machine.commit()
            machine.files.heal()
            machine.heal()
    machine.log.close()
