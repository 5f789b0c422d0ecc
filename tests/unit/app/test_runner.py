"""What is told before Spark is started. Runs with Spark stand in tests/pipeline."""

from pathlib import Path

import pytest

from runnel import App, Broker, Text, Writing
from runnel.app import runner
from runnel.app.local_broker import local_broker
from runnel.app.runner import Runner, Running
from runnel.client import Admin, Producer
from runnel.client.errors import UnknownTopic, Unreachable
from runnel.errors import DirectoryOwned, Permanent, UnusableDirectory
from runnel.files import DiskFiles
from runnel.pipeline.errors import JavaMissing


@pytest.fixture
def app():
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    app.view(clicks, key="page", name="pages")(lambda clicks: clicks)
    return app


def test_a_missing_topic(app, tmp_path):
    with Broker(settings={"auto.create.topics.enable": False}) as broker, pytest.raises(UnknownTopic, match="clicks"):
        Runner(app, Running(broker.bootstrap, tmp_path)).run()


def test_a_missing_topic_of_a_table(tmp_path):
    app = App("shop")
    customers = app.table("customers", key="id", schema="id long")
    app.view(customers.changes(), key="id", name="copy")(lambda changes: changes)
    settings = {"auto.create.topics.enable": False}
    with Broker(settings=settings) as broker, pytest.raises(UnknownTopic, match="customers"):
        Runner(app, Running(broker.bootstrap, tmp_path)).run()


@pytest.mark.parametrize("data", ["/proc/runnel", "/proc/self"])
def test_a_directory_that_cannot_be_made_or_written(app, data):
    with pytest.raises(UnusableDirectory, match=f"{data} cannot be used as a data directory: ") as refused:
        Runner(app, Running("127.0.0.1:1", Path(data))).run()
    assert refused.value.hint == "name one that can be written by who runs the app, on a disk that is not read-only"


def test_what_is_declared_over_the_topic_of_an_output_is_not_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    table = app.table("prices", key="page", schema="page string, price int")
    app.view(clicks, table, key="page", name="visits")(lambda clicks, prices: clicks.join(prices, "page"))

    @app.stream(clicks, key="page", write=Writing(partitions=3))
    def prices(clicks):
        return clicks

    settings = {"auto.create.topics.enable": False}
    with Broker(settings=settings) as broker, Admin(broker.bootstrap) as admin:
        admin.create("clicks", partitions=1)
        with pytest.raises(JavaMissing):
            Runner(app, Running(broker.bootstrap, tmp_path)).run()
        assert len(admin.topic("prices").partitions) == 3


@pytest.mark.parametrize("make_topics", [True, False])
def test_what_outputs_put_aside_is_not_missing_and_takes_their_largest_records(tmp_path, monkeypatch, make_topics):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    app = App("shop")
    clicks = app.stream("clicks", schema="page string, at timestamp", time="at", late="1 second")
    app.view(clicks, key="page", name="pages")(lambda clicks: clicks)
    for number, side in enumerate(("pages.late", "clicks.rejected", "clicks.rejected.rejected")):
        app.view(app.stream(side, schema=Text()), key="value", name=f"side_{number}")(lambda side: side)
    settings = {"auto.create.topics.enable": False, "num.partitions": 3}
    with Broker(settings=settings) as broker, Admin(broker.bootstrap) as admin:
        admin.create("clicks", partitions=2, configs={"max.message.bytes": "2000000"})
        with pytest.raises(JavaMissing):
            Runner(app, Running(broker.bootstrap, tmp_path, make_topics=make_topics)).run()
        sides = ["pages.late", "clicks.rejected", "clicks.rejected.rejected"]
        assert [len(admin.topic(side).partitions) for side in sides] == [1, 1, 1]
        limits = {name: {each.name: each.value for each in told} for name, told in admin.configs(sides).items()}
        assert all(int(limits[side]["max.message.bytes"]) > 2_000_000 for side in sides)


def test_topics_that_are_missing_are_made_if_wished(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    pages = app.table("pages", key="page", schema="page string")
    app.view(clicks, pages, key="page", name="visits")(lambda clicks, pages: clicks.join(pages, "page"))
    with Broker(settings={"auto.create.topics.enable": False}) as broker, Admin(broker.bootstrap) as admin:
        with pytest.raises(JavaMissing):
            Runner(app, Running(broker.bootstrap, tmp_path, make_topics=True)).run()
        assert {"clicks", "pages"} <= {topic.name for topic in admin.topics()}
        configs = admin.configs(["clicks", "pages"])
    policies = {name: {each.name: each.value for each in found}["cleanup.policy"] for name, found in configs.items()}
    assert policies == {"clicks": "delete", "pages": "compact"}


def test_a_broker_that_is_not_there(app, tmp_path):
    with Broker() as broker:
        address = broker.bootstrap
    with pytest.raises(Unreachable):
        Runner(app, Running(address, tmp_path)).run()


def test_a_directory_that_another_run_has(app, tmp_path):
    lock = DiskFiles().lock(str(tmp_path / "lock"))
    with pytest.raises(DirectoryOwned):
        Runner(app, Running("127.0.0.1:1", tmp_path)).run()
    lock.release()


def test_an_app_without_outputs(tmp_path):
    with pytest.raises(Permanent, match='app "shop" has nothing to run'):
        Runner(App("shop"), Running("127.0.0.1:1", tmp_path))


def test_a_broker_beside_the_app_makes_its_directory_and_ends_with_it(tmp_path):
    with local_broker(tmp_path / "new" / "log", "127.0.0.1:0") as bootstrap, Admin(bootstrap) as admin:
        assert admin.topics() == []
    assert (tmp_path / "new" / "log").is_dir()
    with pytest.raises(Unreachable):
        Admin(bootstrap)


@pytest.mark.parametrize(("few", "until_caught_up", "brief"), [(3, True, True), (2, True, False), (3, False, False)])
def test_java_prepares_for_a_brief_life_where_a_run_ends_after_few_records(
    app, tmp_path, monkeypatch, few, until_caught_up, brief
):
    asked = []

    def start(_name, *, master, brief):
        asked.append((master, brief))
        raise JavaMissing("java")

    monkeypatch.setattr(runner, "spark_session", start)
    monkeypatch.setattr(runner, "FEW", few)
    with Broker() as broker, Producer(broker.bootstrap) as producer:
        for _ in range(3):
            producer.send("clicks", b'{"page": "tea"}')
        producer.flush()
        with pytest.raises(JavaMissing):
            Runner(app, Running(broker.bootstrap, tmp_path, until_caught_up=until_caught_up)).run()
    assert asked == [("local[*]", brief)]
