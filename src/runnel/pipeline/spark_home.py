"""Spark's home directory, as Spark is told: the installed package without its zip of Python files.

Spark puts `python/lib/pyspark.zip` before everything else that its Python processes import. Python cannot keep compiled
code in it, so each of these processes compiles all of PySpark again, which takes a second. The same files are installed
beside it, compiled. So Spark is given a directory of links to all that it needs but the zip. On a cluster it stays:
there may be no package.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

LINKED = ("bin", "jars")


def installed_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])


def home_for(master: str, cache: Path) -> Path:
    """A home that the user chose stays."""
    installed = installed_home()
    if "SPARK_HOME" in os.environ or not master.startswith("local") or master.startswith("local-cluster"):
        return installed
    home = cache / f"home-{hashlib.sha256(str(installed).encode()).hexdigest()[:16]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in LINKED:
            _link(home / name, installed / name)
    except OSError:
        return installed
    return home


def _link(link: Path, target: Path) -> None:
    """A link that another process makes at the same time is as good."""
    try:
        link.symlink_to(target)
    except FileExistsError:
        if link.resolve() != target.resolve():
            temporary = link.with_name(f"{link.name}.{os.getpid()}")
            temporary.symlink_to(target)
            temporary.replace(link)
