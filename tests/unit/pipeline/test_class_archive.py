"""The archive of Spark's classes, as a file: when it counts and when it is thrown away. `make` is tried with Spark."""

import json
from pathlib import Path

import pytest

from runnel.pipeline.class_archive import ClassArchive
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
