"""Hadoop's settings as Spark sends them to its tasks; with a real Spark."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.servers

KNOWN = "ipc.client.connect.timeout"  # one that Hadoop's own file sets


@pytest.fixture
def settings(spark):
    """As Spark takes them for a batch."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def test_the_settings_are_sent_without_where_they_come_from(spark, settings):
    fresh = spark._jvm.org.apache.hadoop.conf.Configuration()
    assert fresh.getPropertySources(KNOWN) is not None
    assert settings.getPropertySources(KNOWN) is None


def test_what_arrives_has_every_setting(spark, settings):
    java = spark._jvm.java.io
    sent = java.ByteArrayOutputStream()
    settings.write(java.DataOutputStream(sent))
    arrived = spark._jvm.org.apache.hadoop.conf.Configuration(False)
    arrived.readFields(java.DataInputStream(java.ByteArrayInputStream(sent.toByteArray())))
    assert arrived.size() == settings.size()
    fresh = spark._jvm.org.apache.hadoop.conf.Configuration()
    assert arrived.get(KNOWN) == fresh.get(KNOWN)
