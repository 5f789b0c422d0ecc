"""A copy takes the place of its view, and whoever does it dies on the way: without Spark."""

import json
from contextlib import contextmanager

import pyarrow as pa
import pytest

import runnel.durable
from runnel import Broker
from runnel.client.committed import committed
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import checkpoint_in, name_checkpoint
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.markers import Marker, read_marker
from runnel.pipeline.place import Place
from runnel.pipeline.sinks.publisher import Publisher
from runnel.pipeline.source.aside import REJECTED, SCHEMA
from runnel.pipeline.swap import OLD, Swap
from runnel.pipeline.tables.told import Told, keep_untold, untold_up_to, write_told
from runnel.views import store

VIEW = "pages"
DECLARED = store.Declared(VIEW, ("page",), pa.schema([("page", pa.string())]))
NEVER = 99_999_999_999_999


class Killed(BaseException):
    pass


@pytest.fixture
def place(tmp_path):
    with Broker() as broker:
        yield Place("shop", Kafka(broker.bootstrap), tmp_path / "data", str(tmp_path / "data"))


@pytest.fixture
def swap(place):
    """Of a view with the checkpoint "1", and a copy with "2"."""
    directory = place.directory / "rebuilds" / VIEW
    for path, checkpoint in ((place.directory_of(VIEW), "1"), (directory / "queries" / VIEW, "2")):
        (path / "checkpoint").mkdir(parents=True)
        (path / "checkpoint" / "metadata").write_text(json.dumps({"id": checkpoint}))
    for make, checkpoint in ((place.store().writer, "1"), (place.store().copy_writer, "2")):
        writer = make(DECLARED, VIEW)
        writer.claim()
        writer.apply(pa.table({"page": ["home"]}), store.Marker(VIEW, 4, checkpoint, {"clicks": {"0": 5}}))
        writer.close()
    return Swap(place, VIEW, directory)


@contextmanager
def dying(monkeypatch, step):
    def reach(name, at):
        if (name, at) == (step, "after"):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(runnel.durable, "_reach", reach)
        with pytest.raises(Killed):
            yield


def test_a_directory_that_a_spark_has_made_again_does_not_come_in(place, swap, monkeypatch):
    swap.decide(f"queries/{VIEW}", None)
    with dying(monkeypatch, "rebuild.in"):
        swap.finish()
    source = place.directory / "rebuilds" / VIEW / "queries" / VIEW
    (source / "checkpoint" / "state").mkdir(parents=True)
    swap.finish()
    assert Checkpoint(place.checkpoint_of(VIEW)).id == "2"
    assert not source.exists()
    assert swap.plan is None


def test_a_directory_that_a_spark_has_made_again_is_not_what_is_kept(place, swap, monkeypatch):
    swap.decide(f"queries/{VIEW}", NEVER)
    with dying(monkeypatch, "rebuild.away"):
        swap.finish()
    (place.checkpoint_of(VIEW) / "state").mkdir(parents=True)
    swap.finish()
    assert Checkpoint(place.checkpoint_of(VIEW)).id == "2"
    assert not (place.checkpoint_of(VIEW) / "state").exists()
    assert Checkpoint(place.directory / "rebuilds" / VIEW / OLD / "checkpoint").id == "1"


def test_a_directory_that_a_spark_makes_at_the_very_moment_is_not_in_the_way(place, swap, monkeypatch):
    swap.decide(f"queries/{VIEW}", None)
    made = []

    def reach(name, at):
        if (name, at) == ("rebuild.in", "before"):
            (place.directory_of(VIEW) / "checkpoint" / "state").mkdir(parents=True)
            made.append(name)

    monkeypatch.setattr(runnel.durable, "_reach", reach)
    swap.finish()
    assert made
    assert Checkpoint(place.checkpoint_of(VIEW)).id == "2"
    assert not (place.checkpoint_of(VIEW) / "state").exists()


def test_the_checkpoint_of_a_copy_keeps_its_own_name(place, swap):
    shown = place.checkpoint_of(VIEW)
    name_checkpoint(place.directory / "rebuilds" / VIEW / "queries" / VIEW)
    swap.decide(f"queries/{VIEW}", NEVER)
    swap.finish()
    assert place.checkpoint_of(VIEW) != shown
    assert Checkpoint(place.checkpoint_of(VIEW)).id == "2"
    assert Checkpoint(checkpoint_in(place.directory / "rebuilds" / VIEW / OLD)).id == "1"


def test_the_marker_in_kafka_is_read_when_its_writer_is_fenced(place, swap):
    assert swap.told() is None
    marks, marker = place.marks_of(VIEW), Marker(VIEW, 5, "1", {"clicks": {"0": 9}})
    with place.kafka.cluster() as cluster:
        writer = Publisher(cluster, VIEW, name=place.id_of(VIEW), marks=marks, late=f"{VIEW}.late")
        writer.open()
        writer.publish(marker, {}, SCHEMA.empty_table())
        writer.begin([(marks, 0)])
        assert swap.told() == marker
        with pytest.raises(Exception, match="another one has taken over"):
            writer.publish(Marker(VIEW, 6, "1", {}), {}, SCHEMA.empty_table())
        assert read_marker(cluster, marks, VIEW) == marker


@pytest.mark.parametrize("is_seen_at_once", [True, False])
@pytest.mark.parametrize("death", ["rebuild.mark", "rebuild.away", "rebuild.keep"])
def test_what_the_copy_has_rejected_of_tables_behind_the_view_is_told_once(
    place, swap, monkeypatch, death, is_seen_at_once
):
    """Not what the view had told, nor what a batch has rejected that is repeated when the copy is the view. The commit
    of one that died may be seen only when it is fenced.
    """
    copy = place.directory / "rebuilds" / VIEW / "queries" / VIEW
    write_told(copy, {"names": Told("a", {0: 7})})
    for batch, offsets in ((3, (6, 7)), (4, (8,)), (5, (9,))):
        about = {"kind": REJECTED, "reason": "no", "stream": "names", "topic": "names", "partition": 0}
        rows = [{**about, "offset": each, "timestamp": 0, "value": str(each).encode()} for each in offsets]
        keep_untold(copy, batch, pa.Table.from_pylist(rows, SCHEMA))
    swap.decide(f"queries/{VIEW}", NEVER)
    with dying(monkeypatch, death):
        swap.finish()
    if not is_seen_at_once:
        monkeypatch.setattr("runnel.pipeline.swap.read_marker", lambda *_: None)
    swap.finish()
    with place.kafka.cluster() as cluster:
        assert [value for _, value in committed(cluster, "names.rejected")] == [b"7", b"8"]
    assert untold_up_to(place.directory_of(VIEW), 9).num_rows == 0
