"""`runnel view`: the rows of a view, and what changes in it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runnel.cli.conditions import EXAMPLES, NoCondition, parts, value_of
from runnel.cli.durations import as_duration, checked_duration, parse_duration
from runnel.cli.ending import stopped_by_signals
from runnel.cli.nouns import noun
from runnel.cli.options import AsJson, pairs
from runnel.clock import SYSTEM_CLOCK
from runnel.errors import Permanent

if TYPE_CHECKING:
    import pyarrow as pa

    from runnel.views.changes import Change
    from runnel.views.serving import Selection, View, Views
    from runnel.views.store import Condition
    from runnel.views.watching import Step

DEFAULT_VIEWS = ".runnel"
MOST_IN_A_TABLE = 100

Shown = Callable[[dict[str, Any]], str]

view = noun()


class NoSuchRow(Permanent):
    def __init__(self, name: str, key: str) -> None:
        super().__init__(
            f"view {name!r} has no row for {key}", hint="see to the key, or whether the app has come to it"
        )
        self.name = name
        self.key = key


@view.command("view")
def read(  # noqa: PLR0913  # what people may type
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name of the view; without it, all are listed.")
    ] = None,
    views: Annotated[
        str,
        typer.Option(
            "--views",
            metavar="DIR_OR_URL",
            envvar="RUNNEL_VIEWS",
            help="Where the views are: the app's data directory, sqlite:PATH or postgresql://...",
        ),
    ] = DEFAULT_VIEWS,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="NAME=VALUE", help="The row of this key; once for each of its columns."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="CONDITION", help=f"Rows for which it holds: {EXAMPLES}; can be repeated."),
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option("--order", metavar="COLUMN", help="Order by it; -COLUMN counts down; can be repeated."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="So many rows, or changes, at most.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="First the rows, then every change, until Ctrl-C.")] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="POSITION", help="Watch from here: a position of --watch --json.")
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            callback=checked_duration,
            help="Stop watching when nothing has changed for so long.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the rows of a view, or what changes in it; without a name, list the views."""
    from runnel.views.serving import Views  # noqa: PLC0415  # `--help` need not wait for pyarrow

    about: list[tuple[str, object]] = [("--key", key), ("--where", where), ("--order", order), ("--limit", limit)]
    _check_options(name, watch, about, start, timeout)
    if watch and order:
        raise typer.BadParameter("changes come in their own order.", param_hint="'--order'")
    with Views(views) as there:
        if name is None:
            _list(there, views, as_json)
            return
        found = there[name]
        if key and not watch and not where:
            _print_row(found, key, as_json)
            return
        chosen = found.where(*_conditions(found, key or (), where or ()))
        if watch:
            _watch(chosen, start, limit, timeout, as_json)
        else:
            _print_rows(chosen.order_by(*order or ()), limit, as_json)


def _check_options(
    name: str | None, watch: bool, about: list[tuple[str, object]], start: str | None, timeout: str | None
) -> None:
    if name is None:
        for option, given in [*about, ("--watch", watch)]:
            if given:
                raise typer.BadParameter("say of which view: runnel view NAME.", param_hint=f"'{option}'")
    for option, value in (("--from", start), ("--timeout", timeout)):
        if value is not None and not watch:
            raise typer.BadParameter("it is for --watch.", param_hint=f"'{option}'")


# --- all views


def _list(views: Views, address: str, as_json: bool) -> None:
    from runnel.cli.tables import print_json, print_table  # noqa: PLC0415  # rich, for people
    from runnel.views.addresses import shown  # noqa: PLC0415

    told = [_summary(views[name]) for name in views]
    if as_json:
        print_json(told)
    elif not told:
        print(f"no views in {shown(address)}: --views names another place")
    else:
        rows = [(each["view"], each["rows"], ", ".join(each["key"]), _ago(each["changed"])) for each in told]
        print_table(["view", "rows", "key", "last change"], rows)


def _summary(found: View) -> dict[str, Any]:
    return {"view": found.name, "rows": len(found), "key": list(found.key), "changed": found.changed()}


