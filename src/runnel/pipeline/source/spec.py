"""Everything that a source must know, as one value: it travels to the processes in which Spark runs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from runnel.client.cluster import PATIENCE
from runnel.client.security import PLAIN, Security
from runnel.graph.event_time import RECORD_TIME, EventTime
from runnel.graph.formats import Columns
from runnel.graph.inputs import CHANGE, METADATA
from runnel.graph.reading import Reading
from runnel.graph.types import Field, quoted
from runnel.pipeline.source.own_files import OwnFiles

BEAT = "_runnel_beat"  # true in a row that is none: it only lets the watermark go on
METADATA_TYPES = {
    "_topic": "string",
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp": "timestamp",
    "_key": "binary",
    "_headers": "array<struct<key:string,value:binary>>",
}


@dataclass(frozen=True)
class Spec(OwnFiles):
    """`number` is the place among the query's inputs. `wanted` are the columns that the body uses: others are null.
    None: all. `directory` is where the source keeps what is its own, beside the query's checkpoint. With `skip_gone`,
    records that were deleted before they were read are passed over, and told. A `key` is a table's: its latest rows, or
    every one of their `changes`. `held` is the directory of a test that holds the app. `follow` is a file with the
    positions of another query, by topic and partition: nothing beyond them is read.
    """

    query: str
    number: int
    bootstrap: str
    topic: str
    columns: Columns
    reading: Reading
    directory: str
    wanted: frozenset[str] | None = None
    time: EventTime | None = None
    metadata: bool = False
    security: Security = PLAIN
    patience: float = PATIENCE
    skip_gone: bool = False
    key: tuple[str, ...] | None = None
    changes: bool = False
    held: str = ""
    run: str = ""
    follow: str = ""

    @property
    def ddl(self) -> str:
        """The schema of the rows, for Spark. Every column may be null: a beat has no values."""
        return ", ".join(f"{quoted(name)} {kind}" for name, kind in self.all_columns.items())

    @property
    def ddl_for_the_body(self) -> str:
        return ", ".join(f"{quoted(name)} {kind}" for name, kind in self.all_columns.items() if name != BEAT)

    @property
    def is_static(self) -> bool:
        """Whether it is no stream, but the rows of a table at the start of a batch."""
        return self.key is not None and not self.changes

    @cached_property
    def all_columns(self) -> dict[str, str]:
        found = {field.name: str(field.type) for field in self.columns.fields}
        if self.changes:
            found[CHANGE] = "string"
        if self.metadata:
            found |= {name: kind for name, kind in METADATA_TYPES.items() if not self.has_own(name)}
            found |= {field.name: str(field.type) for field in self._envelope}
        if self.time is not None:
            if self._record_time is not None:
                found[RECORD_TIME] = METADATA_TYPES[RECORD_TIME]
            found |= {field.name: str(field.type) for field in self._envelope if field.name == self.time.column}
            found[BEAT] = "boolean"
        return found

    @property
    def value_fields(self) -> tuple[Field, ...]:
        """What can be read from a value: the columns of the row, and what is asked for of the envelope around it."""
        row = [field for field in self.columns.fields if field.name != self._record_time] or self.columns.fields
        return (*row, *(field for field in self._envelope if field.name in self.all_columns))

    @property
    def parsed(self) -> list[str]:
        """The columns that are read from the value: those that the body uses, and the event time. One at least, because
        a value that does not fit must be found. Of a table, all: its rows are kept for later.
        """
        names = [field.name for field in self.value_fields]
        return [name for name in names if self._is_used(name)] or names[:1]

    @property
    def metadata_wanted(self) -> list[str]:
        known = [name for name in METADATA if name in self.all_columns and not self.has_own(name)]
        return [name for name in known if self._is_used(name)]

    def has_own(self, name: str) -> bool:
        """Whether it is a column of the values: one that is called as one of the metadata stays what it is."""
        return name != self._record_time and self.columns.find(name) is not None

    def using(self, columns: frozenset[str]) -> Spec:
        return replace(self, wanted=columns)

    def is_wanted(self, name: str) -> bool:
        """Whether the body uses the column."""
        return self.wanted is None or name in self.wanted

    @property
    def _record_time(self) -> str | None:
        """The name of the record's own time, if that is the event time: no column of the values can be called so."""
        return RECORD_TIME if self.time is not None and self.time.column == RECORD_TIME else None

    @property
    def _envelope(self) -> tuple[Field, ...]:
        """A table has the latest rows, whatever changed them."""
        return self.columns.envelope if self.key is None else ()

    def _is_used(self, name: str) -> bool:
        is_time = self.time is not None and self.time.column == name
        return is_time or self.key is not None or self.is_wanted(name)
