"""A batch that is planned anew finds nothing of what was decided for the one before it, whoever died on the way."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from runnel.pipeline.source.aside import SCHEMA
from runnel.pipeline.source.left_out import LeftOut, read_left_out, write_left_out
from runnel.pipeline.tables.told import keep_untold
from runnel.pipeline.tables.versions import Span, Versions
from runnel.pipeline.unplanning import unplan

DONE, PLANNED = 4, 5
OF_THE_PLANNED = {
    "checkpoint/offsets/5",
    "checkpoint/state/0/1/6.changelog",
    "checkpoint/state/0/1/6.zip",
    "tables/1/names-0/5.batch.json",
    "tables/2/cities/5.batch.json",
    "left-out/5.json",
    "aside/5/0-clicks-0-7-9.arrow",
    "untold/5.arrow",
}


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("v1")


@pytest.fixture
def directory(tmp_path):
    """Of a query that has done batch 4, and has run the body of batch 5."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text(json.dumps({"id": "a"}))
    write(tmp_path / "checkpoint" / "commits" / str(DONE))
    write(tmp_path / "checkpoint" / "state" / "0" / "_metadata" / "6.of-no-version")
    for batch in (DONE, PLANNED):
        write(tmp_path / "checkpoint" / "offsets" / str(batch))
        for kind in ("changelog", "zip"):
            write(tmp_path / "checkpoint" / "state" / "0" / "1" / f"{batch + 1}.{kind}")
        for part in ("1/names-0", "2/cities"):
            Versions(tmp_path / "tables" / part, pa.schema([])).claim(batch, Span(0, batch))
        write_left_out(tmp_path, batch, [LeftOut(0, "clicks", 0, 7, "no")])
        write(tmp_path / "aside" / str(batch) / "0-clicks-0-7-9.arrow")
        keep_untold(tmp_path, batch, SCHEMA.empty_table())
    write(tmp_path / "tables" / "1" / "partitions.json")
    return tmp_path


def files(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_all_that_the_batch_had_decided_goes_and_nothing_else(directory):
    before = files(directory)
    assert before > OF_THE_PLANNED
    unplan(directory, DONE)
    assert before - files(directory) == OF_THE_PLANNED
    assert read_left_out(directory, DONE)


def test_a_batch_that_has_taken_effect_stays(directory):
    before = files(directory)
    unplan(directory, PLANNED)
    assert files(directory) == before


def test_who_dies_on_the_way_leaves_the_batch_whole_or_the_rest_to_the_next_call(directory, monkeypatch):
    """The places are those where something is taken away, in their order."""
    before = files(directory)
    places = [
        "runnel.pipeline.checkpoint.CheckpointFile.remove",
        "runnel.pipeline.state_files.StateFiles.remove_after",
        "runnel.pipeline.tables.versions.Versions.take_back_after",
        "runnel.pipeline.source.left_out.forget_after",
        "runnel.pipeline.source.aside.forget_after",
    ]
    for number, place in enumerate(places):
        with monkeypatch.context() as patch:
            patch.setattr(place, die)
            with pytest.raises(KeyboardInterrupt):
                unplan(directory, DONE)
        left = files(directory)
        assert (left == before) == (number == 0)
        assert ("checkpoint/offsets/5" in left) == (number == 0)
    unplan(directory, DONE)
    assert before - files(directory) == OF_THE_PLANNED


def die(*_: object) -> None:
    raise KeyboardInterrupt
