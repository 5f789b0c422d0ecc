"""How far a view is that is rebuilt, without Spark."""

import errno
import json
import logging
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from runnel import App, Broker, Reading
from runnel.app import rebuild as rebuild_module
from runnel.app.rebuild import FOLLOWED, NotRebuilt, Rebuild, Rebuilt
from runnel.app.runner import Running, place_of
from runnel.client import Unreachable
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import checkpoint_in
from runnel.pipeline.errors import DiskFull, OtherMaker
from runnel.pipeline.markers import Marker
from runnel.pipeline.sinks.publisher import Publisher
from runnel.pipeline.source.aside import SCHEMA
from runnel.pipeline.swap import KEPT, OLD
from runnel.pipeline.tables.partitions import Known, Partitions
from runnel.pipeline.tables.told import Told, read_told
from runnel.pipeline.tables.versions import Span, Versions
from runnel.views import store
from runnel.views.errors import StoreUnreachable
from runnel.views.sqlite import SqliteStore

VIEW = "pages"
CHECKPOINT = "7c3e"
DECLARED = store.Declared(VIEW, ("page",), pa.schema([("page", pa.string())]))


def shop(*topics, twice=False, pattern=None):
    app = App("shop")
    found = [app.stream(each, schema="page string", read=Reading(topics=pattern)) for each in topics]
    app.view(*found * (2 if twice else 1), key="page", name=VIEW)(lambda *given: given[0])
    return app


@pytest.fixture
def broker():
    with Broker() as broker:
        for topic in ("clicks", "clicks-b"):
            broker.create_topic(topic, 1)
        yield broker


@pytest.fixture
def running(broker, tmp_path):
    """Of a view that has read 4 batches of clicks."""
    found = Running(broker.bootstrap, tmp_path)
    place = place_of(shop("clicks"), found)
    place.directory_of(VIEW).mkdir(parents=True)
    keep(place, 4, {"clicks": {"0": 0}})
    declare(place, ("clicks", None))
    return found


def keep(place, batch, positions):
    writer = place.store().writer(DECLARED, VIEW)
    writer.claim()
    writer.apply(pa.table({"page": ["home"]}), store.Marker(VIEW, batch, CHECKPOINT, positions))
    writer.close()


def declare(place, *inputs, tables=()):
    told = [{"kind": "stream", "name": name, "topics": pattern} for name, pattern in inputs]
    told += [{"kind": "table", "name": name, "changes": False} for name in tables]
    (place.directory_of(VIEW) / "declared.json").write_text(json.dumps({"inputs": told}))


def put_aside(place, batch, positions, checkpoint=CHECKPOINT):
    """What a batch does before its rows are kept."""
    marks = place.marks_of(VIEW)
    place.kafka.make_topic(marks, partitions=1)
    with place.kafka.cluster() as cluster:
        publisher = Publisher(cluster, VIEW, name=place.id_of(VIEW), marks=marks, late=f"{VIEW}.late")
        publisher.open()
        publisher.publish(Marker(VIEW, batch, checkpoint, positions), {}, SCHEMA.empty_table())


def followed(rebuild, running):
    rebuild._follow(rebuild._at_rest)
    return json.loads((running.data / "rebuilds" / VIEW / FOLLOWED).read_text())


@pytest.fixture
def rebuild(running):
    (running.data / "rebuilds" / VIEW).mkdir(parents=True)
    return Rebuild(shop("clicks"), VIEW, running)


def test_a_batch_that_was_put_aside_and_not_kept_counts_as_read(rebuild, running):
    place = place_of(shop("clicks"), running)
    assert followed(rebuild, running) == {"positions": {"clicks": {"0": 0}}, "patterns": []}
    put_aside(place, 5, {"clicks": {"0": 9}})
    assert followed(rebuild, running) == {"positions": {"clicks": {"0": 9}}, "patterns": []}
    keep(place, 7, {"clicks": {"0": 12}})
    assert followed(rebuild, running)["positions"] == {"clicks": {"0": 12}}
    put_aside(place, 8, {"clicks": {"0": 99}}, checkpoint="another")
    assert followed(rebuild, running)["positions"] == {"clicks": {"0": 12}}


def test_what_the_view_reads_by_a_pattern_is_followed_before_it_is_found(rebuild, running):
    declare(place_of(shop("clicks"), running), ("clicks", "clicks-.*"), ("users", None))
    assert followed(rebuild, running) == {"positions": {"clicks": {"0": 0}, "users": {}}, "patterns": ["clicks-.*"]}


def test_a_view_that_reads_a_topic_twice_is_not_rebuilt(running):
    for app in (shop("clicks", twice=True), shop("clicks", "other", pattern="clic.*")):
        with pytest.raises(
            NotRebuilt, match="pages has two inputs that read clicks: how far each of them is"
        ) as raised:
            Rebuild(app, VIEW, running).run()
        assert "another name" in raised.value.hint
    declare(place_of(shop("clicks"), running), ("clicks", None), ("clicks", None))
    with pytest.raises(NotRebuilt, match="has two inputs that read clicks"):
        Rebuild(shop("clicks"), VIEW, running).run()


