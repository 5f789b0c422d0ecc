"""Producers and consumers over a quota, and producers while the disk is low: first the answer, then the wait."""

import shutil
import time

import pytest

import runnel
from runnel.protocol.versions import Api
from tests.abuse.wire import Client, batch_of, fetch, make_topics, parsed_address, produce, produced

TOPIC = "throttled"
BATCH = batch_of(bytes(100_000))


def set_quota(client: Client, key: str, value: float) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "abuse"}]
    ops = [{"key": key, "value": value, "remove": False}]
    entries = [{"entity": entity, "ops": ops}]
    answer = client.ask(Api.ALTER_CLIENT_QUOTAS, 0, {"entries": entries, "validate_only": False})
    assert answer["entries"][0]["error_code"] == 0


@pytest.fixture
def address():
    with runnel.Broker() as broker:
        address = parsed_address(broker.bootstrap)
        make_topics(address, TOPIC)
        yield address


def produce_until_told_to_wait(client: Client) -> int:
    """Every batch is taken, the last one too; the answer is how many milliseconds to wait."""
    number = 0
    while True:
        client.send(produce(TOPIC, BATCH))
        answer = client.read(Api.PRODUCE, 9)
        assert produced(answer) == (0, number)
        if answer["throttle_time"]:
            return answer["throttle_time"]
        number += 1


def test_a_producer_over_its_quota_is_answered_first_and_has_to_wait_then(address):
    with Client(address) as client, Client(address) as other:
        set_quota(client, "producer_byte_rate", 500_000.0)
        throttle = produce_until_told_to_wait(client)
        told = time.monotonic()
        assert other.is_answered()
        assert client.is_answered()
        assert (
            time.monotonic() - told
        ) * 1000 >= throttle - 50  # no earlier; the clocks of both sides have their grain


def fill_and_limit(client, rate):
    """The topic has eight batches, and who reads it a quota."""
    for _ in range(8):
        client.send(produce(TOPIC, BATCH))
        client.read(Api.PRODUCE, 9)
    set_quota(client, "consumer_byte_rate", rate)


def test_a_consumer_over_its_quota_is_answered_and_told_to_wait(address):
    with Client(address) as client:
        fill_and_limit(client, 100_000.0)
        client.send(fetch(TOPIC))
        answer = client.read(Api.FETCH, 11)
        assert len(answer["responses"][0]["partitions"][0]["records"]) > 800_000
        while not (throttle := answer["throttle_time"]):
            client.send(fetch(TOPIC))
            answer = client.read(Api.FETCH, 11)
            assert answer["responses"][0]["partitions"][0]["records"]
        told = time.monotonic()
        assert client.is_answered()
        assert (time.monotonic() - told) * 1000 >= throttle - 50


def test_a_consumer_gets_no_more_at_once_than_it_can_be_told_to_wait_for(address):
    with Client(address) as client:
        fill_and_limit(client, 30_000.0)
        client.send(fetch(TOPIC))
        answer = client.read(Api.FETCH, 11)
        assert 200_000 < len(answer["responses"][0]["partitions"][0]["records"]) <= 300_000


def test_producers_are_slowed_while_the_disk_is_low_and_readers_are_not(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    with runnel.Broker(tmp_path / "data", settings={"runnel.low.disk.bytes": free // 3}) as broker:
        address = parsed_address(broker.bootstrap)
        make_topics(address, TOPIC)
        with Client(address) as producer, Client(address) as consumer:
            producer.send(produce(TOPIC, batch_of(b"x")))
            answer = producer.read(Api.PRODUCE, 9)
            assert produced(answer) == (0, 0)
            assert 0 < answer["throttle_time"] < 1000
            consumer.send(fetch(TOPIC))
            assert consumer.read(Api.FETCH, 11)["throttle_time"] == 0


def test_nobody_is_slowed_while_there_is_room(address):
    with Client(address) as client:
        client.send(produce(TOPIC, batch_of(b"x")))
        assert client.read(Api.PRODUCE, 9)["throttle_time"] == 0
