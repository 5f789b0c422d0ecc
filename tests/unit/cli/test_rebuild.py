"""What `runnel rebuild`, `rollback` and `replay` say where they cannot."""

import pytest

from runnel import Broker

APP = """
from runnel import App
app = App("shop")
clicks = app.stream("clicks", schema="page string")
@app.view(clicks, key="page")
def pages(clicks):
    return clicks
@app.stream(clicks)
def stays(clicks):
    return clicks
"""


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(APP)
    return path


@pytest.mark.parametrize(
    ("arguments", "what", "hint"),
    [
        ("rebuild other", "app \"shop\" has no view 'other'", "it has: pages"),
        ("rebuild stays", 'stream "stays" cannot be rebuilt: others have read its topic', "`runnel replay stays"),
        ("rollback stays", 'stream "stays" cannot be rolled back: others have read its topic', "`runnel replay stays"),
        ("rollback stays --discard", 'stream "stays" has no copy: others have read its topic', "`runnel replay stays"),
        ("replay pages --from 1d --to-topic x", "pages is a view, and has no topic", "`runnel rebuild pages APP.py`"),
        ("replay stays --from 1d --to-topic clicks", "clicks is a topic of the app itself", "name another one"),
        ("replay other --from 1d --to-topic x", "derives no stream 'other'", "it derives: stays"),
    ],
)
def test_what_is_not_there_or_cannot_be(runnel, app, arguments, what, hint):
    command, name, *options = arguments.split()
    code, _, err = runnel(command, name, app, *options)
    assert code == 1
    assert what in err
    assert f"hint: {hint}" in err


def test_a_view_that_was_never_built(runnel, app):
    with Broker() as broker:
        code, _, err = runnel("rebuild", "pages", app, "--bootstrap", broker.bootstrap)
        assert code == 1
        assert "error: pages has nothing to be rebuilt: no batch of it was ever done" in err
        code, _, err = runnel("rollback", "pages", app, "--bootstrap", broker.bootstrap)
    assert code == 1
    assert "error: pages has nothing to be rolled back: no batch of it was ever done" in err


@pytest.mark.parametrize("arguments", ["--from yesterday --to-topic x", "--from 1d", "--to-topic x"])
def test_a_replay_that_makes_no_sense(runnel, app, arguments):
    assert runnel("replay", "stays", app, *arguments.split()).code == 2


def test_partitions_are_a_number_above_0(runnel, app):
    assert runnel("rebuild", "pages", app, "--partitions", "0").code == 2


@pytest.fixture
def nobody_waits(monkeypatch):
    """For a broker that does not answer."""
    monkeypatch.setattr("runnel.client.cluster.Cluster.settled", lambda *_: pytest.fail("it is waited for"))


@pytest.mark.usefixtures("nobody_waits")
def test_where_no_broker_answers_the_log_of_an_app_that_was_up_is_named(runnel, app):
    replay = ("replay", "stays", app, "--from", "1d", "--to-topic", "x", "--bootstrap", "127.0.0.1:1")
    _, _, before = runnel(*replay)
    assert "\nhint: start one with `runnel broker start`, or give the address of another\n" in before
    log = app.parent / ".runnel" / "log"
    log.mkdir(parents=True)
    code, _, err = runnel(*replay)
    assert code == 1
    assert f"`runnel broker start --data {log}` serves its log" in err
