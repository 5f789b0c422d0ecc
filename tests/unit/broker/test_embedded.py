import multiprocessing
import os
import shutil
import signal
import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import runnel
from runnel.broker.server import Server, start_server
from runnel.errors import AddressInUse, Closed, DirectoryOwned, InvalidSetting
from runnel.log import open_log
from tests.abuse.wire import Client, batch_of, create_topics, fetch, fetched, make_topics, parsed_address, produce
from tests.abuse.wire import produced as outcome
from tests.unit.test_forking import forked

forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # it is what they are about

API_PRODUCE, API_FETCH, API_CREATE = 0, 1, 19


def our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("runnel")}


def write(bootstrap: str, topic: str) -> int:
    with Client(parsed_address(bootstrap)) as client:
        client.send(produce(topic, batch_of(b"x")))
        code, offset = outcome(client.read(API_PRODUCE, 9))
        assert code == 0
        return offset


@contextmanager
def child_that_waits() -> Iterator[None]:
    """A process that is forked here and lives as long as the block."""
    end = multiprocessing.get_context("fork").Event()
    child = multiprocessing.get_context("fork").Process(target=end.wait)
    child.start()
    try:
        yield
    finally:
        end.set()
        child.join()


def test_a_broker_without_a_directory_leaves_nothing_behind():
    before = our_threads()
    with runnel.Broker() as broker:
        make_topics(parsed_address(broker.bootstrap), "orders")
        data = Path(broker.data)
        assert data.is_dir()
    assert not data.exists()
    assert not data.parent.exists()
    assert our_threads() <= before


def test_a_broker_keeps_the_directory_that_it_was_given(tmp_path):
    with runnel.Broker(tmp_path / "data") as broker:
        make_topics(parsed_address(broker.bootstrap), "orders")
        assert write(broker.bootstrap, "orders") == 0
    with open_log(tmp_path / "data") as log:
        assert log.was_clean
        assert log.partition("orders").end_offset == 1


def test_a_broker_goes_on_where_it_stopped():
    with runnel.Broker() as broker:
        make_topics(parsed_address(broker.bootstrap), "orders")
        assert write(broker.bootstrap, "orders") == 0
        broker.stop()
        broker.start()
        assert write(broker.bootstrap, "orders") == 1


def test_a_broker_that_starts_again_has_all_its_listeners_where_they_were():
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://localhost:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": "OUTSIDE://broker.example:0",
    }
    with runnel.Broker(settings=settings) as broker:
        before = broker._server.bound, broker._server.endpoints
        broker.stop()
        broker.start()
        assert (broker._server.bound, broker._server.endpoints) == before


def test_a_stopped_broker_refuses_connections_and_has_no_address():
    with runnel.Broker() as broker:
        address = parsed_address(broker.bootstrap)
        broker.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 10)
        with pytest.raises(Closed, match="this broker is closed"):
            _ = broker.bootstrap


def test_stopping_twice_is_no_mistake():
    with runnel.Broker() as broker:
        broker.stop()
        broker.stop()


