"""The Java that Spark will run on: found and asked for its version before Spark is, because Spark's own words for a
missing one help nobody.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from runnel.pipeline.errors import WANTED, JavaMissing, JavaTooOld


class Java(NamedTuple):
    path: Path  # without links
    version: str


def find_java() -> Java:
    """By JAVA_HOME or the search path, as Spark's own scripts look for it."""
    home = os.environ.get("JAVA_HOME")
    looked = f"{home}/bin/java" if home else "java"
    found = shutil.which(looked)
    if found is None:
        raise JavaMissing(f"{looked} (JAVA_HOME)" if home else "java (JAVA_HOME is not set)")
    path = Path(found).resolve()
    version = _told_by_its_files(path) or _told_by_itself(path)
    if major(version) < WANTED:
        raise JavaTooOld(str(path), version)
    return Java(path, version)


def major(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_402`; 0 where nothing can be told."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else 0


def as_a_word(option: str) -> str:
    """An option of Java's among others in one text, from which Spark takes it out whole: a path may have spaces."""
    if not re.search(r"""[\s"'\\]""", option):
        return option
    escaped = re.sub(r'(["\\])', r"\\\1", option)
    return f'"{escaped}"'


def _told_by_its_files(path: Path) -> str | None:
    """The file `release` says what `java -version` says, without a start of Java."""
    try:
        text = (path.parent.parent / "release").read_text()
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found else None


def _told_by_itself(path: Path) -> str:
    told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([^"]+)"', told.stderr)
    return found[1] if found else told.stderr.strip().partition("\n")[0] or "of no version"
