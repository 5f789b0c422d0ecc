"""Java's archive of Spark's classes, which halves the time that Spark needs to start.

Java can keep the classes that it has loaded in a file, and map that file the next time (AppCDS). The file belongs to
one Java, one Spark and one class path: its name is made of them, so a change of one makes another file. It is made
once, in the cache directory, by a process of its own that starts Spark, lets a small query run, and ends: only when
that Java has ended is the file whole. It gets its name then, with a note of its checksum beside it. A file that does
not fit its note is thrown away: Java would crash on it.

The first app that runs without one has it made for the next (`make_later`): by a process that outlives it if need be,
takes only the time that nobody else wants, and is the only one of its kind. With `RUNNEL_CLASS_ARCHIVE=off` in the
environment none is made unasked.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import crc32c

from runnel.pipeline.cache_directory import cache_directory
from runnel.pipeline.java import Java, as_a_word

logger = logging.getLogger(__name__)

VARIABLE = "RUNNEL_CLASS_ARCHIVE"
OFF = "off"
BLOCK = 4 * 1024 * 1024
DAY = 86_400.0
UNUSED = 30 * DAY  # then another Java or Spark has come
LONGEST = 3_600.0  # seconds; it needs forty on an idle machine, and may have to wait for a busy one
MAKER = (sys.executable, "-m", "runnel.pipeline.archiving")


class ClassArchive:
    def __init__(self, java: Java, spark_home: Path, directory: Path | None = None) -> None:
        self._directory = directory or cache_directory()
        name = f"spark-{_fingerprint(java, spark_home)}"
        self.path = self._directory / f"{name}.jsa"
        self._note = self._directory / f"{name}.json"
        self._failure = self._directory / f"{name}.failed"

    def options(self) -> str:
        """For the command line of Java; empty if there is no archive that can be used."""
        if not self.is_whole():
            return ""
        _touch(self._note)
        return as_a_word(f"-XX:SharedArchiveFile={self.path}")

    def is_whole(self) -> bool:
        """One that is not is removed."""
        if not self.path.exists():
            return False
        try:
            note = json.loads(self._note.read_bytes())
            whole = bool(note == _described(self.path))
        except (OSError, ValueError):
            whole = False
        if not whole:
            logger.warning("the archive of Spark's classes %s is damaged and is thrown away", self.path)
            self.remove()
        return whole

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def make(self, timeout: float = LONGEST) -> bool:
        """Make it and wait for it; False, with a line in the log, where that is not possible. One at a time: who comes
        second finds what the first has made.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with self._lock.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                return self.is_whole() or self._make(timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            return self._fail(str(error))

    def make_later(self) -> None:
        """By a process of its own, for which nobody waits; unless there is one, or making it failed today."""
        if os.environ.get(VARIABLE) == OFF or self.path.exists() or self._is_being_made() or self._has_failed():
            return
        logger.info("an archive of Spark's classes is made in the background: the next start is quicker")
        quiet = subprocess.DEVNULL
        _makers.append(
            subprocess.Popen(MAKER, stdin=quiet, stdout=quiet, stderr=quiet, cwd="/", start_new_session=True)
        )

    # --- inside

    def _make(self, timeout: float) -> bool:
        for left in self._directory.glob("making-*"):  # by one that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=self._directory) as directory:
            made = Path(directory) / "spark.jsa"
            command = [sys.executable, "-m", "runnel.pipeline.training", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
            if done.returncode != 0 or not made.exists():
                return self._fail(done.stderr.strip()[-500:])
            self._keep(made)
        self._failure.unlink(missing_ok=True)
        self._forget_the_unused()
        return True

    def _keep(self, made: Path) -> None:
        """The note comes first: a file without a note is thrown away, a note without a file does no harm."""
        note = made.with_suffix(".json")
        note.write_text(json.dumps(_described(made)))
        os.replace(note, self._note)
        os.replace(made, self.path)

    def _fail(self, reason: str) -> bool:
        logger.warning("no archive of Spark's classes could be made: %s", reason)
        with contextlib.suppress(OSError):
            self._failure.write_text(reason)
        return False

    def _has_failed(self) -> bool:
        return _age(self._failure) < DAY

    def _is_being_made(self) -> bool:
        try:
            with self._lock.open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def _forget_the_unused(self) -> None:
        """Those of a Java or a Spark that was replaced: they are large."""
        for note in self._directory.glob("spark-*.json"):
            if note != self._note and _age(note) > UNUSED:
                note.with_suffix(".jsa").unlink(missing_ok=True)
                note.unlink(missing_ok=True)

    @property
    def _lock(self) -> Path:
        return self._directory / "making"


_makers: list[subprocess.Popen[bytes]] = []  # Python would complain of one that is forgotten while it runs


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)


def _described(path: Path) -> dict[str, int]:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            checksum = crc32c.crc32c(block, checksum)
    return {"size": path.stat().st_size, "crc32c": checksum}


def _fingerprint(java: Java, spark_home: Path) -> str:
    """Java compares names and times of the jars by itself; what differs here is not even tried."""
    parts: Iterable[str] = (
        str(java.path),
        java.version,
        str(spark_home),
        os.environ.get("SPARK_CONF_DIR", ""),
        *(
            f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}"
            for jar in sorted((spark_home / "jars").glob("*"))
        ),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
