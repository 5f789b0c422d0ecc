"""Whether outputs and a data directory belong together is known before anybody is fenced."""

import json
from dataclasses import replace
from unittest.mock import Mock
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.version import __version__ as spark_version

from runnel import App, Broker
from runnel.client.errors import TopicReplaced
from runnel.client.transaction import Transaction
from runnel.pipeline.batch import Batch
from runnel.pipeline.belonging import check_outputs
from runnel.pipeline.errors import OtherCheckpoint, OtherMaker, ViewGone
from runnel.pipeline.fitting import FILE
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.markers import Marker
from runnel.pipeline.place import Place
from runnel.pipeline.sinks.publisher import Publisher
from runnel.pipeline.source import aside
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.steps.publish import PublishAside
from runnel.views import store

OURS, ANOTHER = "7c3e", "9b01"
KEPT = pa.schema([("page", pa.string()), ("count", pa.int64())])


@pytest.fixture
def app():
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    app.view(clicks, key="page", name="pages")(lambda clicks: clicks)

    @app.stream(clicks)
    def stays(clicks):
        return clicks

    return app


@pytest.fixture
def place(tmp_path):
    with Broker() as broker:
        yield Place("shop", Kafka(broker.bootstrap), tmp_path, str(tmp_path))


@pytest.fixture
def cluster(place):
    with place.kafka.cluster() as cluster:
        yield cluster


def begin(place, output, *, planned):
    """A checkpoint as Spark would have left it."""
    checkpoint = place.checkpoint_of(output)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": OURS}))
    for batch in range(planned + 1):
        (checkpoint / "offsets" / str(batch)).touch()


def finish(place, output, batch, ends=()):
    """As Spark leaves a batch that has come to its end."""
    checkpoint = place.checkpoint_of(output)
    about = json.dumps({"batchTimestampMs": 0, "batchWatermarkMs": 0})
    sources = [json.dumps(end.to_json()) for end in ends]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", about, *sources]))
    (checkpoint / "commits").mkdir(exist_ok=True)
    (checkpoint / "commits" / str(batch)).touch()


def made_by(place, output, **told):
    (place.directory_of(output) / FILE).write_text(json.dumps(told))


def publish(cluster, place, output, checkpoint, batch):
    """What a query of this output would have left; the publisher stays the one in force."""
    marks = place.marks_of(output)
    place.kafka.make_topic(marks, partitions=1)
    publisher = Publisher(cluster, output, name=place.id_of(output), marks=marks, late=f"{output}.late")
    publisher.open()
    publisher.publish(Marker(output, batch, checkpoint, {}), {}, aside.SCHEMA.empty_table())
    return publisher


def keep(place, output, checkpoint, batch):
    writer = place.store().writer(store.Declared(output, ("page",), KEPT), output)
    writer.claim()
    writer.apply(KEPT.empty_table(), store.Marker(output, batch, checkpoint, {}))
    writer.close()


def test_a_first_start(app, place):
    check_outputs(place, app.graph.outputs)


def test_a_start_that_goes_on(app, place, cluster):
    for output in ("stays", "pages"):
        begin(place, output, planned=4)
    publish(cluster, place, "stays", OURS, 3)
    keep(place, "pages", OURS, 4)
    check_outputs(place, app.graph.outputs)


def test_the_checkpoint_of_another_app(app, place):
    """Whose markers have that one's name: they would not be found."""
    begin(place, "stays", planned=0)
    made_by(place, "stays", app="bank", spark=spark_version)
    with pytest.raises(OtherMaker) as caught:
        check_outputs(place, app.graph.outputs)
    assert caught.value.what == 'stays cannot go on: its checkpoint is of app "bank", and this is app "shop"'
    assert "--data" in caught.value.hint
    made_by(place, "stays", app="shop", spark=spark_version)
    check_outputs(place, app.graph.outputs)
    made_by(place, "stays", spark=spark_version)  # of a Runnel that did not tell
    check_outputs(place, app.graph.outputs)


def test_what_another_app_did_not_begin_is_free(app, place):
    begin(place, "stays", planned=-1)
    made_by(place, "stays", app="bank", spark="99.0.0")
    check_outputs(place, app.graph.outputs)


def test_the_checkpoint_of_a_newer_spark(app, place):
    release, number = map(int, spark_version.split(".")[:2])
    begin(place, "pages", planned=0)
    for newer in (f"{release}.{number + 1}.0", f"{release + 1}.0.0"):
        made_by(place, "pages", app="shop", spark=newer)
        with pytest.raises(OtherMaker) as caught:
            check_outputs(place, app.graph.outputs)
        assert caught.value.what == (
            f"pages cannot go on: its checkpoint is of Spark {newer}, and this is Spark {spark_version}, which is older"
        )
    for fits in (f"{release}.{number}.99", f"{release}.{number - 1}.0", f"{release - 1}.99.0"):
        made_by(place, "pages", app="shop", spark=fits)
        check_outputs(place, app.graph.outputs)


def test_a_directory_without_a_checkpoint(app, place, cluster):
    publish(cluster, place, "stays", ANOTHER, 3)
    with pytest.raises(OtherCheckpoint, match="stays cannot go on: its output was made by checkpoint 9b01"):
        check_outputs(place, app.graph.outputs)


