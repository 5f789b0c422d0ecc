"""What Java is told, and what Spark's own Python processes import; a session itself is made in tests/pipeline."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.pipeline import forks, session
from runnel.pipeline.errors import JavaMissing
from runnel.pipeline.java import Java

ALONE = "local[*]"

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
    for brief, compiled in ((False, session.LONG_LIVED), (True, session.QUICKLY_COMPILED)):
        assert (session.HEAP in session.life_of(brief, ALONE)) is is_there
        assert compiled in session.life_of(brief, ALONE)


@pytest.mark.parametrize(
    ("cores", "brief", "master", "takes"),
    [
        (2, False, ALONE, True),
        (2, True, ALONE, False),
        (8, False, ALONE, False),
        (2, False, "spark://far:7077", True),
        (2, False, "local-cluster[2,1,1024]", False),
    ],
)
def test_an_app_that_goes_on_takes_its_memory_at_the_start(
    monkeypatch: pytest.MonkeyPatch, cores: int, brief: bool, master: str, takes: bool
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert (session.TAKEN_AT_ONCE in session.life_of(brief, master)) is takes


def test_the_code_of_a_brief_run_is_not_kept_small() -> None:
    """No second compiler comes after the first one."""
    assert session.LONG_LIVED not in session.life_of(brief=True, master=ALONE)


def test_the_source_is_imported_without_pandas() -> None:
    """Spark imports it in four processes, one after the other, before a first row is read."""
    program = "import sys, runnel.pipeline.source.reader; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class Started(Exception):
    pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str], dict[str, str]]]:
    """How Java was asked for: ahead or now, with what settings, in what environment."""
    found: list[tuple[str, dict[str, str], dict[str, str]]] = []

    def start(settings: dict[str, str]) -> None:
        found.append(("now", settings, dict(os.environ)))
        raise Started

    monkeypatch.setattr(session, "find_java", lambda: Java(Path("/java"), "17.0.15"))
    monkeypatch.setattr(session, "start_ahead", lambda settings: found.append(("ahead", settings, dict(os.environ))))
    monkeypatch.setattr(session, "start_java", start)
    monkeypatch.setattr(forks, "_forker", lambda: "its address")
    monkeypatch.delenv(forks.PYTHON, raising=False)
    return found


@pytest.mark.parametrize("brief", [False, True])
def test_java_starts_ahead_as_the_session_of_an_app_asks_for_it(
    asked: list[tuple[str, dict, dict]], brief: bool
) -> None:
    before = dict(os.environ)
    session.prepare_session("local[2]", brief=brief)
    with pytest.raises(Started):
        session.spark_session("shop", master="local[2]", brief=brief)
    assert (session.QUICKLY_COMPILED in asked[0][1]["spark.driver.extraJavaOptions"]) is brief
    assert [each[0] for each in asked] == ["ahead", "now"]
    assert asked[0][1:] == asked[1][1:]
    assert dict(os.environ) == before


def test_for_a_cluster_nothing_starts_ahead(asked: list[tuple[str, dict, dict]]) -> None:
    session.prepare_session("spark://host:7077")
    assert asked == []


def test_a_java_that_is_missing_is_not_told_ahead(
    asked: list[tuple[str, dict, dict]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def find() -> Java:
        raise JavaMissing("java")

    monkeypatch.setattr(session, "find_java", find)
    session.prepare_session("local[2]")
    assert asked == []
    with pytest.raises(JavaMissing):
        session.spark_session("shop", master="local[2]")


def test_a_python_that_the_user_chose_is_the_one_that_spark_runs(
    asked: list[tuple[str, dict, dict]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(forks.PYTHON, "/their/python")
    with pytest.raises(Started):
        session.spark_session("shop", master="local[2]")
    assert asked[0][2][forks.PYTHON] == "/their/python"


def test_on_a_cluster_spark_runs_this_python_unless_another_is_chosen(asked: list[tuple[str, dict, dict]]) -> None:
    with pytest.raises(Started):
        session.spark_session("shop", master="spark://host:7077")
    assert asked[0][2][forks.PYTHON] == sys.executable


@pytest.mark.parametrize("chosen", ["C", "POSIX"])
def test_java_knows_paths_with_umlauts_where_the_locale_is_c(
    asked: list[tuple[str, dict, dict]], monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    """Python takes paths for UTF-8 there, and Java would refuse them."""
    monkeypatch.setenv("LC_ALL", chosen)
    session.prepare_session("local[2]")
    assert asked[0][2]["LC_ALL"] == "C.UTF-8"
    assert os.environ["LC_ALL"] == chosen


def test_any_other_locale_stays(asked: list[tuple[str, dict, dict]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    session.prepare_session("local[2]")
    assert asked[0][2]["LC_ALL"] == "de_DE.UTF-8"
