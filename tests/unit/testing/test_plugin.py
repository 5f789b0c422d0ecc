"""The fixtures of the kit, and what they cost who does not use them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import runnel.testing
from runnel.testing import pytest_plugin

TEST = """
def test_something(runnel_play):
    raise AssertionError("it was called")
"""


def test_whoever_does_not_play_does_not_load_spark():
    program = "import sys, runnel.testing, runnel.testing.pytest_plugin\nprint('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_public_name_is_there():
    for name in runnel.testing.__all__:
        assert getattr(runnel.testing, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Spieler'"):
        _ = runnel.testing.Spieler


def test_without_java_a_test_fails_and_says_so(tmp_path, monkeypatch):
    (tmp_path / "test_app.py").write_text(TEST)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert "JavaMissing" in done.stdout
    assert "it was called" not in done.stdout


def test_every_public_name_is_in_the_reference():
    page = (Path(__file__).parents[3] / "docs/reference/testing.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(\w+)|, `(\w+)` \|", page, re.MULTILINE))
    words = {word for found in described for word in found}
    assert [name for name in runnel.testing.__all__ if name not in words] == []
    fixtures = re.findall(r"^def (runnel_\w+)", Path(pytest_plugin.__file__).read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in fixtures if f"`{name}`" not in page] == []
    public = [name for name in vars(runnel.testing.Played) if not name.startswith("_")]
    assert [name for name in public if f"`Played.{name}" not in page] == []
