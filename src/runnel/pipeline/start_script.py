"""What Spark's start script becomes, kept for the next start.

The script starts one Java only to put together the command of another, which it then becomes: a third of a second, for
the same command every time. So the command is read from the process that came of it, and kept in the cache directory
under all that it depends on. A home directory with settings of its own (`conf`), or arguments of one's own, have the
script run every time: what it reads there nobody else should guess.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from runnel.pipeline.cache_directory import cache_directory

SCRIPTS = ("bin/spark-submit", "bin/spark-class", "bin/load-spark-env.sh", "jars")
ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
HEEDED = ("SPARK_", "HADOOP_", "YARN_", "JAVA_", "JDK_", "_JAVA_", "LD_")  # how the names of variables begin
GIVEN = ("SPARK_", "PYTHONHASHSEED")  # by the script
UNUSED = 30 * 86_400.0  # seconds


class Start(NamedTuple):
    """A command, and its whole environment."""

    command: Sequence[str]
    environment: Mapping[str, str]


def kept_for(start: Start) -> Start | None:
    """What the script became the last time; None if it has to run."""
    place = _place(start)
    if place is None:
        return None
    try:
        kept = json.loads(place.read_bytes())
        return Start(kept["command"], {**start.environment, **kept["environment"]})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(start: Start, process: int) -> None:
    """What it has become now."""
    place = _place(start)
    if place is None:
        return
    with suppress(OSError):
        became = _words(process, "cmdline")
        environment = dict(word.split("=", 1) for word in _words(process, "environ") if "=" in word)
        given = {
            name: value
            for name, value in environment.items()
            if name.startswith(GIVEN) and start.environment.get(name) != value
        }
        _write(place, {"command": became, "environment": given})


def forget(start: Start) -> None:
    """It led to nothing."""
    place = _place(start)
    if place is not None:
        with suppress(OSError):  # that Java did not start is what is to be told
            place.unlink()


def _place(start: Start) -> Path | None:
    environment = start.environment
    home = Path(environment["SPARK_HOME"])
    if ARGUMENTS in environment or "SPARK_CONF_DIR" in environment or (home / "conf").exists():
        return None
    java = shutil.which(f"{environment['JAVA_HOME']}/bin/java" if environment.get("JAVA_HOME") else "java")
    if java is None:
        return None
    try:
        files = [_look(path) for path in (Path(java), *(home / name for name in SCRIPTS))]
    except OSError:
        return None
    heeded = {name: value for name, value in environment.items() if name.startswith(HEEDED)}
    told = json.dumps([list(start.command), heeded, files], sort_keys=True)
    return cache_directory() / f"start-{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"


def _look(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path.resolve()), found.st_mtime_ns, found.st_size


def _words(process: int, name: str) -> list[str]:
    return [os.fsdecode(word) for word in Path(f"/proc/{process}/{name}").read_bytes().split(b"\0")[:-1]]


def _write(place: Path, kept: dict[str, Any]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    made = place.with_name(f"{place.name}.{os.getpid()}")
    with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # settings may be secrets
        json.dump(kept, file)
    made.replace(place)
    for other in place.parent.glob("start-*"):
        with suppress(FileNotFoundError):
            if time.time() - other.stat().st_mtime > UNUSED:
                other.unlink()
