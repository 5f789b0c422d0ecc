"""What Java takes for long-lived, and nobody needs any more, is collected; with a real Java."""

from __future__ import annotations

import pytest

from runnel.pipeline import old_generation
from runnel.pipeline.old_generation import MEGABYTE, PAUSE, OldGeneration

LARGE = 300 * MEGABYTE  # it has no room where new objects are made


@pytest.mark.servers
def test_what_java_took_for_long_lived_is_collected(spark, monkeypatch):
    monkeypatch.setattr(old_generation, "MOST", 2**40)  # of what the tests before have left
    now = 0.0
    old = OldGeneration(spark, lambda: now)
    (pool,) = old._pools  # whatever Java's collector is
    spark._jvm.java.lang.System.gc()
    gateway = spark.sparkContext._gateway
    array = gateway.new_array(spark._jvm.long, LARGE // 8)
    gateway._gateway_client.garbage_collect_object(array._target_id, enqueue=False)  # else a second later
    before = pool.getUsage().getUsed()
    old.look()
    assert pool.getUsage().getUsed() >= before
    now = PAUSE
    old.look()
    assert pool.getUsage().getUsed() <= before - LARGE / 2
