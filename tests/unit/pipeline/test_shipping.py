"""Which modules travel with an app."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from runnel.pipeline import shipping
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


def test_what_is_imported_inside_of_a_function_is_found_before_it_is_called(beside):
    """So are the modules that those import, and the whole of a package."""
    own = beside / "shop.py"
    own.write_text("import json\n\n\ndef body(clicks):\n    from later import twice\n    return twice(clicks)\n")
    (beside / "later.py").write_text(
        "def twice(clicks):\n    import parts.one\n    import random\n    import missing\n"
    )
    (beside / "random.py").write_text("")  # of which Python has its own, and has imported it
    (beside / "parts" / "two.py").write_text("from . import one")
    importlib.import_module("parts.one")
    assert shipping.beside(own) == {
        "later": beside / "later.py",
        "parts": beside / "parts" / "__init__.py",
        "parts.one": beside / "parts" / "one.py",
        "parts.two": beside / "parts" / "two.py",
    }


def test_a_file_that_cannot_be_read_as_python_imports_nothing(beside):
    (beside / "shop.py").write_text("import broken")
    (beside / "broken.py").write_text("import unused\nthis is no Python")
    assert shipping.beside(beside / "shop.py") == {"broken": beside / "broken.py"}
    assert shipping.beside(beside / "notebook") == {}


def test_what_is_installed_beside_a_body_does_not_travel():
    """Workers have it; a zip file would have the Python of a package, and not its libraries."""
    assert shipping.beside(Path(pytest.__file__).resolve().parents[1] / "one_module.py") == {}
    assert shipping.beside(Path(json.__file__).resolve().parents[1] / "functools.py") == {}
