"""Who does the work of a compaction, as the log sees it: one at a time, in a process of its own, and it can be stopped.

The process is started anew for each job and not forked: the log's process has threads. On a disk that only this
process knows, such as a test's, the work is done in the calling thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator

from runnel.errors import Closed, CompactionFailed
from runnel.files import DiskFiles, Files
from runnel.log.compaction.cleaning import clean
from runnel.log.compaction.job import Answer, Job, answer_from_json

COMMAND = (sys.executable, "-m", "runnel.log.compaction.worker")


class Workers:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self._name = ""
        self.one_at_a_time = threading.Lock()

    def run(self, job: Job) -> Generator[Answer, None, None]:
        """Do the job; call it inside of `one_at_a_time`, and close it.

        CompactionFailed if the worker ends without its last word, Closed if it was stopped.
        """
        if not isinstance(self._files, DiskFiles):
            yield from clean(job, self._files)
            return
        self._name = job.folder.rpartition("/")[2]
        process = self._start()
        try:
            yield from self._answers_of(process, job)
        finally:
            self._end(process)

    def stop(self) -> None:
        """End the worker that is under way, and start none any more. Nothing is lost: its files are thrown away."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def _start(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise Closed("compaction")
            self._process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # the same code as here
            )
            return self._process

    def _answers_of(self, process: subprocess.Popen[str], job: Job) -> Iterator[Answer]:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(job.to_json() + "\n")
            process.stdin.flush()
            for line in process.stdout:
                yield answer_from_json(line)
        except (BrokenPipeError, ValueError) as error:
            raise self._failure(process, str(error)) from error
        if process.wait() != 0:
            raise self._failure(process, f"it ended with {process.returncode}")

    def _failure(self, process: subprocess.Popen[str], reason: str) -> Exception:
        if self._stopped:
            return Closed("compaction")
        process.kill()
        assert process.stderr is not None
        lines = process.stderr.read().strip().splitlines()
        return CompactionFailed(self._name, f"{reason}: {lines[-1]}" if lines else reason)

    def _end(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._process = None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
