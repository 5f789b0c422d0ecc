"""The pipeline with one protection taken out, to see the crash tests find it.

    python -m tests.pipeline.mutants [WORD ...]

makes a copy of the source for each mutant whose name has one of the words, changes it, and runs the tests on the copy
that should find it, until one fails. The unchanged source has to pass them all. At the end there is a table of what was
found by what. Ends with 1 if a mutant survives, if the text that it changes is not there once, or if the unchanged
source does not pass.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TESTS = "tests/pipeline/test_crash_points.py"
LIMIT = 600.0
FAILED, PASSED = 1, 0

STEP = "test_it_dies_at_a_step_and_comes_back"
BY_DRIVER = f"{STEP}[a stream by the driver-{{}}-twice-{{}}]"
BY_TASKS = f"{STEP}[a stream by tasks-{{}}-twice-{{}}]"
IN_SQLITE = f"{STEP}[a view in SQLite-{{}}-twice-{{}}]"
IN_POSTGRES = f"{STEP}[a view in PostgreSQL-{{}}-twice-{{}}]"
SLEEPER = "test_a_driver_that_wakes_up_beside_its_successor_is_fenced_and_says_so[{}]"
JUST_BEFORE = "test_a_commit_that_comes_just_before_its_successor_opens_counts"
OTHER = "test_a_checkpoint_that_is_not_that_of_its_output_is_refused"
WINDOWS = "test_what_a_window_remembers_survives_a_death_after_the_commit"
SYNCED = "test_an_entry_of_the_checkpoint_is_on_the_disk_before_its_batch_takes_effect[{}]"
BEGUN = "test_where_a_stream_began_is_kept"
SHARED = "test_killed_while_what_a_window_remembers_is_shared_anew_the_next_run_goes_on_from_there"


class Mutant(NamedTuple):
    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = [
    Mutant(
        "the marker is ignored",
        "a batch that took effect does so again",
        "pipeline/markers.py",
        "    return bool(batch == marker.batch)\n",
        "    return False\n",
        (BY_DRIVER.format("publish.commit", "after"), BY_TASKS.format("publish.commit", "after")),
    ),
    Mutant(
        "no fencing of streams",
        "the transaction of a dead driver stays open, and one that wakes up writes on",
        "pipeline/sinks/publisher.py",
        "Transaction(cluster, name, timeout",
        "Transaction(cluster, f\"{name}.{__import__('os').getpid()}\", timeout",
        (SLEEPER.format("a stream by the driver-publish.commit:before:2"), BY_DRIVER.format("publish.write", "after")),
    ),
    Mutant(
        "no fencing of views",
        "a driver that wakes up writes beside its successor",
        "views/writer.py",
        "        if kept is None or kept.epoch != self._epoch:\n",
        "        if kept is None:\n",
        (SLEEPER.format("a view in SQLite-publish.commit:after:2"),),
    ),
    Mutant(
        "the transaction is ended before all writers are done",
        "half of a batch is seen, and no repeat brings the rest",
        "pipeline/sinks/parallel.py",
        "for row in written.collect())",
        "for row in written.take(1))",
        (BY_TASKS.format("publish.commit", "after"),),
    ),
    Mutant(
        "a repeat calls other clicks late",
        "clicks that were told as late are counted as well, or nowhere",
        "pipeline/source/rows.py",
        "        low = moment.watermark * MICROSECONDS if moment else 0\n",
        "        there = aside.directory_of(self._spec.path, moment.batch if moment else 0)\n"
        "        is_repeat = aside.path_of(there, self._spec.number, self._range).exists()\n"
        "        low = moment.watermark * MICROSECONDS if moment and not is_repeat else 0\n",
        (WINDOWS, BY_TASKS.format("publish.commit", "before")),
    ),
    Mutant(
        "a late file tells the time of its writing",
        "a repeat writes another file than the first attempt",
        "pipeline/source/rows.py",
        "why[row] = aside.LATE, str(moment.watermark if moment else 0)",
        "why[row] = aside.LATE, str(__import__('time').time_ns() // 1_000_000)",
        (BY_DRIVER.format("publish.begin", "before"),),
    ),
    Mutant(
        "the marker is read before the fence",
        "a commit in between is not known, and its batch is written again",
        "pipeline/sinks/publisher.py",
        '        with durable("publish.open"):\n'
        "            self._transaction.init()\n"
        "        self.marker = read_marker(self._cluster, self._marks, self._query)\n",
        "        self.marker = read_marker(self._cluster, self._marks, self._query)\n"
        '        with durable("publish.open"):\n'
        "            self._transaction.init()\n",
        (JUST_BEFORE,),
    ),
    Mutant(
        "the marker of a view is no part of its transaction",
        "the view shows a batch that its marker does not know",
        "views/writer.py",
        "            applied = self._write(database, statements, kept, batch)\n",
        "            applied = self._write(database, statements, kept, batch)\n"
        "            database.commit()\n"
        '            database.run("BEGIN")\n',
        (IN_SQLITE.format("view.commit", "before"), IN_POSTGRES.format("view.commit", "before")),
    ),
    Mutant(
        "what a view puts aside is published whenever it is run",
        "late and rejected clicks are told twice",
        "pipeline/steps/publish.py",
        "        if (batch.aside.num_rows or done is None) and not is_published:\n",
        "        if batch.aside.num_rows or done is None:\n",
        (IN_SQLITE.format("view.commit", "before"),),
    ),
    Mutant(
        "a view shows a batch before what it put aside is published",
        "a death in between takes the late and rejected clicks with it",
        "pipeline/view_query.py",
        "            PublishAside(publisher),\n            Keep(writer),\n",
        "            Keep(writer),\n            PublishAside(publisher),\n",
        (IN_SQLITE.format("view.commit", "after"),),
    ),
    Mutant(
        "positions are not compared",
        "an older copy of the checkpoint loses or repeats clicks",
        "pipeline/markers.py",
        "    if batch == marker.batch and marker.positions != positions:\n",
        "    if False:\n",
        (OTHER,),
    ),
    Mutant(
        "a batch that took effect is not run again",
        "what the body remembers of it is gone",
        "pipeline/steps/publish.py",
        '            batch.frame.write.format("noop").mode("append").save()\n',
        "",
        (WINDOWS,),
    ),
    Mutant(
        "an entry of the checkpoint is not synced",
        "after a power cut the marker is ahead of the checkpoint",
        "pipeline/checkpoint.py",
        "            self._entry(batch).sync(anew=anew)\n",
        "",
        (SYNCED.format("a stream by the driver"),),
    ),
    Mutant(
        "the directory of the entries is not synced",
        "the same",
        "pipeline/checkpoint.py",
        "(_sync_directory, (self.path / COMMITS, self.path / OFFSETS))",
        "(_sync_directory, (self.path / COMMITS,))",
        (SYNCED.format("a stream by the driver"),),
    ),
    Mutant(
        "a stream does not wait for the disk",
        "the same",
        "pipeline/steps/publish.py",
        "        batch.wait_for_disk()\n"
        '        with batch.watch.step("publish"):\n            self._publisher.publish(',
        '        with batch.watch.step("publish"):\n            self._publisher.publish(',
        (SYNCED.format("a stream by the driver"),),
    ),
    Mutant(
        "a view does not wait for the disk",
        "the same",
        "pipeline/steps/publish.py",
        "            batch.wait_for_disk()\n"
        '            with batch.watch.step("publish"):\n                self._publisher.publish(',
        '            with batch.watch.step("publish"):\n                self._publisher.publish(',
        (SYNCED.format("a view in SQLite"),),
    ),
    Mutant(
        "where a stream began is not kept",
        "what comes between the first start and the first batch is lost",
        "pipeline/source/planner.py",
        "        if path.exists():\n",
        "        if False:\n",
        (BEGUN,),
    ),
    Mutant(
        "state is shared by something else than its key",
        "a task does not find what it remembered",
        "pipeline/repartition.py",
        "frame.repartition(tasks, KEY)",
        'frame.repartition(tasks, "value_bytes")',
        (SHARED,),
    ),
    Mutant(
        "the number is not changed",
        "state is where no task looks for it",
        "pipeline/repartition.py",
        '    known["conf"][PARTITIONS] = str(partitions)\n',
        "",
        (SHARED,),
    ),
]
ALL_TESTS = tuple(dict.fromkeys(test for mutant in MUTANTS for test in mutant.tests))


class Verdict(NamedTuple):
    word: str
    name: str
    seconds: float
    told: str

    def __str__(self) -> str:
        return f"{self.word:8}  {self.name:58}  {self.seconds:4.0f} s  {self.told}"


def run(mutant: Mutant | None, tests: tuple[str, ...]) -> tuple[int, str]:
    """How the tests end on a copy with this change, and what failed first."""
    with tempfile.TemporaryDirectory(prefix="runnel-mutant-") as folder:
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        if mutant is not None:
            path = Path(folder, "src/runnel", mutant.file)
            path.write_text(path.read_text().replace(mutant.old, mutant.new, 1))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        command += ["--tb=short", "--basetemp", f"{folder}/tmp", *(f"{TESTS}::{test}" for test in tests)]
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src:{folder}"}
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            said, _ = process.communicate(timeout=LIMIT)
        finally:
            if process.poll() is None:
                process.terminate()
                process.communicate()
    return process.returncode, told_by(said)


def told_by(said: str) -> str:
    """The test that failed, and the line that says why."""
    test = re.search(r"^FAILED [^:]+::(.+?)(?: - |$)", said, re.MULTILINE)
    why = re.search(r"^E +(?:AssertionError: )?(.+)$", said, re.MULTILINE)
    return f"{test[1] if test else 'no test'}: {why[1] if why else said.strip().splitlines()[-1]}"[:300]


def is_there(mutant: Mutant) -> bool:
    path = ROOT / "src/runnel" / mutant.file
    return path.exists() and path.read_text().count(mutant.old) == 1


def judge(mutant: Mutant) -> Verdict:
    if not is_there(mutant):
        return Verdict("STALE", mutant.name, 0, f"{mutant.file} has changed")
    start = time.monotonic()
    code, told = run(mutant, mutant.tests)
    if code not in (FAILED, PASSED):
        raise RuntimeError(f"the tests could not be run: {told}")
    seconds = time.monotonic() - start
    return Verdict("found", mutant.name, seconds, told) if code else Verdict("SURVIVED", mutant.name, seconds, "")


def judge_unchanged(tests: tuple[str, ...]) -> Verdict:
    start = time.monotonic()
    code, told = run(None, tests)
    return Verdict("WRONG" if code else "passed", "(the unchanged source)", time.monotonic() - start, told * bool(code))


def main(words: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    verdicts = []
    for mutant in chosen:
        verdicts.append(judge(mutant))
        print(verdicts[-1], flush=True)
    verdicts.append(judge_unchanged(tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))))
    print(verdicts[-1], flush=True)
    return 0 if all(verdict.word in ("found", "passed") for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
