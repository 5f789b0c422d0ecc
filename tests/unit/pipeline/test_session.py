"""What Java is told, and what Spark's own Python processes import; a session itself is made in tests/pipeline."""

import subprocess
import sys
from pathlib import Path

import pytest

from runnel.pipeline import session
from runnel.pipeline.java import Java

QUICK = "-Djdk.lang.Process.launchMechanism=VFORK"


@pytest.mark.parametrize(
    ("version", "is_there"), [("17.0.15", True), ("21.0.2", True), ("25", False), ("26.0.1", False)]
)
def test_java_starts_processes_without_a_helper_where_it_still_can(
    monkeypatch: pytest.MonkeyPatch, version: str, is_there: bool
) -> None:
    monkeypatch.setattr(session, "find_java", lambda: Java(Path("/java"), version))
    monkeypatch.setattr(sys, "platform", "linux")
    assert (QUICK in session.java_options().split()) is is_there


def test_only_linux_is_told_how_to_start_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_java", lambda: Java(Path("/java"), "17.0.15"))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "launchMechanism" not in session.java_options()


def test_options_that_are_added_come_last_and_empty_ones_are_left_out() -> None:
    assert session.java_options("", "-Xlog:disable").endswith(" -Xlog:disable")


@pytest.mark.parametrize(("cores", "is_there"), [(2, True), (8, False)])
def test_java_is_told_how_its_heap_begins_where_cores_are_few(
    monkeypatch: pytest.MonkeyPatch, cores: int, is_there: bool
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert (session.long_lived() == session.LONG_LIVED) is is_there


def test_the_source_is_imported_without_pandas() -> None:
    """Spark imports it in four processes, one after the other, before a first row is read."""
    program = "import sys, runnel.pipeline.source.reader; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