def test_the_view_of_another_app_is_not_rebuilt(running):
    place = place_of(shop("clicks"), running)
    offsets = place.checkpoint_of(VIEW) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    (place.directory_of(VIEW) / "declared.json").write_text(json.dumps({"app": "bank", "inputs": []}))
    with pytest.raises(OtherMaker, match='its checkpoint is of app "bank", and this is app "shop"'):
        Rebuild(shop("clicks"), VIEW, running).run()
    assert not (running.data / "rebuilds").exists()


def test_a_disk_that_is_full_is_told_with_what_to_do(running, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "followed.json")

    monkeypatch.setattr(rebuild_module.Followed, "to_text", full)
    with pytest.raises(DiskFull, match=r"a disk is full: No space left on device: followed.json \(make room"):
        Rebuild(shop("clicks"), VIEW, running).run()


def test_a_log_that_has_lost_records_is_told_before_spark_starts(running):
    keep(place_of(shop("clicks"), running), 5, {"clicks": {"0": 3}})
    with pytest.raises(NotRebuilt, match=r"was read up to offset 3 of clicks-0, which ends at 0"):
        Rebuild(shop("clicks"), VIEW, running).run()


def test_of_topics_that_the_view_did_not_read_all_that_is_there_is_waited_for(running):
    rebuild = Rebuild(shop("clicks", pattern="clicks.*"), VIEW, running)
    assert rebuild._ends(rebuild._shown()) == {"clicks": {"0": 0}, "clicks-b": {"0": 0}}
    declare(place_of(shop("clicks"), running), ("clicks", "clicks.*"))
    rebuild = Rebuild(shop("clicks", pattern="clicks.*"), VIEW, running)
    assert rebuild._ends(rebuild._shown()) == {"clicks": {"0": 0}}


def test_the_copy_knows_what_the_view_has_told_of_a_table_that_it_joins(rebuild, running):
    """A batch that was put aside counts; one that was only begun does not."""
    place = place_of(shop("clicks"), running)
    declare(place, ("clicks", None), tables=["names"])
    directory, copy = place.directory_of(VIEW), running.data / "rebuilds" / VIEW / "queries" / VIEW
    Partitions(directory / "tables" / "1").write(Known("a", [(0, 1)]))
    for batch in (4, 5):
        Versions(directory / "tables" / "1" / "names-0", pa.schema([])).claim(batch, Span(0, 100 + batch))
    followed(rebuild, running)
    assert read_told(copy) == {}
    copy.mkdir(parents=True)
    followed(rebuild, running)
    assert read_told(copy) == {"names": Told("a", {0: 104})}
    put_aside(place, 5, {"clicks": {"0": 9}})
    followed(rebuild, running)
    assert read_told(copy) == {"names": Told("a", {0: 105})}


def test_what_the_kept_copy_had_planned_is_taken_back_before_anybody_can_go_on_with_it(running, monkeypatch):
    rebuild = Rebuild(shop("clicks"), VIEW, running, back=True)
    directory = running.data / "rebuilds" / VIEW
    planned = directory / OLD / "checkpoint" / "offsets" / "5"
    planned.parent.mkdir(parents=True)
    planned.write_text("v1")
    (directory / OLD / "checkpoint" / "metadata").write_text(json.dumps({"id": CHECKPOINT}))
    (directory / KEPT).write_text(json.dumps({"until": 99_999_999_999_999, "checkpoint": CHECKPOINT}))
    with monkeypatch.context() as patch:
        patch.setattr(rebuild._copy, "marker", die)
        with pytest.raises(ConnectionError):
            rebuild._take_up_the_kept()
    assert planned.exists()
    assert not (directory / "queries").exists()
    rebuild._take_up_the_kept()
    assert not planned.exists()
    assert Checkpoint(checkpoint_in(directory / "queries" / VIEW)).last == -1


