"""A session of Spark's in a process of its own, which does one job after the other and tells how long each took."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.broker_environment import ROOT
from benchmarks.pipeline_environment import Environment

ANSWER = "@ "
STOP_LIMIT = 60.0
OURS = ("-m", "benchmarks.pipeline_ours")
PEER = (str(Path(__file__).with_name("pipeline_spark.py")), "serve")


class JobFailed(Exception):
    """The process ended, so there is nothing to measure."""


class Session:
    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    def do(self, job: str, **given: object) -> dict[str, Any]:
        """What the process says of the job."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": job, **given}) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                told: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
                return told
        raise JobFailed(f"{self.name} ended; {self._log} ends with:\n{self._log.read_text(errors='replace')[-4000:]}")


@contextmanager
def session(environment: Environment, program: Sequence[str], bootstrap: str, directory: Path) -> Iterator[Session]:
    """Started when the block begins, and ready then; ended when it ends."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "session.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [str(environment.python), *program, bootstrap, str(directory)],
            env=environment.variables,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        started = Session(environment.name, process, log)
        started.answer()
        yield started
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
