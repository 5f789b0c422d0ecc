"""A bounded number of open files, so that thousands of partitions fit into one process.

A file that is dropped here stays open while somebody still reads it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from runnel.files import File, Files


class OpenFiles:
    def __init__(self, files: Files, capacity: int) -> None:
        self.files = files
        self._capacity = capacity
        self._open: OrderedDict[str, File] = OrderedDict()
        self._forgotten = 0
        self._lock = threading.Lock()

    def get(self, path: str, *, create: bool = False) -> File:
        while True:
            with self._lock:
                file = self._open.get(path)
                if file is not None:
                    self._open.move_to_end(path)
                    return file
                forgotten = self._forgotten
            file = self.files.open(path, create=create)
            with self._lock:
                if forgotten == self._forgotten:  # else the path may mean another file by now
                    file = self._open.setdefault(path, file)
                    if len(self._open) > self._capacity:
                        self._open.popitem(last=False)
                    return file

    def known(self, path: str) -> File | None:
        """The file, if it is open already."""
        with self._lock:
            return self._open.get(path)

    def forget(self, path: str) -> None:
        """Call it after the path came to mean another file, or none."""
        with self._lock:
            self._forgotten += 1
            self._open.pop(path, None)

    def forget_folder(self, path: str) -> None:
        with self._lock:
            self._forgotten += 1
            for known in [known for known in self._open if known.startswith(path + "/")]:
                del self._open[known]
