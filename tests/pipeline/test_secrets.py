"""What Spark shows of a query has no password in it: its plans, its progress, and what it says when it fails."""

from __future__ import annotations

import base64
import json
import re

import pytest
from pyspark.sql.types import StructType

from runnel import App, Broker
from runnel.client import Producer
from runnel.pipeline.view_inputs.frames import frame_of
from runnel.pipeline.view_inputs.spec import ViewSpec
from tests.pipeline.scene import Scene
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

PASSWORD = "correct horse battery staple"
WORD = re.compile(r"[A-Za-z0-9+/]{16,}")


def tells(text):
    """Whether the password is in there, plain, or in a word that is base64."""
    decoded = [base64.b64decode(word[: len(word) // 4 * 4]) for word in WORD.findall(text)]
    return PASSWORD in text or any(PASSWORD.encode() in each for each in decoded)


def test_an_app_does_not_show_its_password(spark, tmp_path, capsys):
    app = App("shop")
    clicks = app.stream("clicks", schema="page string, n int")
    pages = app.table("pages", key="page", schema="page string, title string")

    @app.stream(clicks, pages)
    def titles(clicks, pages):
        return clicks.join(pages, "page")

    @app.view(pages.changes(), key="page")
    def known(changes):
        return changes.select("page", "title", "_change")

    with Broker() as broker:
        for topic in ("clicks", "pages"):
            broker.create_topic(topic, 1)
        with Producer(broker.bootstrap) as producer:
            producer.produce("clicks", json.dumps({"page": "a", "n": 1}).encode())
            producer.produce("pages", json.dumps({"page": "a", "title": "A"}).encode(), key=b"a")
        scene = Scene(broker, spark, tmp_path)
        with scene.live(app, settings={"sasl.password": PASSWORD}) as queries:
            wait_until(lambda: all(query.is_well and query.done for query in queries.values()))
            for query in queries.values():
                assert tells(query.specs[0].to_text()), "or this test could not fail"
                query.frame.explain(extended=True)
                print(query._started._jsq.explainInternal(True))
                print(query._started.lastProgress.json)
    shown = capsys.readouterr().out
    assert shown.count("== Optimized Logical Plan ==") == 4
    assert "redacted" in shown
    assert not tells(shown)


def test_the_address_of_a_store_is_not_shown(spark, tmp_path, capsys):
    columns = StructType.fromDDL("page string")
    address = f"postgresql://shop:{PASSWORD}@nowhere/views"
    spec = ViewSpec("counts", 0, "pages", address, columns, str(tmp_path), changes=True)
    assert tells(spec.to_text())
    frame_of(spark, spec).explain(extended=True)
    assert not tells(capsys.readouterr().out)
