"""`runnel capture snapshot`, `pause`, `resume`, `stop` and `tables`: what is asked of a capture that runs.

They are written to its topic, and heeded by the capture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runnel.capture.choice import Asked, as_data
from runnel.capture.errors import NothingCaptured
from runnel.capture.names import check_name
from runnel.capture.outgoing import topic_of_table
from runnel.capture.selection import compiled, table_expression
from runnel.capture.signals import CONFIGS, signals_topic
from runnel.capture.state import State, read_state
from runnel.capture.tables import TableId
from runnel.cli.capture_options import Add, Name, Remove, Tables, WhereSql
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from runnel.cli.tables import print_json, print_table
from runnel.client import Admin, Producer, TopicExists
from runnel.client.cluster import Cluster

ALL = ".*"


def snapshot(
    name: Name,
    tables: Tables = [],  # noqa: B006  # typer's way to say: all
    where: WhereSql = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Read tables again, in chunks beside the changes."""
    named = [table_expression(each) for each in tables] or [ALL]
    conditions = [] if where is None else [{"data-collection": each, "filter": where} for each in named]
    data = {"data-collections": named, "type": "incremental", "additional-conditions": conditions}
    _signal(name, bootstrap, "execute-snapshot", data)


def pause(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Read no tables for now; changes are read all the same."""
    _signal(name, bootstrap, "pause-snapshot")


def resume(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Go on reading tables where it was paused."""
    _signal(name, bootstrap, "resume-snapshot")


def stop(name: Name, tables: Tables = [], bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:  # noqa: B006
    """Read no more of these tables, or of all; changes are read all the same."""
    named = [table_expression(each) for each in tables]
    _signal(name, bootstrap, "stop-snapshot", {"data-collections": named, "type": "incremental"})


def tables(
    name: Name,
    add: Add = [],  # noqa: B006
    remove: Remove = [],  # noqa: B006
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the tables of a capture; or add some to it, and remove some from it, while it runs."""
    asked = {"add-tables": _expressions(add), "remove-tables": _expressions(remove)}
    for kind, named in asked.items():
        if named:
            _signal(name, bootstrap, kind, {"data-collections": named}, is_told=not as_json)
    if not add and not remove:
        _show(name, _state(name, bootstrap), as_json=as_json)
    elif as_json:
        words = [Asked(each, kind == "add-tables") for kind, named in asked.items() for each in named]
        print_json({"name": name, "asked": as_data(words)})


def _expressions(given: list[str]) -> list[str]:
    """InvalidChoice, if one is none: whoever asks is to know, and not the capture's log alone."""
    named = [table_expression(each) for each in given]
    for each in named:
        compiled("table", each)
    return named


def _show(name: str, state: State, *, as_json: bool) -> None:
    columns = ["table", "topic", "state"]
    prefix = state.prefix or name
    found = [
        dict(zip(columns, (each, topic_of_table(prefix, TableId(*each.split(".", 1))), told.state), strict=True))
        for each, told in sorted(state.tables.items())
    ]
    if as_json:
        print_json(found)
    else:
        print_table(columns, [[each[column] for column in columns] for each in found])


def _state(name: str, bootstrap: str) -> State:
    """NothingCaptured, if it has written nothing."""
    check_name("name", name)
    with Cluster(bootstrap) as cluster:
        cluster.reach()
        state = read_state(cluster, name)
    if state.position is None:
        raise NothingCaptured(name)
    return state


def _signal(
    name: str, bootstrap: str, kind: str, data: Mapping[str, Any] | None = None, *, is_told: bool = True
) -> None:
    _state(name, bootstrap)
    topic = signals_topic(name)
    with Admin(bootstrap) as admin, suppress(TopicExists):
        admin.create(topic, partitions=1, configs=CONFIGS)
    value = json.dumps({"type": kind, "data": dict(data or {})})
    with Producer(bootstrap) as producer:
        producer.produce(topic, value.encode(), key=name.encode())
    if is_told:
        print(f'asked capture "{name}": {kind}')


VERBS = (snapshot, pause, resume, stop, tables)
