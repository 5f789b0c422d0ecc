"""How a producer is set up."""

from __future__ import annotations

import pytest

from runnel.client import producer
from runnel.client.connection import Connection


class Asked(Exception):
    """What librdkafka is asked for."""


@pytest.fixture
def asked(monkeypatch):
    """librdkafka's configuration of a producer with these settings."""

    def refuse(configuration):
        raise Asked(configuration)

    def configuration(**given):
        with pytest.raises(Asked) as caught:
            producer.Producer("here:9092", **given)
        return caught.value.args[0]

    monkeypatch.setattr(Connection, "reach", lambda _: None)
    monkeypatch.setattr(producer, "KafkaProducer", refuse)
    return configuration


def test_it_is_idempotent_and_waits_for_all_replicas(asked):
    assert (asked()["enable.idempotence"], asked()["acks"]) == (True, "all")


def test_its_queue_is_bounded(asked):
    assert asked()["queue.buffering.max.kbytes"] == 64 * 1024


def test_a_record_fails_after_the_time_out(asked):
    assert asked(timeout=1.5)["message.timeout.ms"] == 1_500


def test_settings_of_the_user_win(asked):
    assert asked(settings={"acks": "1", "enable.idempotence": False})["acks"] == "1"
