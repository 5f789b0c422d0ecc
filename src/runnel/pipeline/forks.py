"""Spark's Python processes as forks, ready at once.

Spark starts a Python to make each source, one for each source of each query to plan its batches, one to plan its tasks
and one to run them, and waits while it imports: a second each, one after the other. So a session on this machine has
another Python: a script that asks a process that has imported it all for a fork, see `forker.py`. That process is
started once, beside Java, and what its forks have in common is in memory once. Whatever else is started, and all of it
when that process is gone, is the real Python.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import secrets
import shlex
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from runnel.pipeline import forked_python
from runnel.pipeline.cache_directory import cache_directory

PYTHON = "PYSPARK_PYTHON"  # what Spark's processes run, as the user chooses it
ON_THIS_MACHINE = re.compile(r"local(\[.*\])?")
# As Spark sets them for the processes that it starts, whatever they are for us.
VARIABLES = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES", "OMP_NUM_THREADS": "1"}
SCRIPT = """#!/bin/sh
exec {python} -SP {forked_python} {python} "$@"
"""


def is_on_this_machine(master: str) -> bool:
    return ON_THIS_MACHINE.fullmatch(master) is not None


def variables_for(master: str) -> dict[str, str]:
    """What the environment of Java must hold, so that it starts forks; empty, if it cannot or should not."""
    if sys.platform != "linux" or PYTHON in os.environ or not is_on_this_machine(master):
        return {}
    try:
        return {PYTHON: str(_script()), forked_python.VARIABLE: _forker()}
    except OSError:  # such as a cache that cannot be written
        return {}


def _script() -> Path:
    """In the cache, for all that run with this Python. PermissionError where nothing may be run from there."""
    words = {"python": shlex.quote(sys.executable), "forked_python": shlex.quote(str(forked_python.__file__))}
    text = SCRIPT.format(**words)
    script = cache_directory() / f"python-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        written = script.with_name(f"{script.name}.{os.getpid()}")
        written.write_text(text)
        written.chmod(0o755)
        written.replace(script)
    if not os.access(script, os.X_OK):
        raise PermissionError(script)
    return script


@cache
def _forker() -> str:
    """Its address. It ends with this process, whatever that ends of."""
    address = f"runnel-{secrets.token_hex(16)}"
    ends, owned = os.pipe()  # nobody else has `owned`
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"\0{address}")
            listening.listen()  # who comes too early waits until all is imported
            started = subprocess.Popen(
                [sys.executable, "-m", "runnel.pipeline.forker", str(ends)],
                stdin=listening.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, **VARIABLES},
                pass_fds=[ends],
                process_group=0,
            )
    except OSError:
        os.close(owned)
        raise
    finally:
        os.close(ends)
    atexit.register(_end, started, owned)
    return address


def _end(forker: subprocess.Popen[bytes], owned: int) -> None:
    forker.kill()  # it may be importing still
    forker.wait()
    with suppress(OSError):
        os.close(owned)
