"""The log with one protection taken out, to see the tests find it.

    python -m tests.crash.mutants [WORD ...]

makes a copy of the source for each mutant whose name has one of the words, changes it, and runs the unit and the crash
tests of the log on the copy. Ends with 1 if a mutant survives, or if the text that it changes is no longer there.
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

ROOT = Path(__file__).parents[2]
TESTS = ["tests/unit/log", "tests/crash/test_in_between.py", "tests/crash/test_model.py"]
ROUNDS = 20
SEED = 7


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str


MUTANTS = [
    Mutant("answer without a sync", "log/writer.py", "return settings.durable or by_count", "return by_count"),
    Mutant(
        "no sync of the folder of a new segment",
        "log/writer.py",
        "        segment.create()\n        self._home.files.sync_directory(self.directory)\n",
        "        segment.create()\n",
    ),
    Mutant(
        "roll without a sync",
        "log/writer.py",
        "        self.flush()\n        old.seal()",
        "        old.seal()",
    ),
    Mutant("torn end not cut off", "log/opening.py", "    active.file().truncate(broken.position)\n", ""),
    Mutant(
        "checksums not checked in recovery",
        "log/walk.py",
        "            validate_body(chunk, position - start, header)\n",
        "",
    ),
    Mutant(
        "failed sync called good", "log/group_commit.py", "        return error\n    return None", "        return None"
    ),
    Mutant(
        "failed sync tried again",
        "log/group_commit.py",
        "        return error\n    return None",
        "        return _sync(writer)",
    ),
    Mutant(
        "failed sync of the loop's round called good",
        "log/loop_rounds.py",
        "            if error is None:\n                self._commits.publish(writer)",
        "            if True:\n                self._commits.publish(writer)",
    ),
    Mutant(
        "the loop answers when its syncs are begun",
        "log/loop_rounds.py",
        "        if self._missing:\n            return []\n",
        "",
    ),
    Mutant(
        "the loop begins a round when it is closed",
        "log/loop_rounds.py",
        "if not self._closed and self._is_quick(writers):",
        "if self._is_quick(writers):",
    ),
    Mutant(
        "failed write forgotten when its round meets a defect",
        "log/loop_rounds.py",
        "dict.fromkeys([*writers, *(writer for writer, _, _ in failed)])",
        "dict.fromkeys(writers)",
    ),
    Mutant(
        "a sweep does not let the loop go first",
        "log/group_commit.py",
        "            rounds.let_go_first()\n",
        "            pass\n",
    ),
    Mutant(
        "the log's lock held while a deletion waits for its turn",
        "log/log.py",
        "with self._home.swapping, self._commits.exclusive(), self._lock:",
        "with self._lock, self._home.swapping, self._commits.exclusive():",
    ),
    Mutant(
        "a marker is answered before its sync",
        "log/writer.py",
        "self._home.clock.elapsed() or _has_marker(self._run)\n",
        "self._home.clock.elapsed()\n",
    ),
    Mutant(
        "new start not saved before files go",
        "log/partition.py",
        "        self._home.save_start_offset(self.id, offset)\n",
        "        self._home.start_offsets[self.id] = offset\n",
    ),
    Mutant(
        "producers of lost batches remembered",
        "log/writer.py",
        "            self._adopt(replayed_producers(self._home, self.directory, self.segments))\n",
        "",
    ),
    Mutant(
        "snapshot of producers that are not written yet",
        "log/writer.py",
        "self.directory, offset, self.written_producers, active",
        "self.directory, offset, self.producers, active",
    ),
    Mutant("replaced file not synced", "files.py", "    file.sync()\n    files.rename", "    files.rename"),
    Mutant("rename not synced", "files.py", "    files.sync_directory(os.path.dirname(path))\n", ""),
    Mutant("epoch given out before it is saved", "log/directory.py", "            self._write_meta(epoch)\n", ""),
    Mutant(
        "readers see what is not synced",
        "log/group_commit.py",
        "            if writer.write():\n                return True",
        "            if writer.write():\n"
        "                for append in writer._run:\n"
        "                    writer.segments.active.note(append.header, append.position)\n"
        "                return True",
    ),
    Mutant("recovered end not synced", "log/opening.py", "position)\n    file.sync()\n", "position)\n"),
    Mutant(
        "recovered end not written again",
        "log/opening.py",
        "    if synced_offset < active.next_offset:\n",
        "    if False:\n",
    ),
    Mutant(
        "deleted partition held against its successor",
        "log/log.py",
        "            self._home.forget_partition(name)\n",
        "",
    ),
    Mutant(
        "no sync of the folder of a new partition",
        "log/log.py",
        "make_directory(directory)\n                self._home.files.sync_directory(self.path)\n",
        "make_directory(directory)\n",
    ),
    Mutant(
        "writing on in the segment whose sync failed",
        "log/writer.py",
        "            self._begin_segment(self.next_offset)\n        except",
        "        except",
    ),
    Mutant(
        "no new epoch after a crash",
        "log/directory.py",
        "        if not self.was_clean:\n            self.next_epoch()",
        "",
    ),
    Mutant(
        "marked clean too early",
        "log/log.py",
        "        clean = True\n",
        "        clean = True\n        self._home.stop_clean()\n",
    ),
    Mutant(
        "mark of a clean stop left",
        "log/directory.py",
        '            self.files.remove(f"{self.path}/{CLEAN_FILE}")\n',
        "            pass\n",
    ),
    Mutant(
        "left-overs of a failed write readable",
        "log/segment.py",
        "            if limit is not None and self.next_offset >= limit:\n                return",
        "            if False:\n                return",
    ),
    Mutant("older batches of producers forgotten", "log/producers.py", "        body += older\n", ""),
    Mutant(
        "recovery point after what is synced",
        "log/partition.py",
        "                self._home.recovery_points[self.id] = writer.synced.offset",
        "                self._home.recovery_points[self.id] = writer.next_offset + 1",
    ),
    Mutant(
        "hint of what is synced written too early",
        "log/writer.py",
        "        self.file().write(data, first.position)",
        "        self._home.synced.note(self.name, written[-1].header.last_offset + 1)\n"
        "        self.file().write(data, first.position)",
    ),
    Mutant(
        "gaps not noticed",
        "log/writer.py",
        "                if header.base_offset != offset:",
        "                if False:",
    ),
    Mutant(
        "repetition answered before the first is synced",
        "log/writer.py",
        "        return Append(header, None, appended, told=told)",
        "        repeated = Append(header, None, appended, told=told)\n"
        "        repeated.answer()\n"
        "        return repeated",
    ),
    Mutant(
        "what was gathered comes behind what is submitted later",
        "log/writer.py",
        "        if self._gathered:\n            self._accept_gathered()\n\n    def refuse_if_unfit",
        "\n    def refuse_if_unfit",
    ),
    Mutant(
        "whose batch was gathered is not told when the disk fails",
        "log/writer.py",
        "if not append.done] + self._pending + self._given_up()",
        "if not append.done] + self._pending",
    ),
    Mutant(
        "what is foreseen is seen before the sync",
        "log/writer.py",
        "            self._shown = self._foreseen(self._run)\n",
        "            self._shown = self._foreseen(self._run)\n"
        "            self.segments.active.grow(self._shown.growth)\n",
    ),
]


def found(mutant: Mutant) -> bool:
    """Whether a test fails on the source with this change."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src", "tests", "examples", "benchmarks"):
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        path = Path(folder, "src/runnel", mutant.file)
        path.write_text(path.read_text().replace(mutant.old, mutant.new, 1))
        command = [sys.executable, "-m", "pytest", "-q", "-x", *TESTS]
        command += ["-m", "not soak", "--rounds", str(ROUNDS), "--seed", str(SEED), "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src:{folder}"}
        answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if answer.returncode not in (0, 1):
            raise RuntimeError(f"the tests could not be run:\n{answer.stdout}{answer.stderr}")
        return answer.returncode == 1


def main(words: list[str]) -> int:
    survivors = 0
    for mutant in MUTANTS:
        if words and not any(word in mutant.name for word in words):
            continue
        start = time.monotonic()
        source = (ROOT / "src/runnel" / mutant.file).read_text()
        verdict = "STALE" if mutant.old not in source else "found" if found(mutant) else "SURVIVED"
        survivors += verdict != "found"
        print(f"{verdict:9} {mutant.name} ({time.monotonic() - start:.0f} s)", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
