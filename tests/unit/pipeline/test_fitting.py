"""What fits a checkpoint, and what does not, by what was written down. With real plans: tests/pipeline."""

import logging

import pytest

from runnel import App
from runnel.pipeline.errors import NoLongerFits
from runnel.pipeline.fitting import FILE, Fitting
from runnel.pipeline.source.spec import Spec

STREAM = {"kind": "stream", "name": "clicks", "columns": {"page": "string"}, "topics": None, "time": "at"}
TABLE = {"kind": "table", "name": "pages", "columns": {"page": "string"}, "changes": False, "key": ["page"]}
THEN = {
    "spark": "4.3.0",
    "inputs": [STREAM, TABLE],
    "key": ["page"],
    "columns": {"page": "string", "count": "bigint"},
    "remembers": [{"operator": "Aggregate", "keys": ["page: string"], "values": ["count"]}],
}
OTHER = [{"operator": "Aggregate", "keys": ["page: string"], "values": ["sum"]}]


@pytest.fixture
def fitting(tmp_path):
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    view = app.view(clicks, key="page", name="pages")(lambda clicks: clicks)
    found = Fitting(view, tmp_path / "new" / "pages")
    found.keep(THEN)
    return found


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"inputs": [STREAM]}, "its inputs were stream clicks, table pages and are now stream clicks"),
        ({"inputs": [{**STREAM, "time": None}, TABLE]}, "the time of stream clicks was at and is now none"),
        ({"inputs": [STREAM, {**TABLE, "key": ["id"]}]}, "the key of table pages was page and is now id"),
        ({"inputs": [STREAM, {**TABLE, "columns": {}}]}, "the column of table pages page is gone"),
        ({"key": ["count"]}, "its key was page and is now count"),
        ({"columns": {"page": "string"}}, "its column count is gone"),
        ({"columns": {"page": "int", "count": "bigint"}}, "its column page was string and is now int"),
        ({"remembers": []}, "it remembered Aggregate and would now remember nothing"),
        ({"remembers": OTHER}, "what Aggregate remembers has changed"),
    ],
)
def test_what_does_not_fit_is_named(fitting, changed, what):
    with pytest.raises(NoLongerFits, match=what) as raised:
        fitting.check({**THEN, **changed}, is_begun=True)
    assert "`runnel rebuild pages APP.py`" in raised.value.hint
    fitting.check({**THEN, **changed}, is_begun=False)


def test_the_inputs_can_be_compared_before_anything_is_known_of_the_result(fitting, tmp_path):
    app = App("shop")
    nouns = [app.stream(name, schema="page string") for name in ("clicks", "n")]
    specs = tuple(
        Spec("pages", number, "", noun.topic, noun.columns, noun.reading, str(tmp_path), time=noun.time)
        for number, noun in enumerate(nouns)
    )
    with pytest.raises(NoLongerFits, match="stream clicks, table pages and are now stream clicks, stream n"):
        fitting.check_inputs(specs, is_begun=True)
    fitting.check_inputs(specs, is_begun=False)
    Fitting(fitting._output, tmp_path / "other").check_inputs(specs, is_begun=True)  # older than what is kept


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"inputs": [{**STREAM, "columns": {"page": "string", "id": "int"}}, TABLE]}, "has a new column, id"),
        ({"inputs": [{**STREAM, "columns": {}}, TABLE]}, "the column of stream clicks page is gone"),
        ({"columns": {**THEN["columns"], "more": "int"}}, "it has a new column, more"),
        ({"spark": "4.4.0", "remembers": OTHER}, "its checkpoint is of Spark 4.3.0, and this is 4.4.0"),
    ],
)
def test_what_fits_is_told(fitting, changed, what, caplog):
    caplog.set_level(logging.INFO)
    fitting.check({**THEN, **changed}, is_begun=True)
    assert what in caplog.text


def test_what_has_not_changed_is_not_told_and_not_written_again(fitting, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "new" / "pages" / FILE
    before = path.stat().st_ino
    fitting.check(THEN, is_begun=True)
    fitting.keep(THEN)
    assert path.stat().st_ino == before
    assert not caplog.text
