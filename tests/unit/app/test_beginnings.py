"""Which topics a view reads, and where its copy begins."""

import json
import os

import pytest

from runnel import App, Reading
from runnel.app.beginnings import Topics, begin_where_it_began, topics_of, topics_of_before


def stream(name, topics=None):
    return {"kind": "stream", "name": name, "topics": topics}


def began(directory, *inputs, **starts):
    """A view with these inputs, the N-th of which began with what is said as `_N`."""
    directory.mkdir(exist_ok=True)
    (directory / "declared.json").write_text(json.dumps({"inputs": list(inputs)}))
    for number, topics in starts.items():
        told = {topic: {"id": f"id of {topic}", "next": at} for topic, at in topics.items()}
        path = directory / f"start-{number.removeprefix('_')}.json"
        path.write_text(json.dumps({"input": int(number.removeprefix("_")), "topics": told, "idle": 0}))


@pytest.fixture
def begun(tmp_path):
    """Where the copy's inputs begin, by their numbers."""

    def begin(*inputs):
        own = tmp_path / "own"
        own.mkdir()
        begin_where_it_began(tmp_path / "before", own, inputs)
        found = {path.name: json.loads(path.read_text()) for path in own.iterdir()}
        assert found == {f"start-{told['input']}.json": told for told in found.values()}
        return {told["input"]: {name: each["next"] for name, each in told["topics"].items()} for told in found.values()}

    return begin


def test_an_input_at_another_place_begins_where_its_topic_began(tmp_path, begun):
    began(tmp_path / "before", stream("clicks"), stream("users"), _0={"clicks": {"0": 7}}, _1={"users": {"0": 3}})
    new = Topics(0, "new", None), Topics(1, "users", None), Topics(2, "clicks", None)
    assert begun(*new) == {1: {"users": {"0": 3}}, 2: {"clicks": {"0": 7}}}


def test_an_input_with_a_pattern_begins_where_its_topics_began(tmp_path, begun):
    began(tmp_path / "before", stream("all", "clicks-.*"), _0={"clicks-a": {"0": 7}, "clicks-b": {"1": 9}})
    assert begun(Topics(1, "all", "clicks-.*")) == {1: {"clicks-a": {"0": 7}, "clicks-b": {"1": 9}}}


def test_what_a_pattern_found_on_the_way_is_read_from_its_first_record(tmp_path, begun):
    began(tmp_path / "before", stream("all", "clicks-.*"), _0={})
    assert begun(Topics(0, "all", "clicks-.*"), Topics(1, "clicks-a", None), Topics(2, "other", None)) == {0: {}, 1: {}}


def test_names_become_a_pattern_and_a_pattern_names(tmp_path, begun):
    began(
        tmp_path / "before",
        stream("clicks-a"),
        stream("all", "users-.*"),
        _0={"clicks-a": {"0": 7}},
        _1={"users-a": {"0": 1}, "users-b": {"0": 2}},
    )
    assert begun(Topics(0, "clicks", "clicks-.*"), Topics(1, "users-b", None)) == {
        0: {"clicks-a": {"0": 7}},
        1: {"users-b": {"0": 2}},
    }


def test_of_a_topic_that_was_read_twice_the_earlier_beginning_counts(tmp_path, begun):
    twice = {"_0": {"clicks": {"0": 7, "1": 1}}, "_1": {"clicks": {"0": 5, "1": 2}}}
    began(tmp_path / "before", stream("clicks"), stream("clicks"), **twice)
    assert begun(Topics(0, "clicks", None)) == {0: {"clicks": {"0": 5, "1": 1}}}


def test_a_view_that_is_read_is_no_topic(tmp_path, begun):
    began(tmp_path / "before", {"kind": "view", "name": "pages", "changes": True}, _0={"view:pages": {"0": 5}})
    assert begun(Topics(0, "all", ".*")) == {}


def test_the_topics_of_a_view_are_those_with_a_position(tmp_path):
    app = App("shop")
    clicks = app.stream("clicks", schema="page string", read=Reading(topics="clicks-.*"))
    users = app.table("users", schema="id int", key="id")
    pages = app.view(clicks, key="page", name="pages")(lambda clicks: clicks)
    view = app.view(users, pages.changes(), users.changes(), clicks, key="page", name="all")(lambda *_: None)
    assert topics_of(view.inputs) == (Topics(2, "users", None), Topics(3, "clicks", "clicks-.*"))
    table = {"kind": "table", "name": "users", "changes": False}
    began(tmp_path, table, {"kind": "view", "name": "pages"}, {**table, "changes": True}, stream("clicks", "clicks-.*"))
    assert topics_of_before(tmp_path) == topics_of(view.inputs)
    assert topics_of_before(tmp_path / "older") == ()


def test_a_pattern_does_not_read_what_was_put_aside():
    topics = Topics(0, "clicks", "clicks.*")
    assert "clicks-a" in topics
    assert "clicks.rejected" not in topics
    assert "a-clicks" not in topics


def test_where_a_copy_begins_is_on_the_disk_before_it_begins(tmp_path, begun, monkeypatch):
    synced = []
    sync = os.fdatasync

    def note(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", note)
    began(tmp_path / "before", stream("clicks"), _0={"clicks": {"0": 7}})
    begun(Topics(0, "clicks", None))
    assert (tmp_path / "own" / "start-0.json").stat().st_ino in synced
