"""A broker that goes away, and comes back."""

from __future__ import annotations

import threading

import pytest

from runnel import Broker
from runnel.client import Admin, Consumer, Producer, RecordsLost, Token, Unreachable
from runnel.client.connection import Faults
from tests.ports import HOST, free_port


@pytest.fixture
def broker(tmp_path):
    """A broker that can be stopped and started again at the same address."""
    address = f"{HOST}:{free_port()}"
    broker = Broker(tmp_path / "data", listen=address)
    broker.start()
    with Admin(address) as admin:
        admin.create("orders")
    yield broker
    broker.close()


def test_a_record_that_found_no_broker_is_told_with_the_address(broker, capfd):
    producer = Producer(broker.bootstrap, timeout=5.0)  # a busy machine may need more than one for the first
    address = broker.bootstrap
    producer.produce("orders", b"a")
    broker.stop()
    producer.send("orders", b"b")
    with pytest.raises(Unreachable, match=f"no broker answers at {address}: ") as caught:
        producer.produce("orders", b"c")
    assert caught.value.bootstrap == address
    with pytest.raises(RecordsLost, match=f"1 record was not written: no broker answers at {address}: "):
        producer.close()
    assert capfd.readouterr().err == ""  # librdkafka would log its attempts there


def test_a_record_waits_for_a_broker_that_comes_back(broker):
    with Producer(broker.bootstrap) as producer:
        producer.produce("orders", b"a")
        broker.stop()
        future = producer.submit("orders", b"b")
        broker.start()
        assert future.result(60) == Token("orders", 0, 1)


def test_who_reads_to_the_end_is_told_of_a_broker_that_went_away(broker):
    address = broker.bootstrap
    with Producer(address) as producer:
        for _ in range(20):
            producer.produce("orders", bytes(500_000))
    little_at_once = {"fetch.message.max.bytes": 1_000, "queued.min.messages": 1}
    with Consumer(address, "orders", settings=little_at_once) as consumer:
        object.__setattr__(consumer._admin.connection, "timeout", 0.5)  # how long it may be gone
        list(consumer.records(1))
        broker.stop()
        with pytest.raises(Unreachable, match=f"no broker answers at {address}: "):
            list(consumer)


def test_one_whose_last_records_came_after_the_fault_is_told_in_time_as_well(broker, monkeypatch):
    address = broker.bootstrap
    with Producer(address) as producer:
        producer.produce("orders", b"a")
        producer.produce("orders", b"b")
    # As if forgotten, for those that came after it.
    monkeypatch.setattr(Faults, "__call__", lambda faults, _: setattr(faults, "ever", True))
    with Consumer(address, "orders", settings={"fetch.message.max.bytes": 1}) as consumer:
        object.__setattr__(consumer._admin.connection, "timeout", 0.5)  # how long it may be gone
        consumer._ends["orders", 0] = 3  # so that it waits for one that the broker never gives
        broker.stop()
        with pytest.raises(Unreachable, match=f"no broker answers at {address}: connection refused"):
            list(consumer)


def test_who_follows_goes_on_when_the_broker_is_back(broker):
    with Producer(broker.bootstrap) as producer, Consumer(broker.bootstrap, "orders", follow=True) as consumer:
        producer.produce("orders", b"a")
        records = iter(consumer)
        assert next(records).value == b"a"
        broker.stop()
        restart = threading.Thread(target=broker.start)
        restart.start()
        future = producer.submit("orders", b"b")
        assert next(records).value == b"b"
        assert future.result(60) == Token("orders", 0, 1)
        restart.join()
