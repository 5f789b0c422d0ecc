"""Our broker with one line of its groups changed, to see the checker find it.

    python -m tests.interop.groups.mutants [WORD ...]

makes a copy of the source for each mutant whose name has one of the words, changes it, and runs the storm on the copy,
with one seed after the other until it is found. Ends with 1 if a mutant survives all of them, if the text that it
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

from tests.interop.groups.storm import NO_PROGRESS, VIOLATIONS, WRONG

ROOT = Path(__file__).parents[3]
SEEDS = (1, 2, 3)
LIMIT = 200.0  # seconds for a run; a broker that lets its members wait for ever is found as well


class Mutant(NamedTuple):
    name: str
    breaks: str
    file: str
    old: str
    new: str


class Outcome(NamedTuple):
    found: bool | None  # None: the run itself failed, which says nothing
    how: str


MUTANTS = {
    "consumer": [
        Mutant(
            "a partition is given while another has it",
            "two owners",
            "broker/groups/consumer/reconciling.py",
            "            if group.owners.get((topic, number), member.id) == member.id:\n",
            "            if True:\n",
        ),
        Mutant(
            "a partition is free when its owner is told to let it go",
            "two owners, until the former one hears of it",
            "broker/groups/consumer/reconciling.py",
            "    if revoking and (owned is None or overlap(",
            "    if False and (owned is None or overlap(",
        ),
        Mutant(
            "an old epoch may commit what others have",
            "a former owner's commits are taken",
            "broker/groups/consumer/commits.py",
            "    return stale(member) if given_at is None or epoch < given_at else ErrorCode.NONE\n",
            "    return ErrorCode.NONE\n",
        ),
        Mutant(
            "whoever is no member may commit",
            "commits of the fenced are taken",
            "broker/groups/consumer/commits.py",
            "    if member is None:\n        return ErrorCode.UNKNOWN_MEMBER_ID\n    if version is not None",
            "    if member is None:\n        return ErrorCode.NONE\n    if version is not None",
        ),
        Mutant(
            "a member of whom nothing is heard stays one",
            "its partitions are read by nobody",
            "broker/groups/consumer/running.py",
            "        self.fence(name, member_id)\n",
            "        pass\n",
        ),
        Mutant(
            "nobody hears that a member is gone",
            "what it had is read by nobody",
            "broker/groups/consumer/leaving.py",
            "    drop_unused_expressions(draft)\n    raise_epoch(draft, world)\n",
            "    drop_unused_expressions(draft)\n",
        ),
    ],
    "classic": [
        Mutant(
            "an old generation may commit",
            "a former owner's commits are taken",
            "broker/groups/offsets.py",
            "    if committer.generation != group.generation:\n",
            "    if False:\n",
        ),
        Mutant(
            "whoever is no member of a classic group may commit",
            "commits of the fenced are taken",
            "broker/groups/offsets.py",
            "    error = group.members.check(committer.member_id, committer.instance_id)\n    if error:\n",
            "    error = group.members.check(committer.member_id, committer.instance_id)\n    if False:\n",
        ),
    ],
    "rolling": [
        Mutant(
            "what classic members have is forgotten when the group changes",
            "it is given to others while they read it",
            "broker/groups/consumer/migration.py",
            "assigned={topic: dict.fromkeys(numbers, group.generation) for topic, numbers in assigned.items()},",
            "assigned={},",
        ),
    ],
}


def outcome(source: Path, protocol: str, seed: int) -> Outcome:
    """Whether the storm finds something wrong with this source, and what."""
    command = [sys.executable, "-m", "tests.interop.groups.storm", "--protocol", protocol, "--seed", str(seed)]
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
    is_clear = process.returncode in (0, VIOLATIONS, NO_PROGRESS)
    return Outcome(process.returncode != 0 if is_clear else None, complaint_in(said))


def complaint_in(said: str) -> str:
    """The first thing that is wrong, or else the last line, which tells the error that ended the run."""
    lines = [line for line in said.splitlines() if line.strip()]
    wrong = [line.removeprefix(WRONG) for line in lines if line.startswith(WRONG)]
    return (wrong or lines[-1:] or ["nothing was said"])[0]


def judge(protocol: str, mutant: Mutant | None) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            path = source / "runnel" / mutant.file
            path.write_text(path.read_text().replace(mutant.old, mutant.new, 1))
        answers = []
        for seed in SEEDS[: 1 if mutant is None else None]:
            answers.append(outcome(source, protocol, seed))
            if answers[-1].found:
                return answers[-1]
    unclear = [answer for answer in answers if answer.found is None]
    return unclear[0] if unclear else Outcome(False, f"not found with {len(answers)} seeds")


def main(words: list[str]) -> int:
    survivors = 0
    for protocol, mutants in MUTANTS.items():
        chosen = [each for each in mutants if not words or any(word in each.name for word in words)]
        if chosen and (unchanged := judge(protocol, None)).found is not False:
            print(f"the unchanged source does not pass {protocol}: {unchanged.how}")
            return 1
        for mutant in chosen:
            start = time.monotonic()
            if mutant.old not in (ROOT / "src/runnel" / mutant.file).read_text():
                verdict, how = "STALE", f"{mutant.file} has changed"
            else:
                found, how = judge(protocol, mutant)
                verdict = {True: "found", False: "SURVIVED", None: "UNCLEAR"}[found]
            survivors += verdict != "found"
            print(f"{verdict:9} {mutant.name} ({time.monotonic() - start:.0f} s): {how[:200]}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
