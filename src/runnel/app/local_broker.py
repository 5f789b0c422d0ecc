"""A broker of our own beside an app, as a process: it goes on answering while the app's Python is busy."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runnel.errors import Permanent

READY = "listening on "
PROGRAM = "from runnel.cli import main; main()"


class BrokerDidNotStart(Permanent):
    def __init__(self, said: str) -> None:
        super().__init__(
            f"the broker did not start: {said}", hint="`runnel broker start` with the same options tells more"
        )


@contextmanager
def local_broker(data: Path, listen: str) -> Iterator[str]:
    """The address of a broker that runs inside of the block."""
    data.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", PROGRAM, "broker", "start", "--data", str(data), "--listen", listen]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith(READY):
            raise BrokerDidNotStart(line.strip() or "it ended at once, see above")
        yield line.removeprefix(READY).strip()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
