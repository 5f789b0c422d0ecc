"""Spark's home directory, as Spark is told: the installed package without its zip of Python files.

Spark puts `python/lib/pyspark.zip` before everything else that its Python processes import. Python cannot keep compiled
code in it, so each of these processes compiles all of PySpark again, which takes a second. The same files are installed
beside it, compiled. So Spark is given a directory of links to all that it needs but the zip. On a cluster it stays:
there may be no package.

`local-cluster[...]` rehearses a cluster on this machine. Its workers keep their files below the home directory, so it
gets a home of its own, which is removed when the program ends.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pyspark

LINKED = ("bin", "jars")
REHEARSED = "local-cluster"


def installed_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])


def home_for(master: str, cache: Path) -> Path:
    """A home that the user chose stays."""
    if "SPARK_HOME" in os.environ or not master.startswith("local"):
        return installed_home()
    try:
        return _own_home() if master.startswith(REHEARSED) else _shared_home(cache)
    except OSError:
        return installed_home()


def _shared_home(cache: Path) -> Path:
    """In the cache, for all that run on this machine."""
    home = cache / f"home-{hashlib.sha256(str(installed_home()).encode()).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    _link_all(home)
    return home


def _own_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="runnel-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    _link_all(home)
    return home


def _link_all(home: Path) -> None:
    for name in LINKED:
        _link(home / name, installed_home() / name)


def _link(link: Path, target: Path) -> None:
    """A link that another process makes at the same time is as good."""
    try:
        link.symlink_to(target)
    except FileExistsError:
        if link.resolve() != target.resolve():
            temporary = link.with_name(f"{link.name}.{os.getpid()}")
            temporary.symlink_to(target)
            temporary.replace(link)
