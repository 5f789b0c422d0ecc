"""The brokers of these tests are alone: a topic that they do not know is not there, and nobody need ask again."""

import pytest

from runnel.client import cluster


@pytest.fixture(autouse=True)
def unknown_at_once(monkeypatch):
    monkeypatch.setattr(cluster, "UNKNOWN_SECONDS", 0.0)
