"""The files of one part of a table: its latest rows as of an offset, and the offset that each batch counts as of.

    <offset>.base.arrow     rows, memory-mapped
    <offset>.delta.arrow    what has changed since its base, which it names: with it, the version as of the offset
    <batch>.batch.json      from where to where the batch has read

A batch that is repeated must see the rows that it saw, and a compacted topic may have lost them by then: that is why
they are kept in files. A file is complete when it has its name, and synced before anything tells of it. What a batch
counts as of is decided by whoever links its file first; the others take what it says.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from runnel.durable import durable
from runnel.files import DISK, make_directories
from runnel.pipeline.tables.latest import Latest, base_schema, delta_schema

BASE, DELTA, BATCH = ".base.arrow", ".delta.arrow", ".batch.json"
BASE_NAME = b"base"
BLOCK = 65_536  # rows that are written, and later read, at a time


class Span(NamedTuple):
    """What a batch has read of the part, from `start` to before `end`: it counts as of `end`. `log` is whose offsets
    these are, where they may begin anew; empty where they cannot, or it was not told.
    """

    start: int
    end: int
    log: str = ""

    def to_object(self) -> dict[str, Any]:
        told: dict[str, Any] = {"from": self.start, "to": self.end}
        return told | ({"log": self.log} if self.log else {})


class Versions:
    """`schema` is that of the rows; a version with another one is as good as none. If rows may get columns (`grows`),
    one that lacks some has nulls in them.
    """

    def __init__(self, directory: Path, schema: pa.Schema, *, grows: bool = False) -> None:
        self._directory = directory
        self._schema = schema
        self._grows = grows

    # --- versions, by offset

    def at(self, offset: int) -> Latest | None:
        """None if it is not there, or of another schema."""
        found = _opened(self._path(offset, DELTA))
        told = (found.schema.metadata or {}).get(BASE_NAME) if found is not None else None
        delta = self._fitted(found, delta_schema(self._schema))
        if delta is None:
            return None
        if told is None:
            return replace(Latest.empty(self._schema), delta=delta)
        base = self._fitted(_opened(self._path(int(told), BASE)), base_schema(self._schema))
        return None if base is None else Latest(self._schema, base, delta, int(told))

    def keep(self, offset: int, latest: Latest) -> None:
        """Under the offset that it is the state as of."""
        make_directories(str(self._directory))
        name = latest.base_name
        if name is None and latest.base.num_rows:
            name = offset
            self._write(self._path(offset, BASE), lambda path: _written(path, latest.base))
        metadata = None if name is None else {BASE_NAME: str(name)}
        delta = latest.delta.replace_schema_metadata(metadata)
        self._write(self._path(offset, DELTA), lambda path: _written(path, delta))

    # --- what batches have read

    def of_batch(self, batch: int) -> Span | None:
        try:
            told = json.loads(self._path(batch, BATCH).read_text())
        except FileNotFoundError:
            return None
        return Span(told["from"], told["to"], told.get("log", ""))

    def spans(self) -> dict[int, Span]:
        """By batch, as far as it is kept; also while another process goes on, and removes old ones."""
        while True:
            found = {number: self.of_batch(number) for number in self._numbers(BATCH)}
            known = {number: span for number, span in found.items() if span is not None}
            if len(known) == len(found):
                return known

    def newest_before(self, batch: int) -> Span | None:
        found = [number for number in self._numbers(BATCH) if number < batch]
        return self.of_batch(max(found)) if found else None

    def claim(self, batch: int, span: Span) -> Span:
        """What the batch counts as of: this, or what somebody else said before."""
        make_directories(str(self._directory))
        path = self._path(batch, BATCH)
        temporary = _temporary(path)
        temporary.write_text(json.dumps(span.to_object()))
        DISK.open(str(temporary)).sync()
        try:
            with durable("table.batch"), suppress(FileExistsError):
                path.hardlink_to(temporary)
        finally:
            temporary.unlink()
        DISK.sync_directory(str(self._directory))
        found = self.of_batch(batch)
        assert found is not None
        return found

    def take_back_after(self, batch: int) -> None:
        """What later batches count as of: they are planned anew."""
        for number in self._numbers(BATCH):
            if number > batch:
                self._path(number, BATCH).unlink(missing_ok=True)
        DISK.sync_directory(str(self._directory))

    # --- what nobody needs any more

    def forget_before_batch(self, batch: int) -> None:
        """All but what this batch, and the last one before it, count as of."""
        before = max((number for number in self._numbers(BATCH) if number < batch), default=batch)
        self._remove(BATCH, before)
        ends = [span.end for number in (before, batch) if (span := self.of_batch(number)) is not None]
        self.forget_before(min(ends, default=0))

    def last_before(self, offset: int) -> int:
        """The offset of the newest version that is older than this one; if there is none, this one."""
        return max((number for number in self._numbers(DELTA) if number < offset), default=offset)

    def forget_before(self, offset: int) -> None:
        """Versions as of an older offset, and the bases that no other one is based on."""
        self._remove(DELTA, offset)
        based = [_base_of(self._path(number, DELTA)) for number in self._numbers(DELTA)]
        self._remove(BASE, min((name for name in based if name is not None), default=offset))

    def _remove(self, kind: str, before: int) -> None:
        """Also those that were never given their name."""
        for path in self._directory.glob(f"*{kind}*"):
            number = path.name.partition(".")[0]
            if number.isdigit() and int(number) < before:
                path.unlink(missing_ok=True)

    # --- inside

    def _fitted(self, table: pa.Table | None, schema: pa.Schema) -> pa.Table | None:
        """None if it is of another schema."""
        if table is None or table.schema.equals(schema):
            return None if table is None else table.replace_schema_metadata(None)
        if not self._grows or any(field not in schema for field in table.schema):
            return None
        known = set(table.column_names)
        columns = [table[each.name] if each.name in known else pa.nulls(len(table), each.type) for each in schema]
        return pa.table(columns, schema=schema)

    def _path(self, number: int, kind: str) -> Path:
        return self._directory / f"{number}{kind}"

    def _numbers(self, kind: str) -> list[int]:
        names = [path.name.removesuffix(kind) for path in self._directory.glob(f"*{kind}")]
        return [int(name) for name in names if name.isdigit()]

    def _write(self, path: Path, write: Callable[[Path], None]) -> None:
        """One that is there already says the same."""
        temporary = _temporary(path)
        write(temporary)
        DISK.open(str(temporary)).sync()
        with durable("table.version"):
            temporary.replace(path)
        DISK.sync_directory(str(self._directory))


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex}")


def _written(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=BLOCK)


def _opened(path: Path) -> pa.Table | None:
    try:
        file = pa.memory_map(str(path))
    except FileNotFoundError:
        return None
    return pa.ipc.open_file(file).read_all()


def _base_of(path: Path) -> int | None:
    try:
        with pa.memory_map(str(path)) as file:
            told = (pa.ipc.open_file(file).schema.metadata or {}).get(BASE_NAME)
    except FileNotFoundError:
        return None
    return None if told is None else int(told)
