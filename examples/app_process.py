"""`runnel run` in a process of its own, which can be killed with all that belongs to it, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from broker_process import RUNNEL

SHOW_CURSOR = "\x1b[?25h\n"  # a screen that was killed has hidden it


class AppProcess:
    """`data` is its directory; what it says stands in `log`, or on the terminal, with its live screen, if it has one.
    Leaving the `with` block kills it.
    """

    def __init__(self, app: Path, bootstrap: str, folder: Path, *, has_screen: bool = False) -> None:
        self._has_screen = has_screen
        self.data = folder / "app"
        self.log = folder / "app.log"
        self._command = [RUNNEL, "run", str(app), "--bootstrap", bootstrap, "--data", str(self.data)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> AppProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def shows_screen(self) -> bool:
        return self._has_screen and self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("a") as log:
            says = None if self._has_screen else log
            self._process = subprocess.Popen(self._command, stdout=log, stderr=says, start_new_session=True)

    def kill(self) -> None:
        """SIGKILL, to Python and to Java: no time to write or close anything."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # it may have ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            if self._has_screen:
                sys.stderr.write(SHOW_CURSOR)

    def stop(self) -> int:
        """SIGTERM: the batch under way is finished. The answer is the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait()
