"""The pages about the broker name what the code has: served versions, error codes, metrics."""

import re
from pathlib import Path

import pytest

from runnel import Broker, broker
from runnel.broker.endpoints import Endpoint
from runnel.broker.exposition import Exposition
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api, Versions

DOCS = Path(__file__).parents[3] / "docs"
PROTOCOL = (DOCS / "reference" / "protocol.md").read_text(encoding="utf-8")
WATCHING = (DOCS / "howto" / "watch-a-broker.md").read_text(encoding="utf-8")

SERVED_ROW = re.compile(r"^\| (\d+) \| ([A-Z]\w+) \| (\d+)(?: to (\d+))? \|", re.MULTILINE)
ERROR_ROW = re.compile(r"^\| (-?\d+) \| `([A-Z_]+)` \|", re.MULTILINE)
METRIC_ROW = re.compile(r"^\| `(runnel_\w+)` \| (counter|gauge) \|([^|]*)\|", re.MULTILINE)
USED = re.compile(r"ErrorCode\.([A-Z_]+)")


def api_name(key: int) -> str:
    return "".join(word.title() for word in Api(key).name.split("_"))


def test_the_table_of_the_protocol_is_what_is_served():
    told = {
        int(key): (name, Versions(int(least), int(most or least)))
        for key, name, least, most in SERVED_ROW.findall(PROTOCOL)
    }
    assert told == {int(key): (api_name(key), versions) for key, versions in SERVED.items()}


def test_every_error_that_the_broker_answers_with_is_told_with_its_code():
    sources = Path(broker.__file__).parent.rglob("*.py")
    used = {name for source in sources for name in USED.findall(source.read_text(encoding="utf-8"))} - {"NONE"}
    told = {name: int(code) for code, name in ERROR_ROW.findall(PROTOCOL)}
    assert told == {name: ErrorCode[name].value for name in used}


@pytest.fixture
def exposed():
    with Broker() as running:
        server = running._running()
        exposition = Exposition(server, Endpoint("127.0.0.1", 0))
        running.create_topic("orders")
        for counts in (server.counters.requests, server.counters.request_bytes, server.counters.answer_bytes):
            counts[Api.PRODUCE] += 1
        yield [metric for metric in exposition.registry.collect() if metric.name.startswith("runnel_")]
        exposition.close()


def test_every_metric_of_the_broker_is_told_with_its_kind(exposed):
    told = {name: kind for name, kind, _ in METRIC_ROW.findall(WATCHING)}
    shown = {f"{metric.name}_total" if metric.type == "counter" else metric.name: metric.type for metric in exposed}
    assert told == shown


def test_the_labels_of_the_metrics_are_told(exposed):
    told = {name: set(re.findall(r"`(\w+)`", labels)) for name, _, labels in METRIC_ROW.findall(WATCHING)}
    assert told == {sample.name: set(sample.labels) for metric in exposed for sample in metric.samples}
