"""What is told before Spark is started. Runs with Spark stand in tests/pipeline."""

import pytest

from runnel import App, Broker
from runnel.app.local_broker import local_broker
from runnel.app.runner import Runner, Running
from runnel.client import Admin
from runnel.client.errors import UnknownTopic, Unreachable
from runnel.errors import DirectoryOwned, Permanent
from runnel.files import DiskFiles


@pytest.fixture
def app():
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    app.view(clicks, key="page", name="pages")(lambda clicks: clicks)
    return app


def test_a_missing_topic(app, tmp_path):
    with Broker(settings={"auto.create.topics.enable": False}) as broker, pytest.raises(UnknownTopic, match="clicks"):
        Runner(app, Running(broker.bootstrap, tmp_path)).run()


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
