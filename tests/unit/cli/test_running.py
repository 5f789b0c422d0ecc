"""What `runnel run` and `runnel up` share: the alerts that can be asked for, and the log."""

import json
import logging

import pytest
import typer

from runnel.cli.running import alert_rules
from runnel.cli.structured_log import JsonLines
from runnel.graph.alert import Alert


def test_alerts_have_their_listeners():
    late, lag = alert_rules(["late=5%", "lag"], "ops", "notify.sh")
    assert (late.alert, lag.alert) == (Alert.late(share=0.05), Alert.lag())
    assert (late.topic, lag.command) == ("ops", "notify.sh")
    assert alert_rules(None, None, None) == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((["early"], None, None), "kind 'early' is none"),
        ((["late=2"], None, None), "share is 2.0"),
        ((["late"], "no/topic", None), "cannot be a topic's name"),
        ((None, "ops", None), "name what to tell by --alert"),
        ((None, None, "notify.sh"), "name what to tell by --alert"),
    ],
)
def test_alerts_that_make_no_sense(given, said):
    with pytest.raises(typer.BadParameter, match=said):
        alert_rules(*given)


def test_a_call_that_makes_no_sense_ends_with_2(runnel, tmp_path):
    done = runnel("run", tmp_path / "app.py", "--alert", "early")
    assert done.code == 2
    assert "kind 'early' is none: expected one of late[=SHARE]" in " ".join(done.err.split())


def test_an_address_to_listen_on_without_a_port_is_wrong_usage_of_the_command_itself(runnel, tmp_path):
    done = runnel("up", tmp_path / "app.py", "--listen", "127.0.0.1")
    assert done.code == 2
    told = " ".join(done.err.split())
    assert "Usage: runnel up" in told
    assert "Invalid value for '--listen': '127.0.0.1' is not of the form HOST:PORT." in told
    assert not (tmp_path / ".runnel").exists()


@pytest.mark.parametrize("command", ["run", "up"])
def test_how_many_tasks_share_what_is_remembered_is_handed_on(command, runnel, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(f"runnel.cli.{command}.run_app", lambda *_, partitions, **__: asked.append(partitions))
    app, data = tmp_path / "app.py", ("--data", tmp_path / "data")
    listen = ("--listen", "127.0.0.1:0") if command == "up" else ()
    assert runnel(command, app, *data, *listen, "--partitions", "7").code == 0
    assert runnel(command, app, *data, *listen).code == 0
    assert asked == [7, None]
    assert runnel(command, app, *data, *listen, "--partitions", "0").code == 2


@pytest.mark.parametrize("command", ["run", "up"])
def test_what_is_asked_for_is_handed_on(command, runnel, tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(f"runnel.cli.{command}.run_app", lambda *_, **how: asked.update(how))
    options = ["--views", "sqlite:there", "--master", "local[3]", "--metrics", "127.0.0.1:0", "--until-caught-up"]
    options += ["--skip-gone", "--alert", "lag=5", "--alert-topic", "ops", "--alert-command", "notify.sh"]
    options += ["--listen", "127.0.0.1:0"] if command == "up" else ["--set", "client.id=me"]
    assert runnel(command, tmp_path / "app.py", "--data", tmp_path / "data", *options).code == 0
    (rule,) = asked.pop("alerts")
    assert (rule.alert, rule.outputs, rule.topic, rule.command) == (Alert.lag(records=5), None, "ops", "notify.sh")
    asked.pop("shown")
    assert asked == {
        "data": tmp_path / "data",
        "views": "sqlite:there",
        "master": "local[3]",
        "partitions": None,
        "until_caught_up": True,
        "skip_gone": True,
        "metrics": "127.0.0.1:0",
        **({"make_topics": True} if command == "up" else {"settings": {"client.id": "me"}}),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such file"),
        ("app = (", "line 1: SyntaxError"),
        ("import no_such_module", "line 1: ModuleNotFoundError"),
    ],
)
def test_a_file_that_cannot_be_loaded_starts_no_broker_and_leaves_nothing(text, said, runnel, tmp_path):
    app = tmp_path / "orders.py"
    if text is not None:
        app.write_text(text)
    done = runnel("up", app, "--listen", "127.0.0.1:0")
    assert done.code == 1
    assert done.err.startswith(f"error: {app}: {said}")
    assert done.out == ""
    assert not (tmp_path / ".runnel").exists()


def test_a_line_of_the_log_brings_its_values_as_json():
    record = logging.LogRecord("runnel", logging.INFO, "", 0, "pages: 3 rows", (), None)
    record.progress = {"in_time": 3}
    assert json.loads(JsonLines().format(record))["progress"] == {"in_time": 3}
