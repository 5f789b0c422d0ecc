"""`runnel new` writes an app to start from, and nothing over what is there."""

from __future__ import annotations

import errno
import zipfile
from importlib import resources
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from runnel.app.loading import load_app
from runnel.cli.new import FILES

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_app_its_test_and_a_readme_are_written(runnel, tmp_path):
    assert runnel("new", "my-shop") == (
        0,
        "my-shop: a small app. Next: cd my-shop, pytest, runnel up my_shop.py\n",
        "",
    )
    found = {path.name: path.read_text() for path in (tmp_path / "my-shop").iterdir()}
    assert set(found) == {"my_shop.py", "test_my_shop.py", "README.md", ".gitignore"}
    assert not [name for name, text in found.items() if "NAME" in text or "MODULE" in text]
    assert "from my_shop import app" in found["test_my_shop.py"]
    assert "`test_my_shop.py`" in found["README.md"]
    assert found["README.md"].startswith("# my-shop\n")
    compile(found["test_my_shop.py"], "test_my_shop.py", "exec")


def test_the_app_can_be_loaded_and_has_its_name(runnel, tmp_path):
    runnel("new", "my-shop")
    app = load_app(tmp_path / "my-shop" / "my_shop.py")
    assert app.name == "my-shop"
    assert [output.name for output in app.graph.outputs] == ["clicks_per_minute", "long_stays"]


def test_an_empty_directory_will_do(runnel, tmp_path):
    (tmp_path / "shop").mkdir()
    assert runnel("new", "shop").code == 0
    assert (tmp_path / "shop" / "shop.py").exists()


def test_a_directory_that_cannot_be_written_is_told_with_what_to_do(runnel, monkeypatch):
    def refused(self, **_how):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refused)
    hint = "hint: go to a directory where you may write, on a disk that has room\n"
    assert runnel("new", "shop") == (1, "", f"error: shop cannot be written: Permission denied\n{hint}")


def test_a_directory_that_is_not_empty_is_left_alone(runnel, tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes").touch()
    hint = "hint: choose another name, or go to another directory\n"
    assert runnel("new", "shop") == (1, "", f"error: shop is not empty\n{hint}")
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["notes"]
    (tmp_path / "bar").touch()
    assert runnel("new", "bar") == (1, "", f"error: bar is there already, and is no directory\n{hint}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "'' cannot be an app's name: use a-z, 0-9, _ and -, a letter first."),
        ("Shop", "'Shop' cannot be an app's name"),
        ("../shop", "'../shop' cannot be an app's name"),
        ("9shop", "'9shop' cannot be an app's name"),
        ("a" * 101, "cannot be an app's name"),
        ("class", "'class' is a word of Python's: choose another one."),
        ("json", "'json' is a module that Python has already: choose another name."),
        ("runnel", "'runnel' is a module that Python has already"),
        ("confluent-kafka", "'confluent-kafka' is a module that Python has already"),
    ],
)
def test_a_name_that_will_not_do_is_told(runnel, tmp_path, name, said):
    code, out, err = runnel("new", name)
    assert (code, out) == (2, "")
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_holds_what_is_written(tmp_path):
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    held = zipfile.ZipFile(wheel).namelist()
    assert {f"runnel/cli/new_app/{name}" for name in FILES} <= set(held)
    assert {path.name for path in (resources.files("runnel.cli") / "new_app").iterdir()} == set(FILES)
