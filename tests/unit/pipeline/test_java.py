import shlex

import pytest

from runnel.pipeline.errors import JavaMissing, JavaTooOld
from runnel.pipeline.java import as_a_word, find_java, major


@pytest.fixture
def home(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def test_a_missing_java_is_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissing) as error:
        find_java()
    assert str(error.value) == (
        f"Spark needs Java, and {tmp_path}/nowhere/bin/java (JAVA_HOME) was not found (install Java 17 or newer "
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME)"
    )


def test_without_java_home_the_search_path_counts(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match=r"java \(JAVA_HOME is not set\) was not found"):
        find_java()


def test_the_version_is_read_from_its_files(home):
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    assert find_java().version == "17.0.15"


def test_a_java_without_such_files_is_asked(home):
    assert find_java().version == "21.0.1"


def test_an_old_java_is_refused(home):
    (home / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    with pytest.raises(JavaTooOld, match=r"needs Java 17 or newer, and .*/bin/java is 1.8.0_402"):
        find_java()


@pytest.mark.parametrize(("text", "is_"), [("17.0.15", 17), ("1.8.0_402", 8), ("25-ea", 25), ("", 0), ("none", 0)])
def test_the_major_version(text, is_):
    assert major(text) == is_


@pytest.mark.parametrize("option", ["-Xss4m", "-Da=/my cache/b", "-Da=/my\tcache", "-Da=it's", '-Da="b" c', "-Da=\\b"])
def test_an_option_is_one_word_whatever_is_in_it(option):
    """By the rules of a shell, which Spark follows, too."""
    assert shlex.split(f"-Xmx1g {as_a_word(option)} -Xlog:disable") == ["-Xmx1g", option, "-Xlog:disable"]
