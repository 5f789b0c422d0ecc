"""The Spark session, built fast and right.

    spark = spark_session("shop", master="local[*]")

What it sets, and why: time is UTC, in Python functions, too; a micro-batch starts no processes for its checkpoint
files; state lives in RocksDB with a log of its changes; as many shuffle partitions as cores, since a small batch pays
for each; and Java maps an archive of Spark's classes if there is one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from runnel.errors import RunnelError
from runnel.pipeline import forks
from runnel.pipeline.cache_directory import cache_directory
from runnel.pipeline.class_archive import ClassArchive
from runnel.pipeline.compilers import let_batches_go_first
from runnel.pipeline.errors import InvalidMaster, SparkDidNotStart
from runnel.pipeline.java import find_java, major
from runnel.pipeline.java_process import own_interrupt, start_ahead, start_java
from runnel.pipeline.local_files import spare_chmods
from runnel.pipeline.other_sources import spare_search
from runnel.pipeline.settings_sources import forget_sources
from runnel.pipeline.spark_home import REHEARSED, home_for

Session: TypeAlias = SparkSession

FEW_CORES = 4
# What the first compiler makes of a method holds a copy of each small one that it calls, with counters for the second
# compiler: two thirds of all code, and most of it for methods that a batch calls a few times. Now it copies only those
# that are no longer than a call; the second compiler does as it did, and its code takes the place of the first one's.
# And a start does not stop to collect classes, of which it needs all.
LONG_LIVED = "-XX:C1MaxInlineSize=6 -XX:C1MaxInlineLevel=3 -XX:-SegmentedCodeCache -XX:MetaspaceSize=64m"
ALL_AT_ONCE = (
    "-XX:-UseDynamicNumberOfCompilerThreads"  # so that `let_batches_go_first` finds all of a compiler's threads
)
# Where the heap of the serial collector begins; Spark's settings for the driver say where it ends. Java's own choice is
# a 64th of the machine's memory, which may have too little room for what survives of a batch under way: that is then
# taken for long-lived. So is what has survived fifteen collections of the new: of small batches, in this room, five
# seconds. All that is kept of a batch for people to look at must be shorter there. And a full collection leaves no
# gaps, where Java would leave a twentieth of the room for what is long-lived.
HEAP = "-Xms304m -XX:NewSize=192m -XX:SurvivorRatio=6 -XX:TargetSurvivorRatio=90 -XX:MarkSweepDeadRatio=0"
# What a small app needs after ten minutes, it takes at the start: the heap's beginning, and the room for compiled code.
# A collection leaves room for a quarter of what is kept, where Java would take two thirds more.
TAKEN_AT_ONCE = (
    "-XX:+AlwaysPreTouch -XX:ReservedCodeCacheSize=240m -XX:InitialCodeCacheSize=80m -XX:MinHeapFreeRatio=20"
)
# Java's second compiler pays after minutes. Without it, what the first one makes is the best there will be. Java would
# then give the code a fifth of its room: a session that has run hundreds of plans fills that, and Java ends.
COMPILED_ONCE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# There is room for what a few tests make, so that Java need not stop to collect it, nor whenever it has loaded some
# thousand classes more.
SHORT_LIVED = f"{COMPILED_ONCE} -XX:InitialRAMPercentage=10 -XX:NewRatio=1 -XX:MetaspaceSize=256m"
QUICKLY_COMPILED = f"{COMPILED_ONCE} -XX:MetaspaceSize=64m"
# Java would map the archive of classes to an address by chance and then write all of it anew: 80 MB that other programs
# cannot share, and a tenth of a second.
IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
# The compilers need tens of megabytes for moments, which C's allocator would keep. Older versions cannot give it back.
GIVE_BACK = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TrimNativeHeapInterval=10000")
# Every task that counts takes such a page at once: by Spark's own choice 16 MB, for a few hundred rows. What is so
# large and in use goes where only Java's full collections free it. A task has 8,192 pages at most, which could be too
# little on a cluster.
SMALL_PAGES = {"spark.buffer.pageSize": "1m"}
# Every plan, RDD and rule of Spark's asks for its logger anew, and Log4j would look through the calls each time for a
# class that might have a configuration of its own: two parts in a hundred of a small batch.
ONE_CONFIGURATION = "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"
WITH_VFORK = range(17, 22)  # Java's versions
LOGGING = Path(__file__).with_name("log4j2.properties")
SETTINGS = {
    "spark.log.level": "ERROR",  # an earlier session of this process was stopped quietly
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Of what is done, Spark keeps a thousand jobs and plans for people who look: minutes' worth, in Java's heap.
    "spark.ui.retainedJobs": "5",
    "spark.ui.retainedStages": "5",
    "spark.ui.retainedTasks": "20",
    "spark.ui.dagGraph.retainedRootRDDs": "5",
    "spark.sql.ui.retainedExecutions": "5",
    # A thousand measured times for each kind of listener, one for each event: kept for minutes, for nobody who looks.
    "spark.scheduler.listenerbus.metrics.maxListenerClassesTimed": "0",
    # Spark writes and compiles a class for each watermark, which it needs for one batch. A query has about ten others.
    "spark.sql.codegen.cache.maxEntries": "200",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.TZ": "UTC",  # a Python function is given a datetime without a zone, in that of its process
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Less would be measured after each row, which takes longer than all else. A micro-batch has its limit of bytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "runnel.pipeline.python_daemon",
    # The default one starts several processes for every file: three times the whole micro-batch. This one, two, and
    # `spare_chmods` spares those.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # The newest snapshot is kept once a minute. Small batches would make twenty for each: files of which RocksDB then
    # has blocks in its memory, and a wait for the disk.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "50",
    "spark.sql.streaming.stopTimeout": "120s",
    # Who dies while Spark writes its first entry leaves half of one, and would never be let in again. Whether output
    # and checkpoint belong together we see by ourselves.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.stage.maxConsecutiveAttempts": "1",  # tasks write inside of a transaction, and must not do it again
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine may need longer to start a Python than 15 s
}
MASTER = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]|yarn|(spark|k8s)://\S+"
)


def spark_session(
    name: str,
    *,
    master: str = "local[*]",
    partitions: int | None = None,
    settings: dict[str, str] | None = None,
    short_lived: bool = False,
    brief: bool = False,
) -> SparkSession:
    """A new session; `settings` are Spark's own and win over ours. JavaMissing and its kin where there is no Java.

    One that is `short_lived` spares what pays in the long run only: its first minutes take 40 % less time. One that is
    `brief` has the memory of others, and compiles as the short-lived.
    """
    check_master(master)
    archive = class_archive()
    with _environment_for(master):
        java = SHORT_LIVED if short_lived else life_of(brief, master)
        return _start(name, master, partitions, settings or {}, archive, java)


def prepare_session(master: str, *, brief: bool = False) -> None:
    """Let what a session of an app needs start now: Java, and the process that imports for Spark's Python processes.
    What is wrong is told when the session is asked for, and what is not taken then ends with this process.
    """
    if not forks.is_on_this_machine(master):
        return
    with suppress(RunnelError), _environment_for(master):
        options = java_options(class_archive().options(), life_of(brief, master))
        start_ahead(_all_settings(master, None, {}, options))


def stop_quietly(spark: SparkSession) -> None:
    """Pages of Java's calls would tell of each task that is cut off, as those that `warm` a session may be."""
    spark.sparkContext.setLogLevel("OFF")
    spark.stop()