def _ago(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return f"{as_duration(max(1_000, SYSTEM_CLOCK.now() - milliseconds))} ago"


# --- the rows of one


def _print_row(found: View, key: list[str], as_json: bool) -> None:
    given = {name: _value(found, name, text) for name, text in pairs(key, "--key")}
    row = found.get(**given)
    if row is None:
        raise NoSuchRow(found.name, ", ".join(key))
    shown = _encoder(found.schema)(row)
    if as_json:
        print(shown)
        return
    _print_table(found.schema.names, [shown])


def _print_rows(chosen: Selection, limit: int | None, as_json: bool) -> None:
    encode = _encoder(chosen.schema)
    if as_json:
        for row in chosen if limit is None else chosen.limit(limit):
            print(encode(row))
        return
    most = MOST_IN_A_TABLE if limit is None else limit
    rows = [encode(row) for row in chosen.limit(most)]
    _print_table(chosen.schema.names, rows)
    if limit is None and len(rows) == most and (count := len(chosen)) > most:
        print(f"{most} of {count:,} rows; --limit shows more, --json all")


def _print_table(columns: list[str], rows: list[str]) -> None:
    from runnel.cli.tables import print_table  # noqa: PLC0415

    told = [json.loads(row) for row in rows]
    print_table(columns, [[_cell(row[column]) for column in columns] for row in told])


def _cell(value: Any) -> Any:
    nested = isinstance(value, dict | list | bool)
    return json.dumps(value, ensure_ascii=False) if nested else value


def _encoder(schema: pa.Schema) -> Shown:
    """A row as JSON, its values as nested ones are kept: times as ISO 8601, decimals as text."""
    import pyarrow as pa  # noqa: PLC0415

    from runnel.views.nested import to_text  # noqa: PLC0415

    return to_text(pa.struct(list(schema)))


# --- what changes


def _watch(chosen: Selection, start: str | None, limit: int | None, timeout: str | None, as_json: bool) -> None:
    encode = _encoder(chosen.schema)
    seconds = None if timeout is None else parse_duration(timeout) / 1_000
    left = limit
    with chosen.watch(start, timeout=seconds) as steps, stopped_by_signals(steps) as caught:
        for step in steps:
            told = step.changes if left is None else step.changes[:left]
            for change in told:
                print(_json_line(step, change, encode) if as_json else _line(change, encode))
            print(end="", flush=True)
            left = None if left is None else left - len(told)
            if left == 0:
                break
    if signal.SIGINT in caught:
        raise KeyboardInterrupt


def _line(change: Change, encode: Shown) -> str:
    images = [encode(image) for image in (change.before, change.after) if image is not None]
    return f"{change.kind}  {' -> '.join(images)}"


def _json_line(step: Step, change: Change, encode: Shown) -> str:
    told = {
        "change": change.kind,
        "before": None if change.before is None else json.loads(encode(change.before)),
        "after": None if change.after is None else json.loads(encode(change.after)),
        "snapshot": step.is_snapshot,
        "position": step.after(change),
    }
    return json.dumps(told, ensure_ascii=False)


# --- what is asked for


def _conditions(found: View, key: list[str] | tuple[()], where: list[str] | tuple[()]) -> list[Condition]:
    from runnel.views.store import Condition  # noqa: PLC0415

    conditions = [Condition(name, "=", _value(found, name, text)) for name, text in pairs(key, "--key")]
    for text in where:
        try:
            column, operator, value = parts(text)
        except NoCondition:
            expected = f"'{text}' is no condition: expected one such as {EXAMPLES}."
            raise typer.BadParameter(expected, param_hint="'--where'") from None
        wanted: Any = None
        if value is not None and operator in ("in", "not in"):
            wanted = [_value(found, column, each.strip()) for each in value.split(",")]
        elif value is not None:
            wanted = _value(found, column, value)
        conditions.append(Condition(column, operator, wanted))
    return conditions


def _value(found: View, column: str, text: str) -> Any:
    from runnel.views.errors import InvalidFilter, UnknownColumn  # noqa: PLC0415

    schema = found.schema
    if column not in schema.names:
        raise UnknownColumn(found.name, column, schema.names)
    kind = schema.field(column).type
    try:
        return value_of(text, kind)
    except (ValueError, OverflowError):
        hint = f"{column} is of type {kind}"
        raise InvalidFilter(found.name, f"{text!r} is no value of {column}", hint=hint) from None
