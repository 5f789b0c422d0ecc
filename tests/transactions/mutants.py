"""Our broker with one line of its transactions changed, to see the checker find it.

    python -m tests.transactions.mutants [WORD ...]

makes a copy of the source for each mutant whose name has one of the words, changes it, and runs the workload on the
copy, with one seed after the other until it is found. Ends with 1 if a mutant survives all of them, if the text that it
changes is no longer there, if a run failed for another reason than the broker, or if the unchanged source does not
pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.transactions.workload import NO_PROGRESS, VIOLATIONS

ROOT = Path(__file__).parents[2]
SEEDS = (1, 2, 3, 4)
STEPS = 6
LIMIT = 300.0  # seconds for a run; a broker that lets its clients wait for ever is found as well


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
        "duplicates, or a producer that cannot go on",
        "log/producers.py",
        "            if batch.first_sequence == header.base_sequence and",
        "            if False and",
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
        "broker/transactions/coordinator.py",
        "                producer_id, epoch, committed=transaction.committed, coordinator_epoch",
        "                producer_id, epoch, committed=True, coordinator_epoch",
    ),
    Mutant(
        "only the first partition gets its marker",
        "the others stay open",
        "broker/transactions/coordinator.py",
        "        waiting = sorted(transaction.partitions)\n",
        "        waiting = sorted(transaction.partitions)[:1]\n",
    ),
    Mutant(
        "markers that a crash prevented are not written",
        "a transaction that is decided hangs",
        "broker/transactions/coordinator.py",
        "            if transaction.status.is_ending:\n                logger",
        "            if False:\n                logger",
    ),
    Mutant(
        "offsets of aborted transactions count",
        "records are skipped, and have no output",
        "broker/transactions/coordinator.py",
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
        "answers without a sync",
        "acknowledged records, decisions and markers are gone after a power cut",
        "log/writer.py",
        "        return settings.durable or by_count or",
        "        return by_count or",
    ),
    Mutant(
        "a sync that does nothing",
        "the same",
        "log/group_commit.py",
        "        writer.sync()\n",
        "        pass\n",
    ),
]


class Outcome(NamedTuple):
    found: bool | None  # None: the run itself failed, which says nothing
    how: str


def outcome(source: Path, seed: int) -> Outcome:
    """Whether the workload finds something wrong with this source, and what."""
    command = [sys.executable, "-m", "tests.transactions.workload", "--seed", str(seed), "--steps", str(STEPS)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        return Outcome(True, f"no end in {LIMIT:.0f} s")
    if process.returncode in (0, VIOLATIONS, NO_PROGRESS):
        return Outcome(process.returncode != 0, first_complaint(said))
    return Outcome(None, first_complaint(said))


def first_complaint(said: str) -> str:
    """The first violation, or else the error that ended the run."""
    lines = said.splitlines()
    errors = [line for line in lines if line.startswith("AssertionError")]
    violations = [line for line in lines if ": " in line and " s  " not in line[:12] and not line.startswith(" ")]
    if errors:
        return f"{errors[0]} {[line for line in lines if line][-1]}"
    return (violations or lines or ["nothing was said"])[0]


def judge(mutant: Mutant | None) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            path = source / "runnel" / mutant.file
            path.write_text(path.read_text().replace(mutant.old, mutant.new, 1))
        answers = []
        for seed in SEEDS[: 1 if mutant is None else None]:
            answers.append(outcome(source, seed))
            if answers[-1].found:
                return answers[-1]
    unclear = [answer for answer in answers if answer.found is None]
    return unclear[0] if unclear else Outcome(False, f"not found with {len(answers)} seeds")


def main(words: list[str]) -> int:
    unchanged = judge(None)
    if unchanged.found is not False:
        print(f"the unchanged source does not pass: {unchanged.how}")
        return 1
    survivors = 0
    for mutant in MUTANTS:
        if words and not any(word in mutant.name for word in words):
            continue
        start = time.monotonic()
        if mutant.old not in (ROOT / "src/runnel" / mutant.file).read_text():
            verdict, how = "STALE", f"{mutant.file} has changed"
        else:
            found, how = judge(mutant)
            verdict = {True: "found", False: "SURVIVED", None: "UNCLEAR"}[found]
        survivors += verdict != "found"
        print(f"{verdict:9} {mutant.name} ({time.monotonic() - start:.0f} s): {how[:200]}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
