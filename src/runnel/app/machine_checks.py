"""What an app needs of the machine: Python, Spark, Java, room on the disks. No Spark is started for it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runnel.app.finding import Finding, note, well, wrong
from runnel.app.finding import told as told_as
from runnel.errors import FileInTheWay, RunnelError
from runnel.pipeline.java import find_java
from runnel.version import __version__

PYTHON = (3, 11)
SPARK = (4, 3)
MIB = 1024 * 1024
TOO_LITTLE = 256 * MIB
LITTLE = 2048 * MIB


def machine_checks(data: Path) -> Iterator[Finding]:
    yield python()
    yield spark()
    yield java()
    yield from disks(data)


def python() -> Finding:
    found = f"{platform.python_version()} ({sys.executable}), runnel {__version__}"
    if sys.version_info < PYTHON:
        return wrong("Python", found, "use Python 3.11 or newer")
    other = os.environ.get("PYSPARK_PYTHON")
    if other is not None and shutil.which(other) is None:
        return wrong(
            "Python", f"PYSPARK_PYTHON is {other}, which is not there", "unset it: Spark uses this Python then"
        )
    if other is not None and os.path.realpath(other) != os.path.realpath(sys.executable):
        return note("Python", f"{found}; Spark's processes use {other}", "it must have the same version and packages")
    return well("Python", found)


def spark() -> Finding:
    wanted = ".".join(map(str, SPARK))
    hint = f"pip install 'pyspark>={wanted},<{SPARK[0]}.{SPARK[1] + 1}'"
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return wrong("Spark", "pyspark is not installed", hint)
    if tuple(version.split(".")[:2]) != tuple(map(str, SPARK)):
        return wrong("Spark", f"pyspark {version}, and {wanted} is needed", hint)
    home = os.environ.get("SPARK_HOME")
    if home is not None:
        return note("Spark", f"pyspark {version}, with SPARK_HOME {home}", "unset it unless you need that Spark")
    return well("Spark", f"pyspark {version}")


def java() -> Finding:
    try:
        found = find_java()
    except RunnelError as error:
        return told_as("Java", error)
    return well("Java", f"{found.version} ({found.path})")


def disks(data: Path) -> Iterator[Finding]:
    """Of the data directory, and where Spark puts what it needs for a while."""
    there = existing(data)
    if not there.is_dir():
        yield told_as("data directory", FileInTheWay(str(data), f"{there} is a file"))
    elif not os.access(there, os.W_OK | os.X_OK):
        yield wrong("data directory", f"{there} cannot be written", "name another by --data, or change its permissions")
    yield disk("disk", data)
    for directory in os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(","):
        if os.stat(existing(Path(directory))).st_dev != os.stat(there).st_dev:
            yield disk("disk of Spark", Path(directory))


def disk(what: str, directory: Path) -> Finding:
    usage = shutil.disk_usage(existing(directory))
    found = f"{usage.free / MIB:,.0f} MiB free of {usage.total / MIB:,.0f} MiB at {directory}"
    hint = "make room, or name another directory by --data" if what == "disk" else "make room, or set SPARK_LOCAL_DIRS"
    if usage.free < TOO_LITTLE:
        return wrong(what, found, hint)
    return note(what, found, hint) if usage.free < LITTLE else well(what, found)


def existing(path: Path) -> Path:
    """It, or the nearest directory above that is there."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if os.path.exists(each))
