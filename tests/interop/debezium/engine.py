"""Debezium's embedded engine, the yardstick of captures: what it makes of the same database.

    with Engine(folder, postgres_settings(server.port, database="shop", prefix="shop", slot="peer")) as engine:
        engine.wait(lambda: any(record.topic == "shop.public.orders" for record in engine.records()))

Maven fetches its jars once, into the cache of the tests. Its records are read from the file that it writes, or go to
the topics of a broker, with `to="kafka:HOST:PORT"`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.java_programs import MEMORY, Program
from tests.interop.kafka_distribution import JVM_OPTIONS, cache_directory, compiled_with, fetch_jars, find_java

VERSION = "3.3.0.Final"
LIMIT = 120.0
FOLDER = Path(__file__).parent
SOURCE = FOLDER / "Engine.java"
POM = FOLDER / "pom.xml"
DEFAULTS = {
    "name": "engine",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "offset.flush.interval.ms": "1000",
    "poll.interval.ms": "10",
    "database.hostname": "127.0.0.1",
}
POSTGRES = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "disabled",
    "database.password": "none",
}
MARIADB = {
    "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "database.ssl.mode": "disable",
}
# For those names that all of them need.
SHORT = {
    "user": "database.user",
    "password": "database.password",
    "database": "database.dbname",
    "prefix": "topic.prefix",
    "slot": "slot.name",
    "publication": "publication.name",
    "tables": "table.include.list",
}


class Record(NamedTuple):
    topic: str
    key: Any
    value: Any
    headers: dict[str, Any]


def debezium_classpath() -> str:
    """The class path of its jars; fetches them when those are not there yet that the list names."""
    find_java()
    listed = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
    jars = cache_directory() / f"debezium-{VERSION}-{listed}"
    if not jars.is_dir():
        fetch_jars(jars, POM, f"Debezium {VERSION}")
    return str(jars / "*")


def postgres_settings(port: int, **named: str) -> dict[str, str]:
    """By the names of Debezium's settings, with underscores for dots; short names for those that all of them need."""
    return _settings(POSTGRES, port, named)


def mariadb_settings(port: int, **named: str) -> dict[str, str]:
    """As those of PostgreSQL."""
    return _settings(MARIADB, port, named)


def _settings(defaults: Mapping[str, str], port: int, named: Mapping[str, str]) -> dict[str, str]:
    chosen = {SHORT.get(name, name.replace("_", ".")): value for name, value in named.items()}
    return {**DEFAULTS, **defaults, "database.port": str(port), **chosen}


class Engine(Program):
    def __init__(
        self, folder: Path, settings: Mapping[str, str], to: str = "", options: Sequence[str] = (*JVM_OPTIONS, MEMORY)
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        properties = folder / "engine.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._lines = folder / "records.jsonl"
        classpath = compiled_with(debezium_classpath(), SOURCE, folder / "classes")
        super().__init__(folder, classpath, "Engine", [str(properties), to or str(self._lines)], options)

    def records(self) -> Iterator[Record]:
        """All that it wrote so far."""
        text = self._lines.read_text() if self._lines.exists() else ""
        for line in text.split("\n")[:-1]:  # the last one may be half of it
            told = json.loads(line)
            headers = {name: json.loads(value) for name, value in told["headers"].items()}
            yield Record(told["topic"], _read(told["key"]), _read(told["value"]), headers)

    def wait(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT
        while not holds():
            self.check()
            assert time.monotonic() < deadline, f"it did not come; {self.said()}"
            time.sleep(0.05)


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)
