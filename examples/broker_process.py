"""A broker in a process of its own, which can be killed and started again on the same data and the same port."""

from __future__ import annotations

import subprocess
import sysconfig
import time
from pathlib import Path

RUNNEL = str(Path(sysconfig.get_path("scripts"), "runnel"))
READY = "listening on "


class BrokerProcess:
    """`data` is its directory; what it says stands in `log`. Leaving the `with` block kills it."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.bootstrap = "127.0.0.1:0"
        self._settings = settings or {}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> float:
        """Return when it is ready; the answer is how many seconds that took."""
        began = time.perf_counter()
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is meant for us, and we kill it then
            )
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            raise RuntimeError(f"the broker did not start:\n{self.log.read_text()}")
        self.bootstrap = line.removeprefix(READY).strip()  # with the port that it took, which the next one takes again
        return time.perf_counter() - began

    def kill(self) -> None:
        """SIGKILL: no time to write or close anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._process = None

    def _command(self) -> list[str]:
        command = [RUNNEL, "broker", "start", "--data", str(self.data), "--listen", self.bootstrap]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        return command
