"""What a start script became is started without the script the next time. The scripts here stand for Spark's."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from runnel.pipeline import java_process
from runnel.pipeline.java_process import start_java

SETTINGS = {"spark.master": "local[2]", "spark.said": "two words\nand a line"}
SCRIPT = """#!/bin/sh
echo script >> {home}/told
export SPARK_SCALA_VERSION=2.13 PYTHONHASHSEED=0 OTHER=1
exec {home}/jars/java "$@"
"""
JAVA = r"""#!/bin/sh
echo "java $SPARK_SCALA_VERSION $PYTHONHASHSEED <$OTHER>" "$@" >> {home}/told
printf '\000\000\001\002\000\000\000\003shh' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
read line
"""
TOLD = "--conf spark.master=local[2] --conf spark.said=two words\nand a line pyspark-shell\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    for name in ("bin", "jars"):
        (home / name).mkdir(parents=True)
    put(home / "bin" / "spark-submit", SCRIPT, home)
    put(home / "jars" / "java", JAVA, home)
    for name in ("bin/spark-class", "bin/load-spark-env.sh"):
        put(home / name, "", home)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setattr(java_process, "_ahead", [])
    return home


@pytest.fixture(autouse=True)
def taken(monkeypatch):
    """The ways to Java that Spark was given."""
    found = []
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda gateway: found.append(gateway))
    monkeypatch.setattr(java_process, "launch_gateway", SimpleNamespace)
    yield found
    for gateway in found:
        gateway.proc.communicate()


def put(path, text, home):
    path.write_text(text.format(home=home))
    path.chmod(0o700)


def told(home):
    """Since it was last asked."""
    text = (home / "told").read_text()
    (home / "told").unlink()
    return text


def test_what_the_script_became_is_started_the_next_time(home):
    start_java(SETTINGS)
    assert told(home) == f"script\njava 2.13 0 <1> {TOLD}"
    for _ in range(2):
        start_java(SETTINGS)
        assert told(home) == f"java 2.13 0 <> {TOLD}"  # OTHER is not what Spark's script is there for


@pytest.mark.parametrize(
    "change",
    [
        lambda home, environ: environ("SPARK_DRIVER_MEMORY", "2g"),
        lambda home, environ: environ("JAVA_TOOL_OPTIONS", "-Da=b"),
        lambda home, environ: environ("PYSPARK_SUBMIT_ARGS", "--name other pyspark-shell"),
        lambda home, environ: environ("SPARK_CONF_DIR", str(home)),
        lambda home, environ: (home / "conf").mkdir(),
        lambda home, environ: put(home / "bin" / "spark-class", "# another version", home),
        lambda home, environ: (home / "jars" / "another.jar").touch(),
    ],
)
def test_the_script_runs_where_something_has_changed(home, monkeypatch, change):
    start_java(SETTINGS)
    told(home)
    change(home, monkeypatch.setenv)
    start_java(SETTINGS)
    assert told(home).startswith("script\n")


def test_other_settings_are_another_start(home):
    start_java(SETTINGS)
    told(home)
    start_java({"spark.master": "local"})
    assert told(home).startswith("script\n")


def test_what_leads_to_nothing_is_forgotten(home):
    start_java(SETTINGS)
    (kept,) = kept_files(home)
    (home / "jars" / "java").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(PySparkRuntimeError):
        start_java(SETTINGS)
    assert not kept.exists()


def test_a_file_that_is_no_start_lets_the_script_run(home):
    start_java(SETTINGS)
    told(home)
    (kept,) = kept_files(home)
    kept.write_text('{"command": ')
    start_java(SETTINGS)
    assert told(home).startswith("script\n")


def test_a_start_is_for_its_user_alone_and_old_ones_go(home):
    old, young = (kept_files(home, make=name) for name in ("start-old.json", "start-young.json"))
    os.utime(old, (0, 0))
    start_java(SETTINGS)
    assert not old.exists()
    assert young.exists()
    (kept,) = (path for path in kept_files(home) if path != young)
    assert kept.stat().st_mode & 0o777 == 0o600


def kept_files(home, make=None):
    cache = home.parent / "cache" / "runnel"
    if make is None:
        return list(cache.glob("start-*"))
    cache.mkdir(parents=True, exist_ok=True)
    (cache / make).touch()
    return cache / make
