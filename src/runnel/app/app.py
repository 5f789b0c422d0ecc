"""An app: the streams, tables and views that one program declares.

    app = App("shop")
    clicks = app.stream("clicks", schema="page string, at timestamp", time="at", late="30 seconds")

    @app.view(clicks, key=["window", "page"])
    def clicks_per_minute(clicks):
        return clicks.groupBy(F.window("at", "1 minute"), "page").count()

Declaring starts nothing: no socket, no JVM, no pyspark. A decorated function stays callable on ordinary DataFrames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack, overload

from runnel.app.capture_options import CaptureOptions, options_of
from runnel.app.captured import Captured, check_given, row_filters, selection_of
from runnel.capture.selection import RowFilter
from runnel.graph.alert import Alert, AlertRule, rules
from runnel.graph.body import Function, check_body, check_called, checked_inputs
from runnel.graph.derived import Derived, Writing
from runnel.graph.errors import InvalidDeclaration, NameTaken
from runnel.graph.event_time import EventTime, event_time
from runnel.graph.formats import Columns, columns_of
from runnel.graph.graph import Graph
from runnel.graph.inputs import CHANGE, Input, Readable
from runnel.graph.names import check_table_name, check_together, checked_name, checked_output, key_columns
from runnel.graph.on_error import STOP, check_on_error
from runnel.graph.reading import Reading
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.view import View

IDLE = "1 minute"
AHEAD = "1 hour"
EARLIEST = Reading().start


class Times(NamedTuple):
    """As people give them."""

    time: str | None
    late: str | None
    idle: str | None
    ahead: str

    def checked(self, where: str, columns: Columns | None) -> EventTime | None:
        return event_time(where, columns, time=self.time, late=self.late, idle=self.idle, ahead=self.ahead)


class App:
    def __init__(self, name: str) -> None:
        self.name = checked_name(name, "app")
        self.graph = Graph()
        self.alerts: list[AlertRule] = []
        self.captures: list[Captured] = []

    @overload
    def stream(
        self,
        topic: str,
        /,
        *,
        schema: object,
        time: str | None = None,
        late: str | None = None,
        idle: str | None = IDLE,
        ahead: str = AHEAD,
        read: Reading | None = None,
    ) -> Stream: ...

    @overload
    def stream(
        self,
        *inputs: Readable | Input,
        key: str | list[str] | None = None,
        time: str | None = None,
        late: str | None = None,
        idle: str | None = IDLE,
        ahead: str = AHEAD,
        write: Writing | None = None,
    ) -> Callable[[Function], Derived]: ...

    def stream(
        self,
        *inputs: Any,
        schema: object = None,
        key: str | list[str] | None = None,
        time: str | None = None,
        late: str | None = None,
        idle: str | None = IDLE,
        ahead: str = AHEAD,
        read: Reading | None = None,
        write: Writing | None = None,
    ) -> Stream | Callable[[Function], Derived]:
        """Declare a stream over a topic, or derive one: `@app.stream(clicks)` decorates a function."""
        times = Times(time, late, idle, ahead)
        if inputs and isinstance(inputs[0], str):
            where = f'stream "{inputs[0]}"'
            _refuse(where, "topic", inputs[1:] or None, "is one name; several are described by read.topics")
            _refuse(where, "key", key, "is for a derived stream")
            _refuse(where, "write", write, "is for a derived stream")
            return self._declare_stream(inputs[0], schema, times, _reading(where, read))
        _refuse("a derived stream", "schema", schema, "is for a stream over a topic, whose name comes first")
        _refuse("a derived stream", "read", read, "is for a stream over a topic, whose name comes first")
        return self._derive_stream(inputs, key, times, write)

    def table(self, topic: str, *, key: str | list[str], schema: object, read: Reading | None = None) -> Table:
        """Declare a table over a keyed topic: the latest row of each key; a record without a value deletes its row."""
        where = f'table "{topic}"'
        name = checked_name(topic, where, "topic")
        columns = columns_of(schema, where)
        keys = key_columns(key, where)
        for column in keys:
            if columns.find(column) is None:
                hint = f"the columns are {', '.join(columns.names)}"
                raise InvalidDeclaration(where, "key", f"{column!r} is no column of the schema", hint=hint)
        reading = _reading(where, read)
        _check_table(where, columns, reading)
        table = Table(name, columns, keys, reading)
        self.graph.declare(table)
        return table

    def view(
        self,
        *inputs: Readable | Input,
        key: str | list[str] | None = None,
        name: str | None = None,
        on_error: str = STOP,
    ) -> Callable[[Function], View]:
        """Keep what the function returns in a store, one row for each key. The view has the function's name. A row on
        which the function raises stops the query; with `on_error="reject"` it goes to `<topic>.rejected`.
        """

        check_called(inputs, "view")

        def declare(body: Function) -> View:
            chosen = name or _name_of(body)
            where = f'view "{chosen}"'
            checked = checked_inputs(inputs, where)
            check_body(body, checked, where)
            _check_streams(where, checked)
            if key is None:
                hint = 'name the columns that tell its rows apart, such as key=["window", "page"]'
                raise InvalidDeclaration(where, "key", "is missing", hint=hint)
            check_on_error(where, "on_error", on_error, checked)
            checked_output(chosen, where)
            check_table_name(chosen, where)
            check_together(self.name, chosen, where)
            view = View(chosen, checked, body, key_columns(key, where), on_error)
            self.graph.derive(view)
            return view

        return declare

    def capture(  # noqa: PLR0913  # what may leave a database is chosen in many ways
        self,
        name: str,
        url: str,
        *,
        tables: Sequence[str] = (),
        without_tables: Sequence[str] = (),
        prefix: str | None = None,
        columns: Sequence[str] = (),
        without_columns: Sequence[str] = (),
        mask: Sequence[str] = (),
        hash: Mapping[str, str] | None = None,
        where: Mapping[str, str | RowFilter] | None = None,
        key: Mapping[str, str | Sequence[str]] | None = None,
        **how: Unpack[CaptureOptions],
    ) -> Captured:
        """Capture a database while the app runs: its tables, and then every change of them, into topics
        `<prefix>.<schema>.<table>`. What is returned gives the tables as inputs: `.table(...)` and `.stream(...)`.
        `how` are the options of `runnel capture run`: see `CaptureOptions`.
        """
        told = f'capture "{name}"'
        if any(each.name == name for each in self.captures):
            raise NameTaken(told, name)
        tables_given = {"tables": tables, "without_tables": without_tables}
        lists = {**tables_given, "columns": columns, "without_columns": without_columns, "mask": mask}
        check_given(told, url, lists=lists, mappings={"hash": hash, "where": where, "key": key})
        selection = selection_of(lists, hash or {}, row_filters(told, where or {}), key or {})
        captured = Captured(self, told, options_of(told, name, url, selection, prefix, how))
        for other in self.captures:
            if other.prefix == captured.prefix:
                hint = "give one of the two another prefix"
                what = f'is "{other.prefix}", as that of {other.where}: both would write the same topics'
                raise InvalidDeclaration(captured.where, "prefix", what, hint=hint)
        self.captures.append(captured)
        return captured

    def alert(
        self,
        *alerts: Alert,
        of: str | Derived | View | Iterable[str | Derived | View] | None = None,
        topic: str | None = None,
        command: str | None = None,
    ) -> None:
        """Tell when something is wrong with the outputs `of`, or with any: in the log, and also to a topic, which is
        made if it is missing, and to a command, which gets the alert as JSON on standard input.
        """
        self.alerts += rules(alerts, None if of is None else self._names_of(of), topic, command)

    def _names_of(self, of: str | Derived | View | Iterable[str | Derived | View]) -> tuple[str, ...]:
        given = [of] if isinstance(of, str | Derived | View) else list(of)
        names = [each.name if isinstance(each, Derived | View) else str(each) for each in given]
        known = [output.name for output in self.graph.outputs]
        for name in names:
            if name not in known:
                hint = f"the outputs so far are {', '.join(known) or 'none'}; declare the alert behind them"
                raise InvalidDeclaration("alert", "of", f"names {name!r}, which is no output of the app", hint=hint)
        if not names:
            raise InvalidDeclaration("alert", "of", "names nothing", hint="leave it out to mean every output")
        return tuple(names)

    def _declare_stream(self, topic: str, schema: object, times: Times, reading: Reading) -> Stream:
        where = f'stream "{topic}"'
        name = checked_name(topic, where, "topic")
        if schema is None:
            hint = 'name the columns of a record, such as schema="page string, at timestamp"'
            raise InvalidDeclaration(where, "schema", "is missing", hint=hint)
        columns = columns_of(schema, where)
        stream = Stream(name, columns, times.checked(where, columns), reading)
        self.graph.declare(stream)
        return stream

    def _derive_stream(
        self, inputs: tuple[object, ...], key: object, times: Times, write: object
    ) -> Callable[[Function], Derived]:
        check_called(inputs, "stream")

        def declare(body: Function) -> Derived:
            name = _name_of(body)
            where = f'stream "{name}"'
            checked = checked_inputs(inputs, where)
            check_body(body, checked, where)
            _check_streams(where, checked)
            writing = _writing(where, write, checked)
            keys = None if key is None else key_columns(key, where)
            checked_output(name, where)
            check_together(self.name, name, where)
            stream = Derived(name, checked, body, keys, times.checked(where, None), writing)
            self.graph.derive(stream)
            return stream

        return declare


def _name_of(body: object) -> str:
    return str(getattr(body, "__name__", type(body).__name__))


def _reading(where: str, given: object) -> Reading:
    reading = Reading() if given is None else given
    if not isinstance(reading, Reading):
        hint = 'pass a Reading of runnel, such as read=Reading(start="latest")'
        raise InvalidDeclaration(where, "read", f"is a {type(given).__name__}", hint=hint)
    reading.check(where)
    return reading


def _writing(where: str, given: object, inputs: tuple[Input, ...]) -> Writing:
    writing = Writing() if given is None else given
    if not isinstance(writing, Writing):
        hint = "pass a Writing of runnel, such as write=Writing(partitions=8)"
        raise InvalidDeclaration(where, "write", f"is a {type(given).__name__}", hint=hint)
    writing.check(where, inputs)
    return writing


def _check_table(where: str, columns: Columns, reading: Reading) -> None:
    for name in columns.names:
        if name.lower() == CHANGE:  # Spark does not tell names apart by their case
            hint = f"call it something else: {CHANGE} says what became of a row, where a body asks for changes"
            raise InvalidDeclaration(where, "schema", f"has a column {name}", hint=hint)
    if reading.start != EARLIEST:
        hint = "leave it out: the latest row of a key may be its first one"
        raise InvalidDeclaration(where, "read.start", f"is {reading.start!r}, and a table is read whole", hint=hint)
    if reading.topics is not None:
        hint = "declare a table for each topic"
        raise InvalidDeclaration(where, "read.topics", "is given, and a table is one topic", hint=hint)


def _check_streams(where: str, inputs: tuple[Input, ...]) -> None:
    """Something must come in for a body to be called."""
    if all(isinstance(each.noun, Table | View) and not each.changes for each in inputs):
        hint = f"read a stream as well, or the changes: {inputs[0].noun.name}.changes()"
        raise InvalidDeclaration(where, "inputs", "are none that rows come from", hint=hint)


def _refuse(where: str, argument: str, given: object, what: str) -> None:
    if given is not None:
        raise InvalidDeclaration(where, argument, what, hint="leave it out")
