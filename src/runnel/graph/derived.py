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
        _check_columns(where, "write.headers", self.headers)
        if self.columns is not None:
            _check_columns(where, "write.columns", self.columns)
        if self.timestamp is not None and (not isinstance(self.timestamp, str) or not self.timestamp):
            hint = 'name a timestamp column that the body returns, such as timestamp="at"'
            raise InvalidDeclaration(where, "write.timestamp", f"is {self.timestamp!r}", hint=hint)
        if not isinstance(self.partitions, int) or isinstance(self.partitions, bool) or self.partitions < 1:
            raise InvalidDeclaration(where, "write.partitions", f"is {self.partitions!r}", hint="give a number above 0")
        check_on_error(where, "write.on_error", self.on_error, inputs)


def _check_columns(where: str, argument: str, given: object) -> None:
    if not isinstance(given, list | tuple):
        hint = f'name columns, such as {argument.removeprefix("write.")}=("page",)'
        raise InvalidDeclaration(where, argument, f"is {given!r}", hint=hint)
    if given:
        key_columns(given, where, argument)


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
