"""What a session of ours spares itself and its user; with a real Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from runnel.pipeline.java import find_java
from runnel.pipeline.session import ALL_AT_ONCE, HEAP, LONG_LIVED, QUICKLY_COMPILED, SHORT_LIVED, java_options


@pytest.mark.servers
def test_a_signal_to_our_group_does_not_reach_java(spark):
    java = spark.sparkContext._gateway.proc.pid
    assert os.getpgid(java) == java
    assert os.getpgid(java) != os.getpgid(0)


@pytest.mark.servers
def test_nobody_searches_for_data_sources_where_there_are_none(spark):
    manager = getattr(spark._jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    known = getattr(manager, "MODULE$").dataSourceBuilders()
    assert known.isDefined()
    assert known.get().isEmpty()


@pytest.mark.servers
def test_the_room_that_a_short_lived_java_has_is_no_more_than_it_was_given():
    asked = [find_java().path, "-Xmx128m", *SHORT_LIVED.split(), "-version"]
    assert subprocess.run(asked, capture_output=True).returncode == 0


# What a program tells of the signals that were given other handlers while Spark started.
HANDLED = """
import signal
from runnel.pipeline.session import spark_session

handled, handle = [], signal.signal
signal.signal = lambda number, handler: (handled.append(number.name), handle(number, handler))[1]
spark_session("test", master="local[1]")
print(handled)
"""


@pytest.mark.servers
def test_at_no_moment_has_spark_a_handler_of_its_own_for_an_interrupt():
    """PySpark's asks Java for something, also while an answer of Java's is being read, and logs what comes of it."""
    told = subprocess.run([sys.executable, "-c", HANDLED], capture_output=True, check=True, text=True)
    assert told.stdout == "[]\n"


CUT_OFF = """
import threading, time
from pyspark.errors import PySparkException
from py4j.protocol import Py4JError
from runnel.pipeline.session import spark_session, stop_quietly

def slow(batches):
    for batch in batches:
        time.sleep(60)  # it is under way until it is cut off
        yield batch

def work():
    try:
        spark.range(0, 2, numPartitions=2).mapInArrow(slow, "id long").write.format("noop").mode("append").save()
    except (PySparkException, Py4JError):
        print("cut off")

spark = spark_session("test", master="local[2]")
working = threading.Thread(target=work)
working.start()
tracker = spark.sparkContext.statusTracker()
while not any(tracker.getStageInfo(stage).numActiveTasks for stage in tracker.getActiveStageIds()):
    time.sleep(0.01)
stop_quietly(spark)
working.join()
spark_session("another", master="local[1]")
print(spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())
"""


@pytest.mark.servers
def test_what_is_cut_off_when_a_session_is_stopped_is_no_error_of_spark():
    """As what warms the workers of an app that is refused."""
    told = subprocess.run([sys.executable, "-c", CUT_OFF], capture_output=True, check=True, text=True)
    assert told.stdout == "cut off\nERROR\n"  # and what another session says is heard again
    assert "ERROR" not in told.stderr


INTERRUPTED = """
from py4j.protocol import Py4JJavaError
from runnel.pipeline.session import spark_session

spark = spark_session("test", master="local[1]")
for _ in range(10_000):  # who need not wait for an answer, because it is there at once, does not notice
    spark._jvm.java.lang.Thread.currentThread().interrupt()
    try:
        spark.sparkContext._jsc.broadcast("shared with tasks")
    except Py4JJavaError as error:
        print(error.java_exception.getClass().getSimpleName())
        break
"""


@pytest.mark.servers
def test_what_is_interrupted_while_it_is_shared_with_tasks_is_no_error_of_spark():
    """As the last batch of a query that is stopped: who waits for it is told."""
    told = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=True, text=True)
    assert told.stdout == "InterruptedException\n"
    assert "ERROR" not in told.stderr


# What a program tells of Spark's Python processes: of which module each is the main one, as the kernel shows it.
PROGRAM = """
import os, signal, sys
from pathlib import Path
from runnel.pipeline.session import prepare_session, spark_session
from runnel.pipeline.training import run

def below(process):
    found = map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
    return [each for child in found for each in (child, *below(child))]

def shown(process):
    return Path(f"/proc/{process}/comm").read_text().strip()

def named(text):
    return [each for each in below(os.getpid()) if text in Path(f"/proc/{each}/cmdline").read_text()]

