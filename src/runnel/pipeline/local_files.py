"""Gives Spark's Java a class for the files of this machine that starts no process for each of them.

Hadoop's own starts a `chmod` for every file of a checkpoint, and for the checksums beside it: four times in a batch,
and twice more for each partition of a state. The class (`LocalFiles.java`) is Java's text. It is compiled once by the
compiler that Spark has for the code of its queries, and kept in the cache directory: to compile it at each start would
take a third of a second.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

TEXT = Path(__file__).with_name("LocalFiles.java")
NAME = "runnel.LocalFiles"
SETTING = "fs.file.impl"


def spare_chmods(spark: SparkSession, cache: Path) -> None:
    """Nothing depends on it: where it does not work, Hadoop goes on as before. The processes of a cluster's executors
    have Hadoop's own class, and so has a session whose settings name one.
    """
    java, context = spark._jvm, spark.sparkContext._jsc
    assert java is not None
    assert context is not None
    if os.name != "posix" or context.hadoopConfiguration().get(SETTING) is not None:
        return
    try:
        configuration = java.org.apache.hadoop.conf.Configuration(context.hadoopConfiguration())
        jar = _jar_in(cache)
        configuration.setClassLoader(_kept(spark, jar) if _is_whole(jar) else _compiled(spark, jar))
        configuration.set(SETTING, NAME)
        systems = java.org.apache.hadoop.fs.FileSystem
        found = systems.getLocal(configuration)  # Hadoop keeps the first one that is asked for, for all that follow
        if found.getClass().getName() != NAME:
            found.close()
            systems.getLocal(configuration)
    except (Py4JError, TypeError) as error:
        logger.debug("Hadoop starts a chmod for every file: %s", error)


def _jar_in(cache: Path) -> Path:
    """Of this text and this Spark; Java's version is all the same to it."""
    known = hashlib.sha256(TEXT.read_bytes() + pyspark.__version__.encode()).hexdigest()[:16]
    return cache / f"local-files-{known}.jar"


def _is_whole(jar: Path) -> bool:
    """It was not synced: a power cut may have left a part of it."""
    try:
        with zipfile.ZipFile(jar) as file:
            return file.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def _kept(spark: SparkSession, jar: Path) -> Any:
    """What has the class, from the file."""
    java, gateway = spark._jvm, spark.sparkContext._gateway
    assert java is not None
    assert gateway is not None
    places = gateway.new_array(java.java.net.URL, 1)
    places[0] = java.java.io.File(str(jar)).toURI().toURL()
    return java.java.net.URLClassLoader(places, _parent(spark))


def _compiled(spark: SparkSession, jar: Path) -> Any:
    """What has the class, which is kept in the file for the next one."""
    assert spark._jvm is not None
    compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(_parent(spark))
    compiler.cook(TEXT.read_text())
    temporary = jar.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        jar.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(temporary, "w") as file:
            for name, code in compiler.getBytecodes().items():
                file.writestr(f"{name.replace('.', '/')}.class", bytes(code))
        temporary.replace(jar)
    return compiler.getClassLoader()


def _parent(spark: SparkSession) -> Any:
    """What has Spark's classes, and Hadoop's."""
    context = spark.sparkContext._jsc
    assert context is not None
    return context.getClass().getClassLoader()
