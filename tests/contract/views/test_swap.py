"""A copy takes the place of its view in every store, and what others made over the view's table does not hinder it."""

import json

import pyarrow as pa
import pytest

from runnel import App, Broker
from runnel.app.rebuilds import Rebuilds, settle_all
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.place import Place
from runnel.views.store import Declared
from tests.contract.views.clicks import QUERY, SCHEMA, claimed, marker, seen

DAYS = Declared("clicks", ("page", "day"), SCHEMA.append(pa.field("day", pa.int32())))
NEW = "checkpoint-2"


@pytest.fixture
def home(place, tmp_path):
    with Broker() as broker:
        yield Place("shop", Kafka(broker.bootstrap), tmp_path / "data", place.address)


def begin(directory, checkpoint):
    (directory / "checkpoint").mkdir(parents=True)
    (directory / "checkpoint" / "metadata").write_text(json.dumps({"id": checkpoint}))


def outputs():
    app = App("shop")
    app.view(app.stream("visits", schema="page string"), key="page", name="clicks")(lambda visits: visits)
    return app.graph.outputs


@pytest.mark.parametrize("keep_until", [None, 1], ids=["at once", "when its time is over"])
def test_an_app_starts_also_if_others_use_the_table_that_goes(home, place, store, keep_until):
    rebuilds = Rebuilds(home, "clicks")
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    begin(home.directory_of("clicks"), marker(0).checkpoint)
    with store.copy_writer(DAYS, QUERY) as writer:
        writer.claim()
        writer.apply(pa.table({"page": ["b"], "seen": [2], "day": [3]}, schema=DAYS.schema), marker(7, NEW))
    begin(rebuilds.directory / "queries" / "clicks", NEW)
    place.query("CREATE VIEW top AS SELECT page FROM clicks")
    rebuilds.swap.decide("queries/clicks", keep_until)
    for _ in range(2):
        settle_all(home, outputs())
        assert rebuilds.swap.plan is None
        assert rebuilds.kept_until is None
        with store.reader("clicks") as reader:
            assert reader.rows().to_pylist() == [{"page": "b", "seen": 2, "day": 3}]
    assert store.copy_marker("clicks") is None
    assert place.query("SELECT page FROM top") == [("b",) if place.kind == "sqlite" else ("a",)]
