"""Processes that plan batches, ready at once.

Spark starts a Python for each source of each query, and waits while it imports: in a test, longer than for the rest.
So a session for tests has another Python: a script that hands what Spark asks for to a process that has imported it all
before, and forks. Whatever else Spark starts, and all of it when that process is gone, goes to the real Python.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
REQUESTS = "requests"
SCRIPT = """#!/bin/sh
if [ "$2" = {planner} ] && kill -0 {forker} 2> /dev/null; then
    request=$(mktemp '{directory}'/request.XXXXXX) || exit 1
    env -0 > "$request"
    echo "$request" > '{directory}'/{requests}
    exit 0
fi
exec '{python}' "$@"
"""


@cache
def python_with_planners() -> str:
    """The script, to be given to Spark as its Python; the forks end with this process. One for all sessions."""
    directory = Path(tempfile.mkdtemp(prefix="runnel-planners-"))
    os.mkfifo(directory / REQUESTS, 0o600)
    forker = subprocess.Popen([sys.executable, "-m", __name__, str(directory)], stdin=subprocess.PIPE)
    atexit.register(forker.communicate)  # it ends with its stdin, as when this process is killed
    script = directory / "python"
    script.write_text(
        SCRIPT.format(planner=PLANNER, forker=forker.pid, directory=directory, requests=REQUESTS, python=sys.executable)
    )
    script.chmod(0o700)
    return str(script)


# --- the process that forks


def serve(directory: Path) -> None:
    """Until whoever started it has ended."""
    from pyspark.sql.streaming import python_streaming_source_runner  # noqa: F401, PLC0415

    import runnel.pipeline.source.reader  # noqa: PLC0415
    import runnel.pipeline.view_inputs.source  # noqa: F401, PLC0415

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    requests = os.open(directory / REQUESTS, os.O_RDWR)  # to read alone would be to wait for a writer, again and again
    waiting = b""
    while True:
        readable, _, _ = select.select([requests, sys.stdin], [], [])
        if sys.stdin in readable:
            shutil.rmtree(directory, ignore_errors=True)
            return
        waiting += os.read(requests, select.PIPE_BUF)
        *whole, waiting = waiting.split(b"\n")
        for request in whole:
            if os.fork() == 0:
                os.close(requests)
                _plan(os.fsdecode(request))


def _plan(request: str) -> None:
    """What the module does when it is run: with the environment that Spark gave to the script."""
    from pyspark.sql.streaming.python_streaming_source_runner import main  # noqa: PLC0415
    from pyspark.worker_util import get_sock_file_to_executor  # noqa: PLC0415

    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(sys.stdin.fileno())
        pairs = (pair.partition("=") for pair in os.fsdecode(Path(request).read_bytes()).split("\0") if pair)
        os.environ.clear()
        os.environ.update({name: value for name, _, value in pairs})
        os.unlink(request)
        with get_sock_file_to_executor(timeout=None) as file:
            main(file, file)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
