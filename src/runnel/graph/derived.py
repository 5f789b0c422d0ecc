"""A stream that a function derives from others. What it returns is written to the topic of its name, exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

from runnel.graph.body import Function
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.event_time import EventTime
from runnel.graph.inputs import Input, Readable
from runnel.graph.names import key_columns
from runnel.graph.on_error import STOP, check_on_error


@dataclass(frozen=True)
class Writing:
    """How records leave: `headers` are columns that become headers, `columns` those of the JSON object (all that are
    no headers when None), `timestamp` the column of the record's time, `partitions` how many a topic gets that is made
    by Runnel. A row on which the body raises stops the query; with `on_error="reject"` it goes to `<topic>.rejected`.
    """

    headers: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    timestamp: str | None = None
    partitions: int = 4
    on_error: str = STOP

    def check(self, where: str, inputs: tuple[Input, ...] = ()) -> None:
        for name in ("headers", "columns"):
            if getattr(self, name) not in ((), None):
                key_columns(list(getattr(self, name)), where, f"write.{name}")
        if not isinstance(self.partitions, int) or self.partitions < 1:
            raise InvalidDeclaration(where, "write.partitions", f"is {self.partitions!r}", hint="give a number above 0")
        check_on_error(where, "write.on_error", self.on_error, inputs)


@dataclass(eq=False)
class Derived(Readable):
    """Late rows go to the topic `<name>.late`. `time` is for those that read it."""

    name: str
    inputs: tuple[Input, ...]
    body: Function
    key: tuple[str, ...] | None
    time: EventTime | None
    writing: Writing

    def __post_init__(self) -> None:
        update_wrapper(self, self.body, updated=())

    def __call__(self, *frames: Any) -> Any:
        return self.body(*frames)

    @property
    def topic(self) -> str:
        return self.name

    @property
    def on_error(self) -> str:
        return self.writing.on_error

    def __str__(self) -> str:
        return f'stream "{self.name}"'
