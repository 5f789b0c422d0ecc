"""Sources of others that come in the source distribution of a Python package."""

import subprocess
import sys
import tarfile
from pathlib import Path

from tests.conformance.outcome import tail


class SourcesUnavailable(Exception):
    """A source distribution could not be fetched; the message says why."""


def fetch_sources(package: str, directory: Path) -> Path:
    """Fetch a package, named with its version as pip takes it, and unpack it; gives its folder."""
    download = [sys.executable, "-m", "pip", "download", "--no-binary", ":all:", "--no-deps", "--dest", str(directory)]
    run = subprocess.run([*download, package], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    archives = list(directory.glob("*.tar.gz"))
    if run.returncode != 0 or len(archives) != 1:
        raise SourcesUnavailable(f"pip could not fetch the sources of {package}:\n{tail(run.stdout)}")
    with tarfile.open(archives[0]) as source:
        source.extractall(directory, filter="data")
    return directory / archives[0].name.removesuffix(".tar.gz")
