"""The errors that a test schedules for the operations of a `FaultyFiles`."""

from __future__ import annotations

import os
from dataclasses import dataclass

OPERATIONS = frozenset(
    {
        *("open", "read", "list"),
        *("write", "truncate", "sync"),
        *("create", "rename", "remove", "make_directory", "remove_directory", "sync_directory"),
    }
)


@dataclass(slots=True)
class Fault:
    """Lets `after` operations pass, then fails `times` of them."""

    operation: str
    path_part: str
    error: int
    times: int
    after: int

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            known = ", ".join(sorted(OPERATIONS))
            raise ValueError(f"no operation is called {self.operation!r}; there are {known}")

    def hits(self, operation: str, path: str) -> bool:
        if operation != self.operation or self.path_part not in path:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return self.times >= 0


class Faults:
    def __init__(self) -> None:
        self._scheduled: list[Fault] = []

    def schedule(self, fault: Fault) -> None:
        self._scheduled.append(fault)

    def clear(self) -> None:
        self._scheduled.clear()

    def strike(self, operation: str, path: str) -> None:
        for fault in self._scheduled:
            if fault.hits(operation, path):
                raise OSError(fault.error, os.strerror(fault.error), path)
