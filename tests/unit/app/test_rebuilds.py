"""How the app and who rebuilds one of its views speak with each other, without Spark."""

import subprocess
import sys
import textwrap

import pytest

from runnel import App
from runnel.app.code import code_of, keep_code, last_code
from runnel.app.owner import LOCK
from runnel.app.rebuild import NotRebuilt, Peace, discard, view_of
from runnel.app.rebuilds import RebuildRuns, Rebuilds, settle_all, size_of
from runnel.app.runner import Running, place_of
from runnel.files import DiskFiles

HOLDING = """
import sys
from runnel.files import DiskFiles
lock = DiskFiles().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def shop(times=1):
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    app.view(clicks, key="page", name="pages")(lambda clicks: clicks.select(times))
    return app


@pytest.fixture
def running(tmp_path):
    return Running("127.0.0.1:1", tmp_path)


@pytest.fixture
def rebuilds(running):
    found = Rebuilds(place_of(shop(), running), "pages")
    with found.owned():
        pass
    return found


@pytest.fixture
def held(rebuilds):
    """By another process, which lives."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDING), str(rebuilds.directory / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_request_of_one_who_is_gone_is_taken_back(rebuilds):
    rebuilds.ask()
    rebuilds.release()
    assert rebuilds.settle()
    assert not rebuilds.is_asked
    assert not rebuilds.is_released


def test_a_request_of_one_who_lives_is_waited_for(rebuilds, held):
    assert rebuilds.settle()
    rebuilds.ask()
    assert not rebuilds.settle()
    assert rebuilds.is_asked
    settle_all(place_of(shop(), Running("", rebuilds.directory.parents[1])), shop().graph.outputs, lambda: True)
    held.kill()
    held.wait()
    settle_all(place_of(shop(), Running("", rebuilds.directory.parents[1])), shop().graph.outputs)
    assert not rebuilds.is_asked


def test_two_cannot_rebuild_one_view(rebuilds, held):
    with pytest.raises(RebuildRuns, match=f"by process {held.pid}"), rebuilds.owned():
        pass


def test_where_no_app_runs_nobody_is_asked_and_none_can_start(rebuilds, tmp_path):
    with Peace(rebuilds, tmp_path) as peace:
        assert peace.is_granted()
        assert not rebuilds.is_asked
        assert DiskFiles().lock(str(tmp_path / LOCK)) is None
    DiskFiles().lock(str(tmp_path / LOCK)).release()


def test_where_an_app_runs_it_is_asked_and_goes_on_afterwards(rebuilds, tmp_path):
    lock = DiskFiles().lock(str(tmp_path / LOCK))
    with Peace(rebuilds, tmp_path) as peace:
        assert not peace.is_granted()
        assert rebuilds.is_asked
        rebuilds.release()
        assert peace.is_granted()
    assert not rebuilds.is_asked
    lock.release()


def test_what_is_kept_is_removed_when_told_and_after_its_time(rebuilds, running):
    old = rebuilds.directory / "old" / "checkpoint"
    old.mkdir(parents=True)
    (old / "metadata").write_text('{"id": "1"}')
    (rebuilds.directory / "kept.json").write_text('{"until": 99999999999999, "checkpoint": "1"}')
    rebuilds.settle()
    assert rebuilds.kept_until == 99999999999999
    assert rebuilds.kept_bytes == size_of(rebuilds.directory / "old") == 11
    assert discard(shop(), "pages", running) == 11
    assert rebuilds.kept_until is None
    (rebuilds.directory / "kept.json").write_text('{"until": 1, "checkpoint": "1"}')
    rebuilds.settle()
    assert rebuilds.kept_until is None


def test_the_view_must_be_one():
    with pytest.raises(NotRebuilt, match="app \"shop\" has no view 'other'") as raised:
        view_of(shop(), "other", "cannot be rebuilt")
    assert raised.value.hint == "it has: pages"


def test_code_is_told_apart_by_the_body_and_what_it_closes_over(tmp_path):
    (one,), (other,), (again,) = shop(1).graph.outputs, shop(2).graph.outputs, shop(1).graph.outputs
    assert code_of(one) == code_of(again) != code_of(other)
    assert last_code(tmp_path / "new") is None
    keep_code(tmp_path / "new", code_of(one))
    assert last_code(tmp_path / "new") == code_of(one)
