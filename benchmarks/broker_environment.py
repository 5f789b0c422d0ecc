"""An environment as users have it: our package from its wheel, with what it needs at run time and nothing else.

Packages for development change what Python does when it starts and how far it searches for an import, so a start in
the environment of the tests is not the start that a user sees. It is made once, beside what the tests fetch, with the
versions that are installed here; our own package is put in anew in every run.
"""

import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from benchmarks.broker_turns import say
from tests.interop.kafka_distribution import cache_directory

ROOT = Path(__file__).parents[1]
DEVELOPMENT_PROGRAM = Path(sys.executable).with_name("runnel")


def users_program() -> Path:
    """The `runnel` of such an environment, with the code as it is now."""
    home = cache_directory() / f"users-environment-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not python.exists():
        say(f"making an environment as users have it, in {home}")
        _run(sys.executable, "-m", "venv", str(home))
    with tempfile.TemporaryDirectory() as folder:
        _run(*_pip(sys.executable), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        versions = Path(folder) / "versions.txt"
        versions.write_text(installed_versions())
        _run(*_pip(python), "install", "--constraint", str(versions), str(wheel))
        _run(*_pip(python), "install", "--no-deps", "--force-reinstall", str(wheel))
    return home / "bin" / "runnel"


def installed_versions() -> str:
    """The versions here, as pip reads constraints; without our own package, which has no released version."""
    installed = {each.name: each.version for each in metadata.distributions() if each.name != "runnel"}
    return "".join(f"{name}=={version}\n" for name, version in sorted(installed.items()))


def users_variables() -> dict[str, str]:
    """Our environment variables, without those that would keep Python from using its compiled files."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _pip(python: str | Path) -> list[str]:
    return [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, env=users_variables(), stdin=subprocess.DEVNULL)
