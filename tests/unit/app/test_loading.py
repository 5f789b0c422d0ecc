"""The app that a file declares, and files that declare none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.app.loading import NoApp, load_app

APP = 'from runnel import App\n\napp = App("shop")\n'


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """What a file leaves behind is no other test's."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("shop", None)


@pytest.mark.parametrize("name", ["json", "csv", "__main__", "runnel", "pyspark", "click"])
def test_a_file_never_takes_the_place_of_another_module(tmp_path, name):
    path = tmp_path / f"{name}.py"
    path.write_text(APP)
    before = sys.modules.get(name)
    with pytest.raises(NoApp, match=f"Python has another module of this name, {name}") as raised:
        load_app(path)
    assert raised.value.hint == f"give the file another name, such as {name.strip('_')}_app.py"
    assert sys.modules.get(name) is before
    assert str(tmp_path) not in sys.path
    assert json.loads("1") == 1


def test_two_apps_may_have_files_of_one_name(tmp_path):
    for directory in ("a", "b"):
        path = tmp_path / directory / "shop.py"
        path.parent.mkdir()
        path.write_text(APP.replace("shop", f"shop-{directory}"))
        assert load_app(path).name == f"shop-{directory}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sys.exit()", "exit code 0"),
        ("sys.exit(3)", "exit code 3"),
        ('sys.exit("give a topic")', "give a topic"),
        ("argparse.ArgumentParser().parse_args(['--no-such'])", "exit code 2"),
    ],
)
def test_a_file_that_ends_the_program_is_told_with_its_line(tmp_path, line, said):
    path = tmp_path / "shop.py"
    path.write_text(f"import argparse\nimport sys\n\n{line}\n{APP}")
    with pytest.raises(NoApp) as raised:
        load_app(path)
    assert raised.value.what == f"{path}: line 4: it ends the program: {said}"
    assert "declare the app and no more" in raised.value.hint


def test_a_signal_that_comes_meanwhile_is_not_taken_for_the_file(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(f"import os, signal\n\nos.kill(os.getpid(), signal.SIGTERM)\n{APP}")
    program = f"import sys\nsys.argv[1:] = ['run', {str(path)!r}]\nfrom runnel.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_directory_is_told_as_one(tmp_path):
    with pytest.raises(NoApp) as raised:
        load_app(tmp_path)
    assert raised.value.what == f"{tmp_path}: it is a directory"


def test_a_file_that_cannot_be_looked_at_is_told_with_what_to_do(tmp_path):
    with pytest.raises(NoApp, match=r"it cannot be read: File name too long \(name a file that can be read"):
        load_app(tmp_path / f"{'a' * 300}.py")


def test_a_file_that_is_no_python_is_named_once_however_it_was_called(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text("def clicks(:\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoApp) as raised:
        load_app(Path("shop.py"))
    assert raised.value.what == "shop.py: line 1: SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    ("written", "said"),
    [(APP.encode("utf-16"), "null bytes"), (b"# coding: klingon\n", "unknown encoding: klingon")],
    ids=["UTF-16", "an unknown encoding"],
)
def test_a_file_that_is_no_text_is_told_without_a_line(tmp_path, monkeypatch, written, said):
    (tmp_path / "shop.py").write_bytes(written)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoApp) as raised:
        load_app(Path("shop.py"))
    assert said in raised.value.what
    assert "line" not in raised.value.what
