"""The archive of Spark's classes, as a file: when it counts and when it is thrown away. `make` is tried with Spark."""

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runnel.pipeline import class_archive
from runnel.pipeline.class_archive import DAY, UNUSED, VARIABLE, ClassArchive
from runnel.pipeline.java import Java

JAVA = Java(Path("/usr/bin/java"), "17.0.15")


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home" / "jars").mkdir(parents=True)
    (tmp_path / "home" / "jars" / "spark.jar").write_bytes(b"jar")
    return tmp_path / "home"


@pytest.fixture
def archive(tmp_path, home):
    return ClassArchive(JAVA, home, tmp_path / "cache")


def keep(archive, content=b"classes" * 1000):
    archive.path.parent.mkdir(exist_ok=True)
    made = archive.path.parent / "made.jsa"
    made.write_bytes(content)
    archive._keep(made)


def test_there_is_none_at_first(archive):
    assert archive.options() == ""


def test_one_that_was_kept_is_used(archive):
    keep(archive)
    assert archive.options() == f"-XX:SharedArchiveFile={archive.path}"


def test_the_name_of_its_directory_may_have_spaces(home, tmp_path):
    archive = ClassArchive(JAVA, home, tmp_path / "my cache")
    keep(archive)
    assert archive.options() == f'"-XX:SharedArchiveFile={archive.path}"'


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-1], lambda content: b"x" + content[1:], lambda content: b""]
)
def test_one_that_was_damaged_is_thrown_away(archive, damage):
    keep(archive)
    archive.path.write_bytes(damage(archive.path.read_bytes()))
    assert archive.options() == ""
    assert not archive.path.exists()


def test_one_whose_note_is_missing_or_broken_is_thrown_away(archive):
    for note in (None, "{", json.dumps({"size": 1})):
        keep(archive)
        described = archive.path.with_suffix(".json")
        described.unlink() if note is None else described.write_text(note)
        assert not archive.is_whole()


def test_another_java_spark_or_class_path_has_another_archive(archive, home, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    others = [ClassArchive(JAVA._replace(version="21"), home, cache), ClassArchive(JAVA, tmp_path, cache)]
    (home / "jars" / "more.jar").write_bytes(b"")
    others.append(ClassArchive(JAVA, home, cache))
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    others.append(ClassArchive(JAVA, home, cache))
    assert len({each.path for each in (archive, *others)}) == 5


def test_that_none_can_be_made_is_no_failure(home, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file where the directory should be")
    assert not ClassArchive(JAVA, home, tmp_path / "cache").make()
    assert "no archive of Spark's classes could be made" in caplog.text


# --- in the background


@pytest.fixture
def makers(archive, monkeypatch):
    """The processes that were started to make it; each makes one that can be used."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(class_archive, "_makers", started := [])
    monkeypatch.setattr(class_archive, "MAKER", (sys.executable, "-c", "pass"))
    yield started
    for each in started:
        assert each.wait(60) == 0


def test_one_that_is_missing_is_made_by_a_process_that_nobody_waits_for(archive, makers):
    archive.make_later()
    assert len(makers) == 1
    assert os.getsid(makers[0].pid) != os.getsid(0) or makers[0].poll() is not None


def test_one_that_is_there_is_not_made_again(archive, makers):
    keep(archive)
    archive.make_later()
    assert makers == []


def test_none_is_made_where_the_environment_says_so(archive, makers, monkeypatch):
    monkeypatch.setenv(VARIABLE, "off")
    archive.make_later()
    assert makers == []


def test_one_process_makes_it_at_a_time(archive, makers):
    archive.path.parent.mkdir()
    with archive._lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive.make_later()
    assert makers == []
    archive.make_later()
    assert len(makers) == 1


def test_one_that_could_not_be_made_is_tried_again_the_next_day(archive, makers, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "no memory")
    monkeypatch.setattr(class_archive.subprocess, "run", lambda *_, **__: failed)
    assert not archive.make()
    archive.make_later()
    assert makers == []
    yesterday = time.time() - DAY - 1
    os.utime(archive._failure, (yesterday, yesterday))
    archive.make_later()
    assert len(makers) == 1


def test_what_was_made_is_kept_and_what_nobody_used_for_long_is_thrown_away(archive, home, tmp_path, monkeypatch):
    old, used = (ClassArchive(JAVA._replace(version=each), home, tmp_path / "cache") for each in ("8", "21"))
    for each in (old, used):
        keep(each)
    long_ago = time.time() - UNUSED - 1
    os.utime(old._note, (long_ago, long_ago))
    (tmp_path / "cache" / "making-killed").mkdir()

    def train(command, **_):
        Path(command[-1]).write_bytes(b"classes")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(class_archive.subprocess, "run", train)
    assert archive.make()
    assert archive.is_whole()
    assert not old.path.exists()
    assert used.is_whole()
    assert not (tmp_path / "cache" / "making-killed").exists()


def test_who_comes_second_finds_what_the_first_has_made(archive, monkeypatch):
    keep(archive)
    monkeypatch.setattr(class_archive.subprocess, "run", None)
    assert archive.make()
