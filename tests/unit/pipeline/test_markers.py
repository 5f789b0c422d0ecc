"""The marker of a batch: as it is written and read again, and what it says of a batch that is about to run."""

import pytest

from runnel import Broker
from runnel.client.cluster import Cluster
from runnel.client.writing import write
from runnel.pipeline import markers
from runnel.pipeline.errors import OtherCheckpoint
from runnel.pipeline.markers import Marker, is_done, read_marker
from runnel.pipeline.sinks.publisher import Publisher
from runnel.pipeline.source.aside import SCHEMA

MARKS = "marks"
READ, READ_ON = {"clicks": {"0": 40}}, {"clicks": {"0": 80}}


def test_a_marker_comes_back_as_it_was_written():
    for output in ("long_stays", ""):
        marker = Marker("long_stays", 7, "7c3e", {"clicks": {"0": 40}}, output)
        assert Marker.from_bytes("long_stays", marker.to_bytes()) == marker


def test_a_marker_of_before_that_told_its_topic_can_be_read():
    kept = b'{"batch":7,"checkpoint":"7c3e","positions":{"clicks":{"0":40}}}'
    assert Marker.from_bytes("long_stays", kept) == Marker("long_stays", 7, "7c3e", {"clicks": {"0": 40}})
    assert Marker("long_stays", 7, "7c3e", {"clicks": {"0": 40}}).to_bytes() == kept


# --- the last one


@pytest.fixture
def cluster():
    with Broker() as broker:
        broker.create_topic(MARKS, 1, configs={"cleanup.policy": "compact"})
        with Cluster(broker.bootstrap) as cluster:
            yield cluster


def mark(cluster, query, *batches):
    publisher = Publisher(cluster, query, name=query, marks=MARKS, late="late")
    publisher.open()
    for batch in batches:
        publisher.publish(Marker(query, batch, "7c3e", {}), {}, SCHEMA.empty_table())
    return publisher


def test_the_last_marker_is_found_and_not_all_that_were_before_it_are_read(cluster, monkeypatch):
    looked_at = []
    between = markers.committed_between

    def counted(cluster, place, start, end):
        looked_at.append(end - start)
        return between(cluster, place, start, end)

    monkeypatch.setattr(markers, "committed_between", counted)
    mark(cluster, "pages", *range(60))
    looked_at.clear()
    found = read_marker(cluster, MARKS, "pages")
    assert found is not None
    assert found.batch == 59
    assert sum(looked_at) <= markers.FIRST_BACK


def test_the_last_marker_of_a_query_is_found_among_those_of_another(cluster):
    assert read_marker(cluster, MARKS, "pages") is None
    mark(cluster, "pages", 0, 1, 2)
    mark(cluster, "clicks", *range(40))
    found = read_marker(cluster, MARKS, "pages")
    assert found is not None
    assert found.batch == 2
    assert read_marker(cluster, MARKS, "nobody") is None


def test_a_marker_that_was_not_committed_is_none(cluster):
    publisher = mark(cluster, "pages", 0, 1)
    ticket = publisher.begin(())
    write(cluster, ticket, publisher._last(Marker("pages", 2, "7c3e", {}), SCHEMA.empty_table()))
    publisher.abort_quietly()
    found = read_marker(cluster, MARKS, "pages")
    assert found is not None
    assert found.batch == 1


def done(batch, marker, positions=READ):
    return is_done("long_stays", batch, "7c3e", positions, marker)


def test_the_first_batch_needs_no_marker_and_the_next_one_that_of_the_one_before():
    assert not done(0, None)
    assert not done(8, Marker("long_stays", 7, "7c3e", READ), READ_ON)


@pytest.mark.parametrize("batch", [0, 7])
def test_a_batch_whose_marker_is_there_is_done(batch):
    assert done(batch, Marker("long_stays", batch, "7c3e", READ))


@pytest.mark.parametrize(
    ("batch", "marker", "says"),
    [
        (1, None, "its output has no mark of any batch, and the checkpoint is at batch 1"),
        (0, Marker("long_stays", 0, "9b01", READ), "its output was made by checkpoint 9b01, and this is 7c3e"),
        (8, Marker("long_stays", 7, "9b01", READ), "its output was made by checkpoint 9b01, and this is 7c3e"),
        (8, Marker("long_stays", 9, "7c3e", READ), "its output is at batch 9, and the checkpoint at batch 8"),
        (8, Marker("long_stays", 6, "7c3e", READ), "its output is at batch 6, and the checkpoint at batch 8"),
        (8, Marker("long_stays", 8, "7c3e", READ_ON), "its output has read other records in batch 8 than"),
    ],
)
def test_a_marker_that_is_missing_or_not_that_of_the_checkpoint_is_an_error(batch, marker, says):
    with pytest.raises(OtherCheckpoint) as told:
        done(batch, marker)
    assert told.value.what.startswith(f"long_stays cannot go on: {says}")