def test_a_port_in_use_is_told_and_a_later_start_works():
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    broker = runnel.Broker(listen=f"127.0.0.1:{port}")
    try:
        with pytest.raises(AddressInUse, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            broker.start()
        taken.close()
        broker.start()
        assert broker.bootstrap == f"127.0.0.1:{port}"
    finally:
        taken.close()
        broker.close()


def test_a_directory_in_use_is_told(tmp_path):
    with runnel.Broker(tmp_path / "data"), pytest.raises(DirectoryOwned) as told:
        runnel.Broker(tmp_path / "data").start()
    assert told.value.pid == os.getpid()


def test_a_setting_that_nobody_knows_is_told():
    broker = runnel.Broker(settings={"no.such.setting": 1})
    with pytest.raises(InvalidSetting, match=r"no\.such\.setting"):
        broker.start()
    broker.close()


def test_settings_may_be_numbers_and_truths():
    settings = {"num.partitions": 3, "auto.create.topics.enable": False}
    with runnel.Broker(settings=settings) as broker, Client(parsed_address(broker.bootstrap)) as client:
        client.send(create_topics("orders", partitions=-1))
        assert client.read(API_CREATE, 5)["topics"][0]["num_partitions"] == 3


def test_a_failed_start_leaves_no_thread_and_no_lock(tmp_path):
    before = our_threads()
    broker = runnel.Broker(tmp_path / "data", settings={"no.such.setting": 1})
    with pytest.raises(InvalidSetting):
        broker.start()
    assert our_threads() <= before
    with runnel.Broker(tmp_path / "data") as other:
        assert other.bootstrap


def test_two_brokers_do_not_mix():
    with runnel.Broker() as one, runnel.Broker() as other:
        make_topics(parsed_address(one.bootstrap), "orders")
        with Client(parsed_address(other.bootstrap)) as client:
            client.send(fetch("orders"))
            assert fetched(client.read(API_FETCH, 11))[0] == 3  # no such topic


def test_a_directory_that_somebody_has_removed_already_need_not_be_removed():
    broker = runnel.Broker()
    shutil.rmtree(Path(broker.data).parent)
    broker.close()


@pytest.mark.parametrize("partitions", [0, 10_001, 2**40, 1.5, 2.0, True])
def test_a_topic_with_a_number_of_partitions_that_cannot_be_is_refused_and_does_not_end_the_next_start(partitions):
    with runnel.Broker() as broker:
        with pytest.raises(InvalidSetting, match="from 1 to 10,000"):
            broker.create_topic("orders", partitions=partitions)
        broker.stop()
        broker.start()
        broker.create_topic("orders")


@pytest.mark.parametrize("configs", [["retention.ms"], {60_000: "retention.ms"}, "retention.ms=60000"])
def test_configs_and_settings_that_are_no_names_and_values_are_refused(configs):
    with runnel.Broker() as broker, pytest.raises(InvalidSetting, match=r"configs .*expected names and values"):
        broker.create_topic("orders", configs=configs)
    with pytest.raises(InvalidSetting, match=r"settings .*expected names and values"):
        runnel.Broker(settings=configs)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_the_brokers_own_topics_cannot_be_deleted(name):
    with runnel.Broker() as broker:
        with pytest.raises(InvalidSetting, match="not the broker's own"):
            broker.delete_topic(name)
        assert broker._server.node.topics.find(name) is not None


@forks
def test_a_broker_is_left_alone_by_a_process_that_is_forked_and_closes_it():
    with runnel.Broker() as broker:
        make_topics(parsed_address(broker.bootstrap), "orders")
        assert forked(broker.close) == 0
        assert Path(broker.data).is_dir()
        assert write(broker.bootstrap, "orders") == 0
    assert not Path(broker.data).parent.exists()


@forks
def test_a_broker_is_left_alone_at_the_end_of_a_program_that_was_forked():
    with runnel.Broker() as broker:
        assert forked(weakref.finalize._exitfunc) == 0  # what the interpreter runs at the end
        assert Path(broker.data).is_dir()


@forks
def test_a_forked_process_is_told_that_the_broker_is_not_its():
    def create() -> None:
        with pytest.raises(RuntimeError, match="forked from"):
            broker.create_topic("orders")

    with runnel.Broker() as broker:
        assert forked(create) == 0
        broker.create_topic("orders")
        assert forked(lambda: write(broker.bootstrap, "orders")) == 0


@forks
def test_a_stopped_broker_is_gone_for_its_clients_while_a_process_that_was_forked_beside_it_lives():
    with runnel.Broker() as broker:
        address = parsed_address(broker.bootstrap)
        with socket.create_connection(address, 60) as connected:
            make_topics(address, "orders")  # so the connection before it has come to the broker
            with child_that_waits():
                broker.stop()
                assert connected.recv(1) == b""
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(address, 10)


@forks
def test_a_broker_starts_again_while_a_process_that_was_forked_beside_it_lives():
    with runnel.Broker() as broker, child_that_waits():
        make_topics(parsed_address(broker.bootstrap), "orders")
        broker.stop()
        broker.start()
        assert write(broker.bootstrap, "orders") == 0


@forks
def test_a_forked_process_that_ends_in_good_order_takes_nothing_from_the_broker():
    def use_and_leave(bootstrap: str) -> None:
        assert write(bootstrap, "orders") == 0

    with runnel.Broker() as broker:
        make_topics(parsed_address(broker.bootstrap), "orders")
        child = multiprocessing.get_context("fork").Process(target=use_and_leave, args=(broker.bootstrap,))
        child.start()
        child.join()
        assert child.exitcode == 0
        with pytest.raises(DirectoryOwned):
            runnel.Broker(broker.data).start()
        assert write(broker.bootstrap, "orders") == 1


def test_a_start_that_is_interrupted_ends_and_leaves_nothing_behind(monkeypatch):
    async def interrupted(*arguments: object) -> Server:
        os.kill(os.getpid(), signal.SIGINT)
        return await start_server(*arguments)

    before = our_threads()
    monkeypatch.setattr("runnel.broker.embedded.start_server", interrupted)
    broker = runnel.Broker()
    with pytest.raises(KeyboardInterrupt):
        broker.start()
    assert our_threads() <= before
    monkeypatch.undo()
    with broker:
        make_topics(parsed_address(broker.bootstrap), "orders")
