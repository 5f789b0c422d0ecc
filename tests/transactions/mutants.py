"""Our broker with one line of its transactions changed, to see the checker find it.

    python -m tests.transactions.mutants [WORD ...]

makes a copy of the source for each mutant whose name has one of the words, changes it, and runs the workload on the
copy, with one seed after the other until the checker complains. The unchanged source has to pass with each seed. At the
end there is a table of what was found. Ends with 1 if a mutant survives all seeds, if the text that it changes is no
longer there, if a run failed for another reason than the broker, or if the unchanged source does not pass.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.transactions.workload import FIRST_STEPS, VIOLATIONS

ROOT = Path(__file__).parents[2]
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
LIMIT = 300.0  # seconds for a run; a broker that lets its clients wait for ever is found as well
WRONG = "wrong: "
UNCHANGED = "(the unchanged source)"


class Mutant(NamedTuple):
    name: str
    breaks: str
    file: str
    old: str
    new: str


MUTANTS = [
    # --- fencing
    Mutant(
        "an end is not fenced",
        "a zombie ends its successor's transaction",
        "broker/transactions/deciding.py",
        "        if known.epoch != producer.epoch and not is_retry:\n",
        "        if False:\n",
    ),
    Mutant(
        "joining is not fenced",
        "a zombie's offsets and partitions get into its successor's transaction",
        "broker/transactions/deciding.py",
        "    if known.epoch != producer.epoch:\n        raise _fenced(name, producer)\n    if known.status.is_ending",
        "    if known.status.is_ending",
    ),
    Mutant(
        "a new producer gets the old epoch",
        "nothing tells a zombie from its successor",
        "broker/transactions/deciding.py",
        "begun._replace(epoch=known.epoch + 1, last_epoch=NOT_THERE)",
        "begun._replace(epoch=known.epoch, last_epoch=NOT_THERE)",
    ),
    Mutant(
        "a new producer leaves the open transaction open",
        "what a zombie wrote is committed with what its successor writes",
        "broker/transactions/deciding.py",
        "            return _prepared(now, name, _fence(known))\n        if known.is_exhausted",
        "            pass\n        if known.is_exhausted",
    ),
    Mutant(
        "an overdue transaction's producer keeps its epoch",
        "it goes on as if nothing had happened, and its transaction is torn",
        "broker/transactions/deciding.py",
        "status=Status.PREPARE_ABORT, epoch=known.epoch + 1, last_epoch=NOT_THERE",
        "status=Status.PREPARE_ABORT, epoch=known.epoch, last_epoch=NOT_THERE",
    ),
    Mutant(
        "an end gives no new epoch",
        "a late request reaches into the next transaction",
        "broker/transactions/deciding.py",
        "    return ended._replace(epoch=known.epoch + 1, last_epoch=known.epoch, next_producer_id=next_id)",
        "    return ended._replace(epoch=known.epoch, last_epoch=known.epoch, next_producer_id=next_id)",
    ),
    Mutant(
        "a batch sent twice is written twice",
        "duplicates",
        "log/writer.py",
        "        return Append(header, None, appended, told=told)\n",
        "        return None\n",
    ),
    Mutant(
        "sequences may come in any order",
        "a batch overtakes those that were sent before it, or is written again long after",
        "log/producers.py",
        "        if header.base_sequence not in (expected, NO_SEQUENCE):",
        "        if False:",
    ),
    Mutant(
        "the transaction of a fenced producer is committed",
        "aborted reads",
        "broker/transactions/deciding.py",
        "        status=Status.PREPARE_ABORT, epoch=known.epoch + 1, last_epoch=NOT_THERE",
        "        status=Status.PREPARE_COMMIT, epoch=known.epoch + 1, last_epoch=NOT_THERE",
    ),
    Mutant(
        "overdue transactions stay open",
        "readers of committed records wait for a producer that is gone",
        "broker/transactions/coordinator.py",
        "elif ages.get(name, 0) > transaction.timeout",
        "elif False",
    ),
    # --- the last stable offset
    Mutant(
        "everything is stable",
        "readers of committed records see open transactions",
        "log/writer.py",
        "        return self.written_producers.stable_before(end)\n",
        "        return end\n",
    ),
    Mutant(
        "a fetch goes beyond the last stable offset",
        "the batches behind it are given out with those before it",
        "broker/apis/fetch.py",
        "up_to(batches, stable) if self._committed else batches",
        "batches",
    ),
    Mutant(
        "a transaction that ended moves the last stable offset to the end",
        "others that are still open are seen",
        "log/open_transactions.py",
        "        del self._starts[producer_id]\n        self.first = next(iter(self._starts.values()), NONE)\n",
        "        del self._starts[producer_id]\n        self.first = NONE\n",
    ),
    Mutant(
        "open transactions are forgotten in recovery",
        "after a crash their records are seen",
        "log/writer.py",
        "        producers.transactions.tracks = True\n",
        "        producers.transactions.tracks = True\n        producers.transactions.first = 2**63 - 1\n",
    ),
    # --- markers
    Mutant(
        "readers are not told what is aborted",
        "aborted reads",
        "broker/apis/fetch.py",
        '                    if self._committed and result["records"]:\n',
        "                    if False:\n",
    ),
    Mutant(
        "aborted transactions are not indexed",
        "aborted reads",
        "log/writer.py",
        "        if ended is not None and not ended.committed:\n            segment.aborted.add",
        "        if False:\n            segment.aborted.add",
    ),
    Mutant(
        "aborted transactions are forgotten in recovery",
        "aborted reads after a crash",
        "log/aborted.py",
        "        if ended is not None and not ended.committed:\n            yield",
        "        if False:\n            yield",
    ),
    Mutant(
        "each marker says commit",
        "aborted reads",
        "broker/transactions/ending.py",
        "                producer_id, epoch, committed=transaction.committed, coordinator_epoch",
        "                producer_id, epoch, committed=True, coordinator_epoch",
    ),
    Mutant(
        "only the first partition gets its marker",
        "the others stay open",
        "broker/transactions/ending.py",
        "        self._mark(sorted(self.transaction.partitions))\n",
        "        self._mark(sorted(self.transaction.partitions)[:1])\n",
    ),
    Mutant(
        "offsets of aborted transactions count",
        "records are skipped, and have no output",
        "broker/transactions/ending.py",
        "end_transaction(producer_id, epoch, committed=transaction.committed)",
        "end_transaction(producer_id, epoch, committed=True)",
    ),
    Mutant(
        "offsets in a transaction count at once",
        "a loop that aborts has lost its place",
        "broker/groups/offsets.py",
        "    entries = [entry._replace(transaction=transaction) for entry in plain]\n",
        "    entries = plain\n",
    ),
    # --- sync
    Mutant(
        "decisions are answered before they are durable",
        "after a power cut the coordinators know less than their clients and the partitions",
        "log/journal.py",
        "            flush_ms=None,\n",
        "            flush_ms=60_000,\n",
    ),
    Mutant(
        "answers without a sync",
        "acknowledged records, decisions and markers are gone after a power cut",
        "log/writer.py",
        "        return settings.durable or by_count or",
        "        return by_count or",
    ),
    Mutant(
        "a thread's sync does nothing",
        "the same, where threads commit",
        "log/group_commit.py",
        "        writer.sync()\n",
        "        pass\n",
    ),
    Mutant(
        "a round of the event loop is answered without its syncs",
        "the same, where the event loop commits",
        "log/loop_rounds.py",
        "        to_sync = self._commits.write_all(writers, self._failed)\n",
        "        to_sync = [w for w in self._commits.write_all(writers, self._failed) if self._commits.publish(w)]\n",
    ),
]


class Run(NamedTuple):
    """One run of the workload on a source."""

    seed: int
    seconds: float
    found: bool | None  # something wrong; None: the run itself failed, which says nothing
    complaint: str


class Verdict(NamedTuple):
    word: str
    name: str
    seed: str
    seconds: float
    complaint: str

    def __str__(self) -> str:
        return f"{self.word:8}  {self.name:64}  {self.seed:>4}  {self.seconds:7.0f}  {self.complaint[:200]}"


HEADING = f"{'verdict':8}  {'mutant':64}  {'seed':>4}  {'seconds':>7}  what was found first"


def run(source: Path, seed: int) -> Run:
    command = [sys.executable, "-m", "tests.transactions.workload", "--hurry"]
    command += ["--seed", str(seed), "--steps", str(len(FIRST_STEPS))]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return Run(seed, LIMIT, True, f"no progress: no end in {LIMIT:.0f} s")
    finally:
        if process.poll() is None:
            process.terminate()  # which ends its broker and its clients, too
            process.communicate()
    found = process.returncode != 0 if process.returncode in (0, VIOLATIONS) else None
    return Run(seed, time.monotonic() - start, found, complaint_in(said))


def complaint_in(said: str) -> str:
    """The first thing that is wrong, or else the last line, which tells the error that ended the run."""
    lines = [line for line in said.splitlines() if line.strip()]
    wrong = [line.removeprefix(WRONG) for line in lines if line.startswith(WRONG)]
    return (wrong or lines[-1:] or ["nothing was said"])[0]


def runs_of(mutant: Mutant | None) -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            path = source / "runnel" / mutant.file
            path.write_text(path.read_text().replace(mutant.old, mutant.new, 1))
        for seed in SEEDS:
            yield run(source, seed)


def judge_unchanged() -> Iterator[Verdict]:
    """It has to pass with each seed, or what is found in others says nothing."""
    for seed, seconds, found, complaint in runs_of(None):
        passed = found is False
        yield Verdict("passed" if passed else "WRONG", UNCHANGED, str(seed), seconds, "" if passed else complaint)


def judge(mutant: Mutant) -> Verdict:
    path = ROOT / "src/runnel" / mutant.file
    if not path.exists() or mutant.old not in path.read_text():
        return Verdict("STALE", mutant.name, "-", 0, f"{mutant.file} has changed")
    took, unclear = 0.0, None
    for seed, seconds, found, complaint in runs_of(mutant):
        took += seconds
        if found:
            return Verdict("found", mutant.name, str(seed), took, complaint)
        if found is None and unclear is None:
            unclear = Verdict("UNCLEAR", mutant.name, str(seed), took, complaint)
    return unclear or Verdict("SURVIVED", mutant.name, "all", took, f"though {mutant.breaks}")


def main(words: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without ending the run
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    verdicts: list[Verdict] = []
    for verdict in chain(judge_unchanged(), map(judge, chosen)):
        verdicts.append(verdict)
        print(f"{verdict.word}: {verdict.name}: {verdict.complaint or 'nothing'} ({verdict.seconds:.0f} s)", flush=True)
    print("", HEADING, *verdicts, sep="\n")
    found = sum(verdict.word == "found" for verdict in verdicts)
    print(f"\n{found} of {len(chosen)} mutants were found")
    return 0 if all(verdict.word in ("found", "passed") for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