def test_a_copy_that_was_kept_before_is_removed_and_told(rebuild, running, monkeypatch, caplog):
    monkeypatch.setattr("runnel.app.rebuild.begin_where_it_began", lambda *_: None)
    directory = running.data / "rebuilds" / VIEW
    rebuild._begin_anew(directory / "queries" / VIEW)
    assert not caplog.records
    (directory / KEPT).write_text(json.dumps({"until": 99_999_999_999_999, "checkpoint": CHECKPOINT}))
    rebuild._begin_anew(directory / "queries" / VIEW)
    assert not (directory / KEPT).exists()
    (said,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert said.startswith(f"{VIEW}: the copy that an earlier rebuild has kept is removed, as one is kept at most")


def die(*_):
    raise ConnectionError


@dataclass
class Copy:
    """A copy that has come up to its view."""

    name: str = VIEW
    done: int = 0
    totals: str = "4 batches"
    is_active: bool = True
    is_well: bool = True
    failure: None = None
    stops: list[str] = field(default_factory=list)

    def stop(self) -> None:
        self.stops.append("stopped")


@pytest.mark.parametrize("asked", ["_shown", "_at_rest"])
def test_a_store_that_is_away_for_a_while_does_not_end_a_rebuild(rebuild, monkeypatch, caplog, asked):
    """It may have run for hours by then."""
    answers = iter([StoreUnreachable("the store", "connection refused"), StoreUnreachable("the store", "starting up")])
    ask = getattr(rebuild, asked)

    def away_at_first():
        if (error := next(answers, None)) is not None:
            raise error
        return ask()

    copy = store.Marker(VIEW, 4, "of the copy", {"clicks": {"0": 0}})
    monkeypatch.setattr(rebuild, asked, away_at_first)
    monkeypatch.setattr(rebuild, "_swap", lambda query: "swapped")
    monkeypatch.setattr(rebuild._copy, "marker", lambda: copy)
    monkeypatch.setattr(rebuild_module, "ended", lambda spark: None)
    query = Copy()
    assert rebuild._come_up(None, query, {}) == "swapped"
    assert query.stops == ["stopped"]
    waits = [each.getMessage() for each in caplog.records if "waits, and goes on by itself" in each.getMessage()]
    assert len(waits) == 1
    assert "connection refused" in waits[0]


@pytest.fixture
def chased(rebuild, monkeypatch):
    """A view whose position is `view`, and a copy of it at `copy`; `when_asked` notes that the app shall let go."""

    class Chased:
        view = copy = asked = 0

        def shown(self):
            return store.Marker(VIEW, self.view, CHECKPOINT, {"clicks": {"0": self.view}})

        def copied(self):
            return store.Marker(VIEW, self.copy, "of the copy", {"clicks": {"0": self.copy}})

        def when_asked(self, _):
            self.asked = self.asked or self.copy
            return True

    chased = Chased()
    monkeypatch.setattr(rebuild, "_shown", lambda: chased.shown())
    monkeypatch.setattr(rebuild._copy, "marker", lambda: chased.copied())
    monkeypatch.setattr(rebuild_module.Peace, "is_granted", lambda peace: chased.when_asked(peace))
    monkeypatch.setattr(rebuild_module, "ended", lambda spark: None)
    monkeypatch.setattr(rebuild, "_swap", lambda query: "swapped")
    return chased


def test_a_copy_that_its_view_is_always_a_batch_ahead_of_takes_its_place(rebuild, chased, monkeypatch):
    """As where records keep coming."""
    query, looks = Copy(), iter(range(1, 20))

    def look(_):
        chased.copy, query.done = chased.view, query.done + 1  # which the view has passed when it is looked at
        chased.view = next(looks, None) if not chased.asked else chased.view
        return chased.view is None

    monkeypatch.setattr(rebuild._stopping, "wait", look)
    assert rebuild._come_up(None, query, {}) == "swapped"
    assert chased.copy == chased.view


def test_the_app_is_not_asked_to_let_go_of_a_view_while_its_copy_is_far_from_it(rebuild, chased, monkeypatch):
    query, looks = Copy(), iter(range(1, 100))
    chased.view = 50

    def look(_):
        chased.copy = query.done = next(looks)
        return False

    monkeypatch.setattr(rebuild._stopping, "wait", look)
    assert rebuild._come_up(None, query, {}) == "swapped"
    assert chased.asked >= 50


def test_what_came_of_it_is_told_in_units_that_fit():
    assert str(Rebuilt(1, 0, 2, 0, 38_400, is_kept=True)) == (
        "1 row, 0 late, 2 rejected; 37.5 KiB of checkpoint and state kept for a rollback"
    )
    assert str(Rebuilt(9, 0, 0, 0, 3 * 2**20, is_kept=False)).endswith("; 3.0 MiB of checkpoint and state freed")


def test_a_broker_that_does_not_answer_is_told_and_not_waited_for(broker, running, monkeypatch):
    rebuild = Rebuild(shop("clicks"), VIEW, running)
    broker.stop()
    monkeypatch.setattr("runnel.client.cluster.Cluster.settled", lambda *_: pytest.fail("it is waited for"))
    with pytest.raises(Unreachable):
        rebuild.run()


def test_a_copy_that_comes_up_is_asked_for_its_marker_over_a_connection_that_stays(rebuild, running, monkeypatch):
    """And so is the view: both are, ten times a second."""
    place = place_of(shop("clicks"), running)
    writer = place.store().copy_writer(DECLARED, VIEW)
    writer.claim()
    opened, looks = [], iter([False] * 20)
    read = SqliteStore._read
    monkeypatch.setattr(SqliteStore, "_read", lambda store: opened.append(store) or read(store))
    monkeypatch.setattr(rebuild._stopping, "wait", lambda seconds: next(looks, True))
    monkeypatch.setattr(rebuild_module, "ended", lambda spark: None)
    monkeypatch.setattr(rebuild, "_swap", lambda query: "swapped")
    assert rebuild._come_up(None, Copy(), {"clicks": {"0": 9}}) is None
    assert len(opened) == 2
    writer.apply(pa.table({"page": ["home"]}), store.Marker(VIEW, 4, "of the copy", {"clicks": {"0": 9}}))
    looks = iter([False] * 20)
    assert rebuild._come_up(None, Copy(), {"clicks": {"0": 9}}) == "swapped", "what has changed is seen"
    assert len(opened) == 2
    writer.close()
