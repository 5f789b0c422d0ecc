"""What a query was when its checkpoint was begun, and whether what is declared now still fits it.

A checkpoint holds what the body remembers, in the form in which the body remembered it, and the watermark of the time
that was declared. Another window, key, aggregate or time would read it as something that it is not. So what the query
was stands beside the checkpoint (`declared.json`), on the disk before the first batch is planned, and is compared when
a query starts, before anything is made, claimed or fenced.

What fits: another body, as long as what it remembers is the same operators over the same keys and values, which the
log tells; columns that are new, or that nothing remembered is made of; another lateness.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql import DataFrame
from pyspark.version import __version__ as spark_version

from runnel.durable import durable
from runnel.files import DISK, make_directories, replace_file
from runnel.graph.derived import Derived
from runnel.graph.view import View
from runnel.pipeline.errors import NoLongerFits
from runnel.pipeline.remembered import remembered
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.view_inputs.spec import ViewSpec

logger = logging.getLogger(__name__)

FILE = "declared.json"
Told: TypeAlias = dict[str, Any]


class Maker(NamedTuple):
    """Whose query it is, and with which Spark it was run last; empty where the file does not tell."""

    app: str
    spark: str


def maker_of(directory: Path) -> Maker:
    """Of the query that has this directory."""
    told = _read(directory / FILE) or {}
    return Maker(told.get("app", ""), told.get("spark", ""))


def declared(
    app: str, output: Derived | View, inputs: tuple[Spec | ViewSpec, ...], frame: DataFrame, to_run: DataFrame
) -> Told:
    """What the query is now. `frame` is what the body returns, `to_run` what Spark makes of it."""
    return {
        "app": app,
        "spark": spark_version,
        "inputs": [_input(each) for each in inputs],
        "key": list(output.key or ()),
        "columns": {field.name: field.dataType.simpleString() for field in frame.schema},
        "remembers": remembered(to_run),
    }


def _input(spec: Spec | ViewSpec) -> Told:
    if isinstance(spec, ViewSpec):
        columns = {field.name: field.dataType.simpleString() for field in spec.columns}
        return {"kind": "view", "name": spec.view, "changes": spec.changes, "columns": columns}
    columns = {field.name: str(field.type) for field in spec.columns.fields}
    found: Told = {"kind": "stream" if spec.key is None else "table", "name": spec.topic, "columns": columns}
    if spec.key is not None:
        return {**found, "changes": spec.changes, "key": list(spec.key)}
    return {**found, "topics": spec.reading.topics, "time": spec.time.column if spec.time else None}


class Fitting:
    """Of one query, whose directory this is."""

    def __init__(self, output: Derived | View, directory: Path) -> None:
        self._output = output
        self._path = directory / FILE

    def check(self, now: Told, *, is_begun: bool) -> None:
        """NoLongerFits, if the checkpoint `is_begun` and what it holds is of something else."""
        then = _read(self._path) if is_begun else None
        if then is None or then == now:
            return
        for what in _reasons(then, now, is_view=isinstance(self._output, View)):
            raise NoLongerFits(self._output.name, what, is_view=isinstance(self._output, View))
        for what in _news(then, now):
            logger.info("%s: %s; it goes on with what it remembers", self._output.name, what)

    def check_inputs(self, now: tuple[Spec | ViewSpec, ...], *, is_begun: bool) -> None:
        """The same of the inputs alone, where no more is known."""
        then = _read(self._path) if is_begun else None
        for what in _of_inputs(then["inputs"], [_input(each) for each in now]) if then is not None else ():
            raise NoLongerFits(self._output.name, what, is_view=isinstance(self._output, View))

    def keep(self, now: Told) -> None:
        """To be called before Spark plans a batch."""
        if _read(self._path) == now:
            return
        make_directories(str(self._path.parent))
        with durable("query.declared"):
            replace_file(DISK, str(self._path), json.dumps(now, indent=1).encode())


def _read(path: Path) -> Told | None:
    """None where there is none: a checkpoint that is older than this file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    assert isinstance(found, dict)
    return found


# --- what does not fit


def _reasons(then: Told, now: Told, *, is_view: bool) -> Iterator[str]:
    yield from _of_inputs(then["inputs"], now["inputs"])
    if then["key"] != now["key"]:
        yield f"its key was {_listed(then['key'])} and is now {_listed(now['key'])}"
    if is_view:
        yield from _of_columns("its column", then["columns"], now["columns"])
    if then["remembers"] != now["remembers"] and then["spark"] == now["spark"]:
        yield _what_it_remembers(then["remembers"], now["remembers"]) + _because(then["inputs"], now["inputs"])


def _of_inputs(then: list[Told], now: list[Told]) -> Iterator[str]:
    before, after = [_named(each) for each in then], [_named(each) for each in now]
    if before != after:
        yield f"its inputs were {_listed(before)} and are now {_listed(after)}"
        return
    for old, new in zip(then, now, strict=True):
        if old.get("time") != new.get("time"):
            yield f"the time of {_named(old)} was {old['time'] or 'none'} and is now {new['time'] or 'none'}"
        if old.get("key") != new.get("key"):
            yield f"the key of {_named(old)} was {_listed(old['key'])} and is now {_listed(new['key'])}"
        if old["kind"] == "table":  # its rows are kept whole beside the checkpoint
            yield from _of_columns(f"the column of {_named(old)}", old["columns"], new["columns"])
            for name in new["columns"].keys() - old["columns"].keys():
                yield f"{_named(old)} has a new column, {name}, which the rows that are kept do not have"


def _of_columns(what: str, then: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for name, kind in then.items():
        if name not in now:
            yield f"{what} {name} is gone"
        elif now[name] != kind:
            yield f"{what} {name} was {kind} and is now {now[name]}"


def _what_it_remembers(then: list[Any], now: list[Any]) -> str:
    before, after = [str(each["operator"]) for each in then], [str(each["operator"]) for each in now]
    if before != after:
        return f"it remembered {_counted(before)} and would now remember {_counted(after)}"
    changed = next(each for each, other in zip(then, now, strict=True) if each != other)
    return f"what {changed['operator']} remembers has changed: its keys, its values, their types or their order"


def _because(then: list[Told], now: list[Told]) -> str:
    """Columns of the inputs that were declared otherwise, which may be the reason."""
    found = [
        what
        for old, new in zip(then, now, strict=True)
        for what in _of_columns(f"the column of {_named(old)}", old["columns"], new["columns"])
    ]
    return f" ({'; '.join(found)})" if found else ""


# --- what fits, and should be told


def _news(then: Told, now: Told) -> Iterator[str]:
    if then["spark"] != now["spark"]:
        yield f"its checkpoint is of Spark {then['spark']}, and this is {now['spark']}"
    for old, new in zip(then["inputs"], now["inputs"], strict=True):
        yield from _of_columns(f"the column of {_named(old)}", old["columns"], new["columns"])
        for name in new["columns"].keys() - old["columns"].keys():
            yield f"{_named(old)} has a new column, {name}"
    yield from _of_columns("its column", then["columns"], now["columns"])
    for name in now["columns"].keys() - then["columns"].keys():
        yield f"it has a new column, {name}"


def _named(told: Told) -> str:
    return f"{told['kind']} {told['name']}{' (its changes)' if told.get('changes') else ''}"


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _counted(operators: list[str]) -> str:
    return ", ".join(operators) or "nothing"
