"""Syncs of any files, each in a thread of its own: what `Files.syncs` gives, for the disks that tests make."""

import os
import queue
import select
import threading
from collections.abc import Sequence

from runnel.files import File

Answer = tuple[int, OSError | None]


class ThreadedSyncs:
    most = 64

    def __init__(self) -> None:
        self.descriptor, self._bell = os.pipe()
        os.set_blocking(self.descriptor, False)
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def takes(self, file: File) -> bool:
        return True

    def begin(self, files: Sequence[File]) -> int:
        for number, file in enumerate(files):
            threading.Thread(target=self._sync, args=(number, file), daemon=True).start()
        return len(files)

    def _sync(self, number: int, file: File) -> None:
        error = None
        try:
            file.sync()
        except OSError as failure:
            error = failure
        self._answers.put((number, error))
        os.write(self._bell, b"!")

    def answers(self) -> list[Answer]:
        try:
            count = len(os.read(self.descriptor, self.most))
        except BlockingIOError:
            return []
        return [self._answers.get() for _ in range(count)]

    def wait(self) -> list[Answer]:
        os.set_blocking(self.descriptor, True)
        try:
            return self.answers()
        finally:
            os.set_blocking(self.descriptor, False)

    def wait_a_while(self, seconds: float) -> list[Answer]:
        select.select([self.descriptor], [], [], seconds)
        return self.answers()

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._bell)
