"""What was rejected of the tables that a query joins, and whether somebody has told it.

A marker says how far a query has read its streams. How far it has read a table, the claims of its batches say
(`versions.py`): at most as far as the batch that the marker names has. A copy of a view reads a table as it is by then,
which is further than the view has read it, or, where the view had a batch without new records, not as far. So that each
rejected record is told once when they change places, there are in the directory of the copy

    told.json               by topic, the offsets before which all is told: that is how far the view has read
    untold/<batch>.arrow    what a batch of the copy has rejected behind them

The swap tells what is untold. What is told, the copy does not tell again when it is the view.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from runnel.durable import durable
from runnel.files import DISK, make_directories, replace_file
from runnel.pipeline.source.aside import SCHEMA
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.tables.partitions import Partitions
from runnel.pipeline.tables.versions import Span, Versions

FILE, UNTOLD = "told.json", "untold"


class Told(NamedTuple):
    """Of the topic with this id, by partition: before which offset all is told. Of a partition that is missing, nothing
    is.
    """

    id: str
    ends: Mapping[int, int]

    def is_of(self, topic_id: str) -> bool:
        """Whether the topic is the same one; a broker need not tell ids."""
        return not self.id or not topic_id or self.id == topic_id


AllTold: TypeAlias = Mapping[str, Told]  # by topic


# --- what is told


def read_told(directory: Path) -> AllTold:
    """`directory` is a query's. Nothing, of one that has never been a copy."""
    try:
        found = json.loads((directory / FILE).read_text())
    except FileNotFoundError:
        return {}
    return {
        topic: Told(each["id"], {int(partition): at for partition, at in each["ends"].items()})
        for topic, each in found.items()
    }


def write_told(directory: Path, told: AllTold) -> None:
    """On the disk when it returns."""
    found = {
        topic: {"id": each.id, "ends": {str(partition): at for partition, at in each.ends.items()}}
        for topic, each in told.items()
    }
    with durable("table.told"):
        replace_file(DISK, str(directory / FILE), json.dumps(found).encode())


def merged(known: AllTold, news: AllTold) -> dict[str, Told]:
    """What either of them says. Of a topic that was made anew, what the news say."""
    return {**known, **{topic: _merged(known.get(topic), each) for topic, each in news.items()}}


def _merged(known: Told | None, news: Told) -> Told:
    if known is None or not known.is_of(news.id):
        return news
    partitions = known.ends.keys() | news.ends.keys()
    return Told(
        news.id or known.id, {each: max(known.ends.get(each, 0), news.ends.get(each, 0)) for each in sorted(partitions)}
    )


class Standing:
    """What a query has told, by its files. To be made before its marker is read: while another process goes on with the
    query, claims are removed that are older than what the marker says, and new ones are not told yet.

    `tables` are those that it joins, as the number of the input and the topic.
    """

    def __init__(self, directory: Path, tables: Iterable[tuple[int, str]]) -> None:
        self._told = read_told(directory)
        self._claims = [_claims(directory / "tables" / str(number), topic) for number, topic in tables]

    def at(self, batch: int) -> AllTold:
        """When this batch is the last that has taken effect."""
        found: AllTold = self._told
        for claims in self._claims:
            found = merged(found, {} if claims is None else {claims.topic: claims.at(batch)})
        return found


class _Claims(NamedTuple):
    """By partition and batch."""

    topic: str
    id: str
    spans: Mapping[int, Mapping[int, Span]]

    def at(self, batch: int) -> Told:
        ends = {}
        for partition, spans in self.spans.items():
            done = [number for number in spans if number <= batch]
            if done:
                ends[partition] = spans[max(done)].end
        return Told(self.id, ends)


def _claims(directory: Path, topic: str) -> _Claims | None:
    """None if no batch was ever planned with it."""
    try:
        known = Partitions(directory).read()
    except FileNotFoundError:
        return None
    count = max(count for _, count in known.counts)
    names = {each: Range(topic, each, 0, 0, known.topic_id).name for each in range(count)}
    spans = {each: Versions(directory / name, pa.schema([])).spans() for each, name in names.items()}
    return _Claims(topic, known.topic_id, spans)


def told_of(read: Range, told: AllTold) -> AllTold:
    """The part of it that is of this topic; nothing, if the topic was made anew, or nobody knows of it."""
    known = told.get(read.topic)
    return {read.topic: known} if known is not None and known.is_of(read.topic_id) else {}


# --- what is untold


def untold(rows: pa.Table, told: AllTold) -> pa.Table:
    """Of rows that were put aside."""
    known = [told.get(topic) for topic in rows["topic"].to_pylist()]
    places = zip(known, rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    return rows.filter(
        pa.array([each is None or at >= each.ends.get(partition, 0) for each, partition, at in places], pa.bool_())
    )


def keep_untold(directory: Path, batch: int, rows: pa.Table) -> None:
    """On the disk when it returns. A repeat of the batch writes the same."""
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, rows.schema) as writer:
        writer.write_table(rows)
    path = _path_of(directory, batch)
    make_directories(str(path.parent))
    with durable("table.untold"):
        replace_file(DISK, str(path), buffer.getvalue().to_pybytes())


def untold_up_to(directory: Path, batch: int) -> pa.Table:
    """What all batches up to this one have kept, and nobody has told since."""
    found = [_read(path) for number, path in _kept(directory) if number <= batch]
    return untold(pa.concat_tables([SCHEMA.empty_table(), *found]), read_told(directory))


def forget_untold(directory: Path, after: int = -1) -> None:
    """What batches behind this one have kept."""
    for number, path in _kept(directory):
        if number > after:
            path.unlink(missing_ok=True)


def _kept(directory: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in (directory / UNTOLD).glob("*.arrow") if path.stem.isdigit())


def _read(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as file:
        return pa.ipc.open_stream(file).read_all().replace_schema_metadata(None)


def _path_of(directory: Path, batch: int) -> Path:
    return directory / UNTOLD / f"{batch}.arrow"
