"""The Spark session, built fast and right.

    spark = spark_session("shop", master="local[*]")

What it sets, and why: the session's time is UTC; a micro-batch writes its checkpoint files without a process for each
of them; state lives in RocksDB with a log of its changes; as many shuffle partitions as cores, since a small batch pays
for each; and Java maps an archive of Spark's classes if there is one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from runnel.pipeline.class_archive import ClassArchive, cache_directory
from runnel.pipeline.errors import SparkDidNotStart
from runnel.pipeline.java import find_java
from runnel.pipeline.spark_home import home_for

Session: TypeAlias = SparkSession

FEW_CORES = 4
LOGGING = Path(__file__).with_name("log4j2.properties")
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    # The default one starts a `chmod` for every file: three times the whole micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stopTimeout": "120s",
    "spark.stage.maxConsecutiveAttempts": "1",  # tasks write inside of a transaction, and must not do it again
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine may need longer to start a Python than 15 s
}


def spark_session(
    name: str, *, master: str = "local[*]", partitions: int | None = None, settings: dict[str, str] | None = None
) -> SparkSession:
    """A new session; `settings` are Spark's own and win over ours. JavaMissing and its kin where there is no Java."""
    chosen = os.environ.get("SPARK_HOME")
    home = home_for(master, cache_directory())
    archive = ClassArchive(find_java(), home)
    os.environ["SPARK_HOME"] = str(home)
    try:
        return _start(name, master, partitions, settings or {}, archive)
    finally:
        if chosen is None:
            del os.environ["SPARK_HOME"]


def make_class_archive() -> bool:
    """Once for each Java and Spark; half a minute."""
    archive = ClassArchive(find_java(), home_for("local[*]", cache_directory()))
    return archive.is_whole() or archive.make()


def java_options(*more: str) -> str:
    collector = ["-XX:+UseSerialGC"] if (os.cpu_count() or 1) <= FEW_CORES else []
    return " ".join(
        option for option in (*collector, "-Xss4m", f"-Dlog4j2.configurationFile={LOGGING.as_uri()}", *more) if option
    )


def _start(
    name: str, master: str, partitions: int | None, settings: dict[str, str], archive: ClassArchive
) -> SparkSession:
    # Workers take the interpreter from the environment; with the system's they would not find our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = archive.options()
    try:
        return _built(name, master, partitions, settings, java_options(options))
    except PySparkRuntimeError as error:
        if not options:
            raise SparkDidNotStart(str(error)) from None
        archive.remove()  # it may be what Java stumbled over
        return _start(name, master, partitions, settings, archive)


def _built(name: str, master: str, partitions: int | None, settings: dict[str, str], options: str) -> SparkSession:
    chosen = {
        **SETTINGS,
        "spark.sql.shuffle.partitions": str(partitions or cores(master)),
        "spark.driver.extraJavaOptions": options,
        **settings,
    }
    builder = SparkSession.builder.master(master).appName(name)
    for setting, value in chosen.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def ship(modules: Iterable[ModuleType]) -> None:
    """Let functions of these modules travel to Spark's workers as they are: the workers do not have the user's file."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def cores(master: str) -> int:
    """How many tasks run side by side, as far as the name of the master tells."""
    inside = master.partition("[")[2].rstrip("]").split(",")
    counts = [int(part) for part in inside if part.strip().isdigit()]
    if master.startswith("local-cluster") and len(counts) > 1:
        return counts[0] * counts[1]
    if master.startswith("local[") and counts:
        return counts[0]
    return 1 if master == "local" else os.cpu_count() or 1
