"""What a session of ours spares itself and its user; with a real Spark."""

from __future__ import annotations

import os
import subprocess

import pytest

from runnel.pipeline.java import find_java
from runnel.pipeline.session import SHORT_LIVED


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
