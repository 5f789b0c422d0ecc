"""`runnel capture snapshot`, `pause`, `resume` and `stop`: what is asked of a capture that runs, written as signals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runnel.capture.errors import NothingCaptured
from runnel.capture.names import check_name
from runnel.capture.selection import table_expression
from runnel.capture.signals import CONFIGS, signals_topic
from runnel.capture.state import read_state
from runnel.cli.capture_options import Name, Tables, WhereSql
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
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


def _signal(name: str, bootstrap: str, kind: str, data: Mapping[str, Any] | None = None) -> None:
    check_name("name", name)
    with Cluster(bootstrap) as cluster:
        cluster.reach()
        if read_state(cluster, name).position is None:
            raise NothingCaptured(name)
    topic = signals_topic(name)
    with Admin(bootstrap) as admin, suppress(TopicExists):
        admin.create(topic, partitions=1, configs=CONFIGS)
    value = json.dumps({"type": kind, "data": dict(data or {})})
    with Producer(bootstrap) as producer:
        producer.produce(topic, value.encode(), key=name.encode())
    print(f'asked capture "{name}": {kind}')


VERBS = (snapshot, pause, resume, stop)