def check_master(master: str) -> None:
    """Spark itself would tell it in a page of Java's."""
    if not MASTER.fullmatch(master):
        raise InvalidMaster(master)


def class_archive() -> ClassArchive:
    """The one for this Java and this Spark, which may be there or not."""
    return ClassArchive(find_java(), home_for("local[*]", cache_directory()))


def make_class_archive() -> bool:
    """Once for each Java and Spark; half a minute."""
    archive = class_archive()
    return archive.is_whole() or archive.make()


def java_options(*more: str) -> str:
    collector = "-XX:+UseSerialGC" if _has_few_cores() else ""
    logging = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    options = (collector, *GIVE_BACK, *IN_PLACE, _way_to_spawn(), "-Xss4m", logging, ONE_CONFIGURATION, *more)
    return " ".join(option for option in options if option)


def life_of(brief: bool, master: str) -> str:
    compiled = QUICKLY_COMPILED if brief else LONG_LIVED
    if not _has_few_cores():
        return compiled
    is_alone = not master.startswith(REHEARSED)  # else each executor would take as much
    return " ".join([compiled, ALL_AT_ONCE, HEAP, *([TAKEN_AT_ONCE] if is_alone and not brief else [])])


def _has_few_cores() -> bool:
    return (os.cpu_count() or 1) <= FEW_CORES


