"""Java's archive of Spark's classes, which halves the time that Spark needs to start.

Java can keep the classes that it has loaded in a file, and map that file the next time (AppCDS). The file belongs to
one Java, one Spark and one class path: its name is made of them, so a change of one makes another file. It is made
once, in the cache directory, by a process of its own that starts Spark, lets a small query run, and ends: only when
that Java has ended is the file whole. It gets its name then, with a note of its checksum beside it. A file that does
not fit its note is thrown away: Java would crash on it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import crc32c

from runnel.pipeline.java import Java

logger = logging.getLogger(__name__)

BLOCK = 4 * 1024 * 1024


class ClassArchive:
    def __init__(self, java: Java, spark_home: Path, directory: Path | None = None) -> None:
        self._directory = directory or cache_directory()
        name = f"spark-{_fingerprint(java, spark_home)}"
        self.path = self._directory / f"{name}.jsa"
        self._note = self._directory / f"{name}.json"

    def options(self) -> str:
        """For the command line of Java; empty if there is no archive that can be used."""
        return f"-XX:SharedArchiveFile={self.path}" if self.is_whole() else ""

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

    def make(self, timeout: float = 600) -> bool:
        """Make it and wait for it; False, with a line in the log, where that is not possible."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="making-", dir=self._directory) as directory:
                made = Path(directory) / "spark.jsa"
                command = [sys.executable, "-m", "runnel.pipeline.training", str(made)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
                if done.returncode != 0 or not made.exists():
                    logger.warning("no archive of Spark's classes could be made: %s", done.stderr.strip()[-500:])
                    return False
                self._keep(made)
        except (OSError, subprocess.TimeoutExpired) as error:
            logger.warning("no archive of Spark's classes could be made: %s", error)
            return False
        return True

    def _keep(self, made: Path) -> None:
        """The note comes first: a file without a note is thrown away, a note without a file does no harm."""
        note = made.with_suffix(".json")
        note.write_text(json.dumps(_described(made)))
        os.replace(note, self._note)
        os.replace(made, self.path)


def cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "runnel"


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
