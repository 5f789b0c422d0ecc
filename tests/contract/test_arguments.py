"""What a program may give the clients, and what librdkafka would have answered in terms of C."""

from __future__ import annotations

import asyncio

import pytest

from runnel.client import (
    Admin,
    Consumer,
    Groups,
    InvalidArgument,
    Producer,
    Start,
    UnknownPartition,
    WrongPartitionCount,
)
from runnel.client.asynchronous import AsyncConsumer, AsyncProducer

NO_PARTITIONS = [-1, 2**31, 2**63, 2**70]
NO_OFFSETS = [-1, 2**63, 2**70, 1.5, "5", None, True]
NO_SECONDS = [0, -1, float("nan"), float("inf"), 10**400, "5", None, True]


@pytest.mark.parametrize("wrong", [*NO_SECONDS, 3_601])
def test_a_timeout_that_is_none_is_refused(bootstrap, wrong):
    with pytest.raises(InvalidArgument, match=r"cannot be the timeout \(expected a number of seconds, more than 0 and"):
        Admin(bootstrap, timeout=wrong)


@pytest.mark.parametrize("wrong", [*NO_SECONDS, 2_147_484])
def test_a_producers_timeout_that_is_none_is_refused(bootstrap, wrong):
    with pytest.raises(InvalidArgument, match="cannot be the timeout"):
        Producer(bootstrap, timeout=wrong)


@pytest.mark.parametrize("wrong", NO_PARTITIONS)
def test_a_partition_that_none_can_be_is_unknown(bootstrap, admin, producer, topic, wrong):
    for ask in (
        lambda: admin.delete_records(topic, {wrong: 0}),
        lambda: admin.offsets([(topic, wrong)], Start.time(0)),
        lambda: admin.stable_offsets([(topic, wrong)]),
        lambda: admin.sizes([(topic, wrong)]),
        lambda: producer.send(topic, b"x", partition=wrong),
        lambda: Consumer(bootstrap, topic, partitions=[wrong]),
    ):
        with pytest.raises(UnknownPartition, match=f"has no partition {wrong}"):
            ask()


@pytest.mark.parametrize("wrong", [1.5, "0", True])
def test_a_partition_that_is_no_number_is_refused(bootstrap, admin, producer, topic, wrong):
    for ask in (
        lambda: admin.delete_records(topic, {wrong: 0}),
        lambda: admin.offsets([(topic, wrong)], Start.offset(0)),
        lambda: producer.send(topic, b"x", partition=wrong),
        lambda: Consumer(bootstrap, topic, partitions=[wrong]),
    ):
        with pytest.raises(InvalidArgument, match=r"cannot be the partition \(expected a whole number\)"):
            ask()


@pytest.mark.parametrize("wrong", NO_OFFSETS)
def test_an_offset_that_none_can_be_is_refused_and_deletes_nothing(admin, producer, bootstrap, topic, name, wrong):
    producer.produce(topic, b"kept")
    with pytest.raises(InvalidArgument, match="cannot be the offset"):
        admin.delete_records(topic, {0: wrong})
    with Consumer(bootstrap, topic, group=name) as records:
        assert [record.value for record in records] == [b"kept"]
    with pytest.raises(InvalidArgument, match="cannot be the offset"):
        Groups(admin).reset(name, {(topic, 0): wrong})


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", True])
def test_a_limit_that_is_none_is_refused_before_anything_is_read(bootstrap, topic, wrong):
    with Consumer(bootstrap, topic) as consumer, pytest.raises(InvalidArgument, match="cannot be the limit"):
        consumer.records(wrong)


@pytest.mark.parametrize("wrong", [-5, -1, 2**63, 1.5, "now", True])
def test_a_time_that_no_record_has_is_refused(producer, topic, wrong):
    with pytest.raises(InvalidArgument, match="cannot be the timestamp"):
        producer.send(topic, b"x", timestamp=wrong)


def test_counts_that_are_no_numbers_are_refused(admin, topic, name):
    for wrong in (1.5, "3", True):
        with pytest.raises(InvalidArgument, match="cannot be the count of partitions"):
            admin.create(f"{name}-other", partitions=wrong)
        with pytest.raises(InvalidArgument, match="cannot be the count of partitions"):
            admin.add_partitions(topic, wrong)
    for wrong in (0, -2, 32_768, 2**70, "1"):
        with pytest.raises(InvalidArgument, match="cannot be the replication_factor"):
            admin.create(f"{name}-other", replication_factor=wrong)
    with pytest.raises(WrongPartitionCount):
        admin.create(f"{name}-other", partitions=2**70)


def test_a_time_before_or_after_all_that_can_be_is_a_start(admin, producer, topic):
    producer.produce(topic, b"x")
    for before in (-1, -2, -3, -(2**70)):  # Kafka knows places by some of them
        assert admin.offsets([(topic, 0)], Start.time(before)) == {(topic, 0): 0}
    assert admin.offsets([(topic, 0)], Start.time(2**70)) == {(topic, 0): 1}


def test_a_client_for_asyncio_refuses_them_too(bootstrap, topic):
    async def begin_at(offset):
        async with AsyncConsumer(bootstrap, topic, start=Start.offset(offset)):
            pass

    async def write_at(timestamp):
        async with AsyncProducer(bootstrap) as producer:
            await producer.produce(topic, b"x", timestamp=timestamp)

    for wrong in (-1, 2**63):
        with pytest.raises(InvalidArgument, match="cannot be the offset"):
            asyncio.run(begin_at(wrong))
        with pytest.raises(InvalidArgument, match="cannot be the timestamp"):
            asyncio.run(write_at(wrong))


@pytest.mark.parametrize("wrong", [{"ab": b"north"}, 5, "ab", ["ab"], [b"ab"], [("shop", b"north", 1)]])
def test_headers_that_are_no_pairs_are_refused(bootstrap, producer, topic, wrong):
    async def write() -> None:
        async with AsyncProducer(bootstrap) as other:
            await other.produce(topic, b"x", headers=wrong)

    for ask in (lambda: producer.send(topic, b"x", headers=wrong), lambda: asyncio.run(write())):
        with pytest.raises(InvalidArgument, match=r"cannot be the header.*pairs of a name and a value"):
            ask()


@pytest.mark.parametrize("wrong", ["retention.ms=1", ["retention.ms"]])
def test_configs_that_are_no_names_and_values_are_refused(admin, topic, wrong):
    for ask in (lambda: admin.create("other", configs=wrong), lambda: admin.alter(topic, configs=wrong)):
        with pytest.raises(InvalidArgument, match="cannot be the configs"):
            ask()