prepare_session("local[2]")
(java,) = {os.getpgid(each) for each in below(os.getpid())} - {os.getpgid(each) for each in named("forker")}
spark = spark_session("test", master="local[2]")
print("the same", spark.sparkContext._gateway.proc.pid == java)
compilers = [each for each in Path(f"/proc/{java}/task").iterdir() if "Compiler" in (each / "comm").read_text()]
how_nice = {(each / "comm").read_text()[:2]: os.getpriority(os.PRIO_PROCESS, int(each.name)) for each in compilers}
print("compilers", *sorted(how_nice.items()))
run(spark)
print("forks", *sorted({shown(each) for each in named("runnel.pipeline.forker")} - {"python_streamin"}))  # it has ended
(forker,) = [each for each in named("runnel.pipeline.forker") if shown(each) == "python"]
os.kill(forker, signal.SIGKILL)
os.waitpid(forker, 0)
run(spark)  # with a planner of its own
print("forks without it", *map(shown, named("runnel.pipeline.forker")))
spark.stop()
"""


@pytest.mark.servers
def test_java_starts_ahead_and_spark_forks_its_python_as_long_as_that_is_possible():
    others = ("PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS")  # by which tests have one compiler
    environment = {name: value for name, value in os.environ.items() if name not in others}
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.splitlines() == [
        "the same True",
        "compilers ('C1', 0) ('C2', 10)",
        "forks create_data_sou plan_data_sourc python worker",
        "forks without it",
    ], told.stderr


ABROAD = """
from pyspark.sql import functions as F
from runnel.pipeline.session import spark_session

spark = spark_session("test", master="local[1]")
given = spark.sql("SELECT TIMESTAMP'2026-03-08 02:30:00Z' AS at")
functions = [F.udf(str, "string", useArrow=arrow)("at") for arrow in (False, True)]
back = F.udf(lambda at: at, "timestamp")("at").cast("string")
print(*given.select(*functions, back).first(), sep="\\n")
spark.stop()
"""


@pytest.mark.servers
@pytest.mark.parametrize("python", [None, sys.executable], ids=["forks", "started"])
def test_python_functions_are_given_times_in_utc_wherever_the_app_runs(python):
    """A fork has read the zone of its machine before it is given another."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {"TZ": "America/New_York", **({"PYSPARK_PYTHON": python} if python else {})}
    told = subprocess.run([sys.executable, "-c", ABROAD], env=environment, capture_output=True, text=True, check=False)
    assert told.stdout.splitlines() == ["2026-03-08 02:30:00"] * 3, told.stderr


@pytest.mark.servers
@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("ArchiveRelocationMode", "0"),
        ("C1MaxInlineSize", "6"),
        ("C1MaxInlineLevel", "3"),
        ("SegmentedCodeCache", "false"),
        ("MarkSweepDeadRatio", "0"),
        ("UseDynamicNumberOfCompilerThreads", "false"),
    ],
)
def test_java_knows_what_it_is_told_about_its_memory(flag, value):
    """It would pass over what it does not know: older versions need not know all."""
    asked = [find_java().path, *java_options(LONG_LIVED, ALL_AT_ONCE, HEAP).split(), "-XX:+PrintFlagsFinal", "-version"]
    told = subprocess.run(asked, capture_output=True, check=True, text=True).stdout
    assert re.search(rf"\b{flag} += {value} ", told)


@pytest.mark.servers
@pytest.mark.parametrize("life", [SHORT_LIVED, QUICKLY_COMPILED], ids=["short", "brief"])
def test_code_that_is_compiled_once_has_as_much_room_as_other_code(life):
    """Of a fifth of it, which Java would take, many plans leave nothing, and Java ends."""
    asked = [find_java().path, *java_options(life).split(), "-XX:+PrintFlagsFinal", "-version"]
    told = subprocess.run(asked, capture_output=True, check=True, text=True).stdout
    assert re.search(r"\bReservedCodeCacheSize += 251658240 ", told)


@pytest.mark.servers
def test_spark_keeps_no_times_of_its_listeners(spark):
    registry = spark.sparkContext._jsc.sc().listenerBus().metrics().metricRegistry()
    names = [str(name) for name in registry.getTimers().keySet()]
    assert names  # those of the queues
    assert not [name for name in names if name.startswith("listenerProcessingTime.")]


@pytest.mark.servers
def test_loggers_are_found_without_a_look_at_the_calls(spark):
    assert not spark._jvm.org.apache.logging.log4j.LogManager.getFactory().isClassLoaderDependent()
