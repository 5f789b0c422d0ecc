"""When a row happened, how long to wait for stragglers, and what a clock may not say."""

from __future__ import annotations

from dataclasses import dataclass

from runnel.graph.durations import milliseconds
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.formats import Columns
from runnel.graph.types import TIMESTAMP

RECORD_TIME = "_timestamp"  # the record's own, which its producer or the broker set


@dataclass(frozen=True)
class EventTime:
    """In milliseconds. `idle`: a stream that is silent for so long lets the watermark go on; None: it waits for ever.
    `ahead`: a row whose time is further ahead of the receiving clock is rejected.
    """

    column: str
    late: int
    idle: int | None
    ahead: int


def event_time(
    where: str, columns: Columns | None, *, time: object, late: str | None, idle: str | None, ahead: str
) -> EventTime | None:
    """Checked against the columns where they are known."""
    if time is None:
        if late is not None:
            raise InvalidDeclaration(
                where, "late", "is given without time", hint='say which column is the event time, such as time="at"'
            )
        return None
    if not isinstance(time, str) or not time:
        raise InvalidDeclaration(where, "time", f"is {time!r}", hint='name a timestamp column, such as time="at"')
    if columns is not None and time != RECORD_TIME:
        _check_column(where, columns, time)
    if late is None:
        raise InvalidDeclaration(
            where, "late", "is missing", hint='say how long to wait for stragglers, such as late="30 seconds"'
        )
    return EventTime(
        time,
        milliseconds(late, where, "late"),
        None if idle is None else milliseconds(idle, where, "idle"),
        milliseconds(ahead, where, "ahead"),
    )


def _check_column(where: str, columns: Columns, time: str) -> None:
    found = next((each for each in (*columns.fields, *columns.envelope) if each.name == time), None)
    if found is None:
        raise InvalidDeclaration(
            where,
            "time",
            f"{time!r} is no column of the schema",
            hint=f"the columns are {', '.join(columns.names)}; {RECORD_TIME} is the record's own time",
        )
    if found.type != TIMESTAMP:
        raise InvalidDeclaration(
            where, "time", f"{time!r} is of type {found.type}", hint=f"declare it as a timestamp: {time} timestamp"
        )