def test_the_checkpoint_of_another_directory(app, place, cluster):
    begin(place, "stays", planned=4)
    publish(cluster, place, "stays", ANOTHER, 3)
    with pytest.raises(OtherCheckpoint, match="and this is 7c3e"):
        check_outputs(place, app.graph.outputs)


def test_an_older_state_of_the_directory(app, place, cluster):
    begin(place, "stays", planned=4)
    publish(cluster, place, "stays", OURS, 5)
    with pytest.raises(OtherCheckpoint, match="its output is at batch 5, and the checkpoint at 4"):
        check_outputs(place, app.graph.outputs)


def test_a_view_that_another_directory_made(app, place):
    keep(place, "pages", ANOTHER, 0)
    with pytest.raises(OtherCheckpoint, match="pages cannot go on"):
        check_outputs(place, app.graph.outputs)


def test_a_view_whose_late_and_rejected_rows_another_directory_told(app, place, cluster):
    """Its rows are in that one's own file."""
    running = publish(cluster, place, "pages", ANOTHER, 0)
    with pytest.raises(OtherCheckpoint, match="pages cannot go on: its output was made by checkpoint 9b01") as caught:
        check_outputs(place, app.graph.outputs)
    assert "delete the topic runnel.shop.pages.marker" in caught.value.hint
    running.publish(Marker("pages", 1, ANOTHER, {}), {}, aside.SCHEMA.empty_table())


def test_a_view_whose_store_is_gone(app, place, cluster):
    """What it remembers is of rows that nobody has any more."""
    begin(place, "pages", planned=0)
    publish(cluster, place, "pages", OURS, 0)
    check_outputs(place, app.graph.outputs)  # the batch may have come to nothing: it is repeated
    finish(place, "pages", 0)
    with pytest.raises(ViewGone) as caught:
        check_outputs(place, app.graph.outputs)
    assert caught.value.what == (
        f"pages cannot go on: {place.directory} has nothing of it, and its checkpoint is at batch 0"
    )
    assert f"remove {place.directory_of('pages')} and delete the topic runnel.shop.pages.marker" in caught.value.hint
    keep(place, "pages", OURS, 0)
    check_outputs(place, app.graph.outputs)


def test_a_derived_stream_whose_markers_are_gone(app, place):
    begin(place, "stays", planned=3)
    finish(place, "stays", 2)
    with pytest.raises(OtherCheckpoint, match="no mark of any batch, and the checkpoint is at batch 2"):
        check_outputs(place, app.graph.outputs)


def test_a_topic_that_was_made_again(app, place, cluster):
    """The offsets that are kept mean other records now."""
    place.kafka.make_topic("clicks", partitions=1)
    place.kafka.make_topic("orders", partitions=1)
    known = cluster.topic("clicks").id
    begin(place, "stays", planned=2)
    publish(cluster, place, "stays", OURS, 2)
    finish(place, "stays", 1, [Offsets(0, {("clicks", 0): 3}, {"clicks": str(known)})])
    check_outputs(place, app.graph.outputs)

    other = {"clicks": str(known), "orders": str(known), "gone": str(known), "of an older Kafka": ""}
    finish(place, "stays", 1, [Offsets(0, {(name, 0): 3 for name in other}, other)])
    check_outputs(place, app.graph.outputs)  # it reads no others any more

    replaced = str(UUID(int=known.int ^ 1))
    finish(place, "stays", 1, [Offsets(0, {("clicks", 0): 3}, {"clicks": replaced})])
    with pytest.raises(TopicReplaced, match=f"its id is {known}, not {replaced}"):
        check_outputs(place, app.graph.outputs)


def test_nobody_is_fenced(app, place, cluster):
    running = publish(cluster, place, "stays", ANOTHER, 3)
    with pytest.raises(OtherCheckpoint):
        check_outputs(place, app.graph.outputs)
    running.publish(Marker("stays", 4, ANOTHER, {}), {}, aside.SCHEMA.empty_table())


def test_what_is_open_at_this_moment_is_not_waited_for(app, place, cluster):
    begin(place, "stays", planned=4)
    publish(cluster, place, "stays", OURS, 4)
    transaction = Transaction(cluster, place.id_of("stays"))
    transaction.init()
    transaction.begin([(place.marks_of("stays"), 0)])
    check_outputs(place, app.graph.outputs)


def test_a_copy_that_was_quicker_with_its_first_batch_is_found_out_by_the_other_ones(place):
    """Both were started before there was a mark, and both have been let in."""
    place.kafka.make_topic(place.marks_of("pages"), partitions=1)
    with place.kafka.cluster() as cluster:
        publisher = Publisher(
            cluster, "pages", name="runnel.shop.pages", marks=place.marks_of("pages"), late="pages.late"
        )
        publisher.open()
        batch = Batch("pages", ANOTHER, Moment(0, 0, 0), {}, {}, Mock(), Mock())
        PublishAside(publisher)(batch)
        publisher.open()
        with pytest.raises(OtherCheckpoint, match=f"begun by checkpoint {ANOTHER}, and this is {OURS}"):
            PublishAside(publisher)(replace(batch, checkpoint=OURS))