def _way_to_spawn() -> str:
    """Java starts a helper for each process first, and then a `chmod` takes 2.3 ms instead of 1.0; later versions may
    have no other way. On a cluster, and where `spare_chmods` does not work, each file of a checkpoint needs one.
    """
    quick = sys.platform == "linux" and major(find_java().version) in WITH_VFORK
    return "-Djdk.lang.Process.launchMechanism=VFORK" if quick else ""


@contextmanager
def _environment_for(master: str) -> Iterator[None]:
    """For Java alone: what is set now is not what the user has chosen when the next one starts."""
    variables = {"SPARK_HOME": str(home_for(master, cache_directory())), **forks.variables_for(master)}
    variables.setdefault(forks.PYTHON, os.environ.get(forks.PYTHON, sys.executable))
    if os.environ.get("LC_ALL") in ("C", "POSIX"):  # Java knows no path with an umlaut then, and Python does
        variables["LC_ALL"] = "C.UTF-8"
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(
    name: str, master: str, partitions: int | None, settings: dict[str, str], archive: ClassArchive, java: str
) -> SparkSession:
    options = archive.options()
    try:
        return _built(name, master, partitions, settings, java_options(options, java))
    except (PySparkException, Py4JError) as error:
        if not options or not isinstance(error, PySparkRuntimeError):
            raise SparkDidNotStart(_said_by(error), master) from None
    try:
        started = _built(name, master, partitions, settings, java_options(java))
    except (PySparkException, Py4JError) as error:
        raise SparkDidNotStart(_said_by(error), master) from None
    archive.remove()  # Java stumbled over it
    return started


def _said_by(error: Exception) -> str:
    """One line of it: behind the first one come Java's calls."""
    told = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return str(told).strip().partition("\n")[0]


def _built(name: str, master: str, partitions: int | None, settings: dict[str, str], options: str) -> SparkSession:
    chosen = _all_settings(master, partitions, settings, options)
    builder = SparkSession.builder.appName(name)
    for setting, value in chosen.items():
        builder = builder.config(setting, value)
    start_java(chosen)
    with own_interrupt():
        spark = builder.getOrCreate()
    if _has_few_cores():
        let_batches_go_first(_process_of(spark))
    spare_search(spark)
    spare_chmods(spark, cache_directory())
    forget_sources(spark)
    return spark


def _process_of(spark: SparkSession) -> int:
    assert spark._jvm is not None
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def _all_settings(master: str, partitions: int | None, settings: dict[str, str], options: str) -> dict[str, str]:
    return {
        "spark.master": master,
        **SETTINGS,
        **(SMALL_PAGES if master.startswith("local") else {}),
        "spark.sql.shuffle.partitions": str(partitions or cores(master)),
        "spark.driver.extraJavaOptions": options,
        **({"spark.executor.extraJavaOptions": options} if master.startswith(REHEARSED) else {}),
        **settings,
    }


def cores(master: str) -> int:
    """How many tasks run side by side, as far as the name of the master tells."""
    inside = master.partition("[")[2].rstrip("]").split(",")
    counts = [int(part) for part in inside if part.strip().isdigit()]
    if master.startswith("local-cluster") and len(counts) > 1:
        return counts[0] * counts[1]
    if master.startswith("local[") and counts:
        return counts[0]
    return 1 if master == "local" else os.cpu_count() or 1
