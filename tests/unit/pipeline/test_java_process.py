"""How Java is started and taken, with a script in the place of Spark's own. The real one is in tests/pipeline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from runnel.pipeline import java_process
from runnel.pipeline.java_process import StartingJava, start_ahead, start_java
from tests.pipeline.waiting import wait_until

SETTINGS = {"spark.master": "local[2]"}
# The port 258 and the secret "shh", as Java writes them; then it lives as long as its standard input.
IS_REACHED = r"""#!/bin/sh
echo "$@" > {told}
printf '\000\000\001\002\000\000\000\003shh' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
exec cat > /dev/null
"""
IS_ON_ITS_WAY = "#!/bin/sh\nsleep 600\n"
ENDS = "#!/bin/sh\nexit 1\n"
PROGRAM = """
import os, signal
from runnel.pipeline import java_process
java_process.start_ahead({"spark.master": "local[2]"})
print(java_process._ahead[0].process.pid, flush=True)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(java_process, "_ahead", [])
    return tmp_path / "home"


@pytest.fixture
def taken(monkeypatch):
    """The ways to Java that Spark was given."""
    found = []
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda gateway: found.append(gateway))
    reached = lambda: SimpleNamespace(port=os.environ[java_process.PORT], secret=os.environ[java_process.SECRET])  # noqa: E731
    monkeypatch.setattr(java_process, "launch_gateway", reached)
    yield found
    for gateway in found:
        gateway.proc.communicate()


def put(home, text):
    script = home / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(text.format(told=home / "told"))
    script.chmod(0o700)


def is_there(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_java_is_told_the_settings_and_reached_as_it_says(home, taken):
    put(home, IS_REACHED)
    start_java(SETTINGS)
    assert (home / "told").read_text() == "--conf spark.master=local[2] pyspark-shell\n"
    assert (taken[0].port, taken[0].secret) == ("258", "shh")
    assert java_process.PORT not in os.environ
    assert os.getpgid(taken[0].proc.pid) != os.getpgid(0)


def test_one_that_was_started_ahead_is_taken(home, taken):
    put(home, IS_REACHED)
    start_ahead(SETTINGS)
    (ahead,) = java_process._ahead
    start_java(SETTINGS)
    assert taken[0].proc is ahead.process
    assert java_process._ahead == []


@pytest.mark.parametrize(("name", "settings"), [("PYSPARK_SUBMIT_ARGS", SETTINGS), ("ANY", {"spark.master": "local"})])
def test_one_that_was_started_for_something_else_ends(home, taken, monkeypatch, name, settings):
    put(home, IS_REACHED)
    start_ahead(SETTINGS)
    (ahead,) = java_process._ahead
    monkeypatch.setenv(name, "--name other pyspark-shell")
    start_java(settings)
    assert taken[0].proc is not ahead.process
    assert ahead.process.returncode == -signal.SIGKILL


def test_what_only_the_environment_asks_for_is_something_else(home, monkeypatch):
    put(home, IS_REACHED)
    starting = StartingJava(SETTINGS)
    assert starting.fits(SETTINGS)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Da=b")
    assert not starting.fits(SETTINGS)
    starting.end()


def test_a_java_that_ends_is_told_in_the_words_of_pyspark(home, taken):
    put(home, ENDS)
    with pytest.raises(PySparkRuntimeError, match="JAVA_GATEWAY_EXITED"):
        start_java(SETTINGS)


def test_whoever_does_not_wait_for_it_any_longer_ends_it(home, taken, monkeypatch):
    put(home, IS_ON_ITS_WAY)
    start_ahead(SETTINGS)
    (ahead,) = java_process._ahead

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(java_process.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        start_java(SETTINGS)
    assert ahead.process.returncode == -signal.SIGKILL
    assert not Path(ahead._directory.name).exists()


def test_nothing_is_left_of_one_that_nobody_took(home, tmp_path):
    put(home, IS_ON_ITS_WAY)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    wait_until(lambda: not is_there(int(run.stdout)), lambda: "it has ended")
    assert run.stderr == ""
    assert list(temporary.iterdir()) == []
