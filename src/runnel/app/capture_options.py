"""What people give to `app.capture(...)` beside what leaves the database, checked when it is declared.

The names are those of `runnel capture run`, whose options they are; durations are as elsewhere in an app.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict

from runnel.capture.errors import InvalidChoice
from runnel.capture.forms import Binary
from runnel.capture.opening import OPTIONS, kind_of
from runnel.capture.options import WAYS, Options
from runnel.capture.outbox import ROUTED, Outbox
from runnel.capture.selection import Selection, table_expression
from runnel.graph.durations import milliseconds
from runnel.graph.errors import InvalidDeclaration


class CaptureOptions(TypedDict, total=False):
    partitions: int | None
    schemas: bool
    schema_changes: bool
    outbox: str | Outbox | None
    outbox_topic: str | None
    transactions: bool
    heartbeat: str | None
    binary: str | None
    snapshot: str | None
    chunk: int | None
    snapshot_rate: float | None
    decimals: str | None
    times: str | None
    slot: str | None
    publication: str | None
    in_progress: str | os.PathLike[str] | None
    retained_warning: int | None


SWITCHES: Final = ("schemas", "schema_changes", "transactions")
COUNTS: Final = {
    "partitions": "partitions=3",
    "chunk": "chunk=1024",
    "retained_warning": "retained_warning=5_000_000_000, a number of bytes",
}
OWN: Final[tuple[str, ...]] = ("decimals", "times", "slot", "publication", "in_progress")


def options_of(
    where: str, name: str, url: str, selection: Selection, prefix: str | None, given: Mapping[str, Any]
) -> Options:
    """`where` is the capture, for the error. None is as not given."""
    for argument in given:
        if argument not in CaptureOptions.__annotations__:
            raise TypeError(f"App.capture() got an unexpected keyword argument {argument!r}")
    found = {argument: value for argument, value in given.items() if value is not None}
    for argument, value in found.items():
        CHECKS[argument](where, argument, value)
    outbox = _outbox(where, found)
    own = {option: os.fspath(found[option]) for option in OWN if option in found}
    _check_own(where, url, own)
    plain = {each: found[each] for each in (*SWITCHES, *COUNTS, "snapshot", "snapshot_rate") if each in found}
    return Options(
        name,
        url,
        selection,
        prefix=prefix or "",
        outbox=outbox,
        heartbeat=milliseconds(found["heartbeat"], where, "heartbeat") / 1000 if "heartbeat" in found else 0.0,
        binary=Binary(found.get("binary", Binary.BYTES)),
        own=own,
        **plain,
    )


def _outbox(where: str, found: Mapping[str, Any]) -> Outbox | None:
    outbox, topic = found.get("outbox"), found.get("outbox_topic")
    if topic is not None and not isinstance(outbox, str):
        hint = 'name the table, too: outbox="outbox"' if outbox is None else "give it as Outbox(..., topic=...)"
        raise InvalidDeclaration(where, "outbox_topic", "is given without the name of an outbox", hint=hint)
    if not isinstance(outbox, str):
        return outbox
    try:
        return Outbox(table_expression(outbox), topic=topic or Outbox.topic)
    except InvalidChoice:
        what = f"{topic!r} says nothing of the event: {ROUTED} is not part of it"
        hint = f"write one such as {Outbox.topic!r}"
        raise InvalidDeclaration(where, "outbox_topic", what, hint=hint) from None


def _check_own(where: str, url: str, own: Mapping[str, str]) -> None:
    kind = kind_of(url)
    known = OPTIONS.get(kind, ())
    for option in own:
        if option not in known:
            hint = f"leave it out; it has {', '.join(known)}" if known else "leave it out"
            raise InvalidDeclaration(where, option, f"is nothing that a capture of {kind} has", hint=hint)


# --- one by one


def _switch(where: str, argument: str, value: object) -> None:
    if not isinstance(value, bool):
        hint = f"write {argument}=True, or leave it out"
        raise InvalidDeclaration(where, argument, f"is {value!r}, and neither True nor False", hint=hint)


def _count(where: str, argument: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        hint = f"write one such as {COUNTS[argument]}"
        raise InvalidDeclaration(where, argument, f"is {value!r}, and no number above 0", hint=hint)


def _rate(where: str, argument: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        hint = f"write the rows a second, such as {argument}=20_000"
        raise InvalidDeclaration(where, argument, f"is {value!r}, and no number above 0", hint=hint)


def _way(where: str, argument: str, value: object) -> None:
    if value not in WAYS[argument]:
        hint = f"write one of {', '.join(WAYS[argument])}"
        raise InvalidDeclaration(where, argument, f"is {value!r}, which is none of its ways", hint=hint)


def _duration(where: str, argument: str, value: Any) -> None:
    if not milliseconds(value, where, argument):
        raise InvalidDeclaration(where, argument, "is no time at all", hint='write one such as "10 seconds"')


def _text(where: str, argument: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        hint = f"write {argument}=TEXT, as `runnel capture run` takes it"
        raise InvalidDeclaration(where, argument, f"is {value!r}, and no text", hint=hint)


def _table(where: str, argument: str, value: object) -> None:
    if not isinstance(value, Outbox) and not (isinstance(value, str) and value):
        hint = 'write outbox="outbox", or Outbox(...) of runnel.capture.outbox'
        raise InvalidDeclaration(where, argument, f"is {value!r}, and neither a table nor an Outbox", hint=hint)


def _directory(where: str, argument: str, value: object) -> None:
    if not isinstance(value, str | os.PathLike) or not os.path.isdir(value):
        hint = "make it first, and let the app's user write there"
        raise InvalidDeclaration(where, argument, f"is {value!r}, and no directory that is there", hint=hint)


CHECKS: Final[Mapping[str, Callable[[str, str, Any], None]]] = {
    **dict.fromkeys(SWITCHES, _switch),
    **dict.fromkeys(COUNTS, _count),
    **dict.fromkeys(WAYS, _way),
    **dict.fromkeys(("slot", "publication", "outbox_topic"), _text),
    "snapshot_rate": _rate,
    "heartbeat": _duration,
    "outbox": _table,
    "in_progress": _directory,
}
