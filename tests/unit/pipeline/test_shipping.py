"""Which modules travel with an app."""

from __future__ import annotations

import importlib
import sys

import pytest

from runnel.pipeline.shipping import imported_from


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A directory of modules, on the search path; what a test imports of it is forgotten."""
    directory = tmp_path.resolve() / "app"
    (directory / "parts").mkdir(parents=True)
    for name in ("alone.py", "unused.py", "parts/__init__.py", "parts/one.py"):
        (directory / name).write_text("")
    monkeypatch.syspath_prepend(directory)
    before = set(sys.modules)
    yield directory
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_what_was_imported_from_the_directory_is_found(beside):
    importlib.import_module("alone")
    importlib.import_module("parts.one")
    assert imported_from(beside) == {
        "alone": beside / "alone.py",
        "parts": beside / "parts" / "__init__.py",
        "parts.one": beside / "parts" / "one.py",
    }


def test_a_module_of_another_directory_is_not(beside, tmp_path):
    (beside / "json").mkdir()
    assert "json" not in imported_from(beside)
    assert imported_from(beside / "parts") == {}


def test_a_directory_that_is_reached_by_a_link_is_the_same(beside, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(beside)
    monkeypatch.syspath_prepend(tmp_path / "link")
    importlib.import_module("alone")
    assert imported_from(beside) == {"alone": beside / "alone.py"}
