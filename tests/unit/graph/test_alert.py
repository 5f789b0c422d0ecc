"""What an app is to tell when it happens: checked when it is declared."""

import pytest

from runnel import Alert, App
from runnel.graph.alert import Kind
from runnel.graph.errors import InvalidDeclaration

MINUTE = 60_000


@pytest.mark.parametrize(
    ("text", "alert"),
    [
        ("late", Alert.late(share=0.01)),
        ("late=5%", Alert.late(share=0.05)),
        ("late=0.05", Alert.late(share=0.05)),
        ("rejected", Alert.rejected(share=0.0)),
        ("rejected=10%", Alert.rejected(share=0.1)),
        ("lag", Alert.lag(records=100_000)),
        ("lag=500", Alert.lag(records=500)),
        ("slow", Alert.slow(batch="10 seconds")),
        ("slow=1500ms", Alert.slow(batch="1 second 500 milliseconds")),
        ("still=5m", Alert.still(lasting="5 minutes")),
        ("disk=2GiB", Alert.disk(free=2 * 1024**3)),
        ("disk=2.5 GB", Alert.disk(free=2_500_000_000)),
        ("disk=1000", Alert.disk(free=1000)),
    ],
)
def test_an_alert_can_be_typed(text, alert):
    assert Alert.parse(text) == alert


def test_an_alert_knows_its_span():
    assert Alert.late(over="2 minutes").span == 2 * MINUTE
    assert Alert.lag(lasting="0 seconds").span == 0
    assert Alert.slow("3 seconds") == Alert(Kind.SLOW, 3000)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Alert.late(share=1), "Alert.late: share is 1"),
        (lambda: Alert.late(share=-0.1), "Alert.late: share is -0.1"),
        (lambda: Alert.late(share=True), "Alert.late: share is True"),
        (lambda: Alert.late(over="soon"), "Alert.late: over 'soon' is no duration"),
        (lambda: Alert.rejected(over="0 seconds"), "Alert.rejected: over is '0 seconds'"),
        (lambda: Alert.lag(records=-1), "Alert.lag: records is -1"),
        (lambda: Alert.lag(records=1.5), "Alert.lag: records is 1.5"),
        (lambda: Alert.slow(batch=5), "Alert.slow: batch '5' is no duration"),
        (lambda: Alert.still(lasting="0s"), "Alert.still: lasting is '0s'"),
        (lambda: Alert.disk(free="much"), "Alert.disk: free is 'much'"),
        (lambda: Alert.disk(free=0), "Alert.disk: free is 0"),
        (lambda: Alert.parse("early"), "an alert: kind 'early' is none"),
        (lambda: Alert.parse("late=many"), "Alert.late: share is 'many'"),
        (lambda: Alert.parse("lag=-5"), "Alert.lag: records is '-5'"),
    ],
)
def test_what_makes_no_sense_is_refused(make, what):
    with pytest.raises(InvalidDeclaration) as refused:
        make()
    assert refused.value.what.startswith(what)
    assert refused.value.hint


@pytest.fixture
def app():
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    app.view(clicks, key="page", name="pages")(lambda clicks: clicks)
    return app


def test_an_alert_is_for_all_outputs_or_for_some(app):
    pages = app.graph.outputs[0]
    app.alert(Alert.late(), Alert.lag(records=5))
    app.alert(Alert.slow(), of=pages, topic="ops", command="notify.sh")
    app.alert(Alert.slow(), of=["pages"])
    late, lag, slow, by_name = app.alerts
    assert late.is_of("anything")
    assert lag.is_of("pages")
    assert slow.is_of("pages")
    assert not slow.is_of("other")
    assert (slow.topic, slow.command) == ("ops", "notify.sh")
    assert by_name.outputs == ("pages",)


@pytest.mark.parametrize(
    ("declare", "what"),
    [
        (lambda app: app.alert(), "alert: alerts are missing"),
        (lambda app: app.alert("late"), "alert: alerts has 'late', which is none"),
        (lambda app: app.alert(Alert.late(), of="page"), "alert: of names 'page', which is no output of the app"),
        (lambda app: app.alert(Alert.late(), of=[]), "alert: of names nothing"),
        (lambda app: app.alert(Alert.disk(), of="pages"), "alert: of is given for the disk"),
        (lambda app: app.alert(Alert.late(), topic="no/topic"), "alert: topic 'no/topic' cannot be a topic's name"),
        (lambda app: app.alert(Alert.late(), command=" "), "alert: command is ' '"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(app, declare, what):
    with pytest.raises(InvalidDeclaration) as refused:
        declare(app)
    assert refused.value.what.startswith(what)
    assert app.alerts == []
