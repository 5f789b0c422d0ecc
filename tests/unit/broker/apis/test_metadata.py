import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, batch_of, create_topic, metadata, produce
from tests.ports import free_port
from tests.property.protocol.kio_messages import Kind, decoded

NOT_ASKED = -(2**31)
every_version = pytest.mark.parametrize("version", range(14))


def code(result: Message) -> ErrorCode:
    return ErrorCode(result["error_code"])


def ask(wire: Wire, version: int, **rest: Any) -> Message:
    body = {
        "topics": None,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return wire.ask(Api.METADATA, version, **body | rest)


def names(answer: Message) -> list[str]:
    return [each["name"] for each in answer["topics"]]


# --- the broker


def test_the_broker_tells_its_advertised_address(wire: Wire, runnel_broker: Broker) -> None:
    answer = metadata(wire)
    (broker,) = answer["brokers"]
    assert f"{broker['host']}:{broker['port']}" == runnel_broker.bootstrap
    assert answer["controller_id"] == broker["node_id"]


def test_the_address_belongs_to_the_listener_that_was_asked() -> None:
    outside = free_port()
    settings = {
        "listeners": f"INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:{outside}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "advertised.listeners": "INSIDE://127.0.0.1:0,OUTSIDE://broker.example:9094",
    }
    with Broker(settings=settings) as broker:
        found = []
        for bootstrap in (broker.bootstrap, f"127.0.0.1:{outside}"):
            with Wire(bootstrap) as wire:
                (told,) = metadata(wire)["brokers"]
                found.append(f"{told['host']}:{told['port']}")
        assert found == [broker.bootstrap, "broker.example:9094"]


def test_a_client_of_an_ipv6_listener_is_told_its_address() -> None:
    with Broker(listen="[::1]:0") as broker, Wire(broker.bootstrap) as wire:
        (told,) = metadata(wire)["brokers"]
        assert told["host"] == "::1"
        assert broker.bootstrap == f"[::1]:{told['port']}"


def test_the_number_of_the_node_is_its_setting() -> None:
    with Broker(settings={"node.id": 42}) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders")
        answer = metadata(wire, "orders")
        assert (answer["brokers"][0]["node_id"], answer["controller_id"]) == (42, 42)
        (partition,) = answer["topics"][0]["partitions"]
        assert (partition["leader_id"], partition["replica_nodes"], partition["isr_nodes"]) == (42, [42], [42])


def test_the_cluster_has_an_id_that_stays(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
            found.append(metadata(wire)["cluster_id"])
    assert found[0] == found[1]
    assert len(found[0]) == 22


def test_another_broker_has_another_cluster_id() -> None:
    found = set()
    for _ in range(2):
        with Broker() as broker, Wire(broker.bootstrap) as wire:
            found.add(metadata(wire)["cluster_id"])
    assert len(found) == 2


# --- which topics


@pytest.mark.parametrize("version", range(1, 14))
def test_no_list_means_all_topics(wire: Wire, topic: str, version: int) -> None:
    assert topic in names(ask(wire, version, topics=None))


@pytest.mark.parametrize("version", range(1, 14))
def test_an_empty_list_means_none(wire: Wire, topic: str, version: int) -> None:
    assert names(ask(wire, version, topics=())) == []


def test_in_version_0_an_empty_list_means_all(wire: Wire, topic: str) -> None:
    assert topic in names(ask(wire, 0, topics=()))


@every_version
def test_some_topics_can_be_asked_for(wire: Wire, topic: str, version: int) -> None:
    assert names(ask(wire, version, topics=[{"topic_id": None, "name": topic}])) == [topic]


@pytest.mark.runnel_topic(partitions=3)
def test_a_topic_has_its_partitions(wire: Wire, topic: str) -> None:
    (found,) = metadata(wire, topic)["topics"]
    assert code(found) == ErrorCode.NONE
    assert sorted(each["partition_index"] for each in found["partitions"]) == [0, 1, 2]
    assert all(each["error_code"] == 0 and each["offline_replicas"] == [] for each in found["partitions"])
    assert not found["is_internal"]


@pytest.mark.parametrize("crashes", [0, 2])
def test_a_partition_that_nobody_used_yet_has_the_epoch_that_it_will_have(tmp_path: Path, crashes: int) -> None:
    """librdkafka skips records of a topic that was made again where an epoch is unknown first and known later."""
    folder = tmp_path / "0"
    with Broker(folder) as broker:
        broker.create_topic("orders")
    for crash in range(crashes):
        with Broker(folder):
            folder = Path(shutil.copytree(folder, tmp_path / f"{crash + 1}"))

    with Broker(folder) as broker, Wire(broker.bootstrap) as wire:
        before = metadata(wire, "orders")["topics"][0]["partitions"][0]["leader_epoch"]
        produce(wire, "orders", batch_of(b"a"))
        after = metadata(wire, "orders")["topics"][0]["partitions"][0]["leader_epoch"]

    assert before == after == crashes


def test_the_topic_of_offsets_is_internal(wire: Wire) -> None:
    (found,) = metadata(wire, "__consumer_offsets")["topics"]
    assert code(found) == ErrorCode.NONE
    assert found["is_internal"]


def test_hidden_topics_are_not_listed_and_not_found(wire: Wire) -> None:
    assert "__runnel_metadata" not in names(metadata(wire))
    (found,) = metadata(wire, "__runnel_metadata", allow_auto_topic_creation=True)["topics"]
    assert code(found) in (ErrorCode.INVALID_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert found["partitions"] == []


# --- by id


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_can_be_asked_for_by_its_id(wire: Wire, topic: str, version: int) -> None:
    topic_id = create_topic(wire, f"{topic}-by-id")
    (found,) = ask(wire, version, topics=[{"topic_id": topic_id, "name": None}])["topics"]
    assert (found["name"], found["topic_id"], found["error_code"]) == (f"{topic}-by-id", topic_id, 0)


@pytest.mark.parametrize("version", [12, 13])
def test_an_unknown_id_is_told(wire: Wire, version: int) -> None:
    unknown = UUID(int=2**99 + 1)
    (found,) = ask(wire, version, topics=[{"topic_id": unknown, "name": None}])["topics"]
    assert (code(found), found["topic_id"], found["name"]) == (ErrorCode.UNKNOWN_TOPIC_ID, unknown, None)


@pytest.mark.parametrize("version", [10, 11])
def test_before_version_12_ids_cannot_be_asked_for(wire: Wire, topic: str, version: int) -> None:
    """A topic without a name cannot be answered there: the bytes must be right all the same."""
    topic_id = create_topic(wire, f"{topic}-by-id")
    for asked in (topic_id, UUID(int=2**99 + 1)):
        body = {"topics": [{"topic_id": asked, "name": None}], "allow_auto_topic_creation": False}
        body |= {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
        sent = wire.send(Api.METADATA, version, **body)
        answer = decoded(Kind(Api.METADATA, version, "response"), wire.receive_body(sent))
        assert [each["error_code"] for each in answer["topics"]] == [ErrorCode.INVALID_REQUEST]


def test_an_id_is_the_same_after_a_restart_and_another_for_a_topic_that_is_made_again(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        first, second = create_topic(wire, "first"), create_topic(wire, "second")
        assert first != second
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        assert metadata(wire, "first")["topics"][0]["topic_id"] == first
        wire.ask(Api.DELETE_TOPICS, 6, topics=[{"name": "first", "topic_id": None}], timeout=30_000)
        again = create_topic(wire, "first")
        assert again != first
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        found = metadata(wire, "first", "second")["topics"]
        assert [each["topic_id"] for each in found] == [again, second]


# --- topics that do not exist


def test_a_topic_is_made_if_the_client_allows_it(wire: Wire, topic: str) -> None:
    (found,) = metadata(wire, f"{topic}-new", allow_auto_topic_creation=True)["topics"]
    assert code(found) == ErrorCode.NONE
    assert [each["partition_index"] for each in found["partitions"]] == [0]
    assert metadata(wire, f"{topic}-new")["topics"][0]["topic_id"] == found["topic_id"]


def test_a_topic_is_not_made_if_the_client_does_not_allow_it(wire: Wire, topic: str) -> None:
    for _ in range(2):
        (found,) = metadata(wire, f"{topic}-new")["topics"]
        assert code(found) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found["name"] == f"{topic}-new"
        assert found["partitions"] == []


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_every_client_allows_it(wire: Wire, topic: str, version: int) -> None:
    (found,) = ask(wire, version, topics=[{"name": f"{topic}-{version}"}])["topics"]
    assert code(found) == ErrorCode.NONE
    assert found["partitions"]


def test_a_new_topic_has_the_brokers_number_of_partitions() -> None:
    with Broker(settings={"num.partitions": 4}) as broker, Wire(broker.bootstrap) as wire:
        (found,) = metadata(wire, "orders", allow_auto_topic_creation=True)["topics"]
        assert len(found["partitions"]) == 4


def test_one_request_makes_so_many_partitions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.broker.apis.metadata.MOST_PARTITIONS", 5)
    asked = [{"topic_id": None, "name": name} for name in ("a", "b", "c")]
    with Broker(settings={"num.partitions": 2}) as broker, Wire(broker.bootstrap) as wire:
        first, second = (ask(wire, 12, topics=asked, allow_auto_topic_creation=True)["topics"] for _ in range(2))
    assert [code(each) for each in first] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [len(each["partitions"]) for each in second] == [2, 2, 2]


def test_a_broker_can_forbid_it() -> None:
    with Broker(settings={"auto.create.topics.enable": False}) as broker, Wire(broker.bootstrap) as wire:
        (found,) = metadata(wire, "orders", allow_auto_topic_creation=True)["topics"]
        assert code(found) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "orders" not in names(metadata(wire))


def test_all_topics_make_no_topic(wire: Wire) -> None:
    before = set(names(metadata(wire)))
    assert set(names(ask(wire, 12, topics=None, allow_auto_topic_creation=True))) == before


@pytest.mark.parametrize("name", ["a b", "a/b", "ü", "", ".", "..", "a" * 250, "a\n", "a:b"])
@pytest.mark.parametrize("allow", [True, False])
def test_a_name_that_no_topic_can_have_is_invalid(wire: Wire, name: str, allow: bool) -> None:
    (found,) = metadata(wire, name, allow_auto_topic_creation=allow)["topics"]
    assert (code(found), found["name"]) == (ErrorCode.INVALID_TOPIC, name)


def test_a_name_that_collides_with_another_is_not_made(wire: Wire, topic: str) -> None:
    create_topic(wire, f"{topic}.dotted_name")
    (found,) = metadata(wire, f"{topic}_dotted.name", allow_auto_topic_creation=True)["topics"]
    assert code(found) == ErrorCode.INVALID_TOPIC
    assert f"{topic}_dotted.name" not in names(metadata(wire))


def test_two_clients_that_ask_at_once_get_the_same_new_topic(wire: Wire, other: Wire, topic: str) -> None:
    body = {
        "topics": [{"topic_id": None, "name": f"{topic}-new"}],
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    sent = [(each, each.send(Api.METADATA, 12, **body)) for each in (wire, other)]
    (one,), (two,) = (each.receive(request)["topics"] for each, request in sent)
    assert code(one) == code(two) == ErrorCode.NONE
    assert one["topic_id"] == two["topic_id"]


def test_known_and_unknown_topics_are_told_together(wire: Wire, topic: str) -> None:
    answer = metadata(wire, topic, f"{topic}-missing")
    codes = {each["name"]: code(each) for each in answer["topics"]}
    assert codes == {topic: ErrorCode.NONE, f"{topic}-missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# --- what a client may do


def test_what_a_client_may_do_is_told_if_it_asks(wire: Wire, topic: str) -> None:
    asked = [{"topic_id": None, "name": topic}]
    answer = ask(
        wire,
        10,
        topics=asked,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    everything_of_a_topic = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    assert answer["topics"][0]["topic_authorized_operations"] == everything_of_a_topic
    assert answer["cluster_authorized_operations"] > 0


def test_what_a_client_may_do_is_not_told_otherwise(wire: Wire, topic: str) -> None:
    answer = ask(wire, 10, topics=[{"topic_id": None, "name": topic}])
    assert answer["cluster_authorized_operations"] == NOT_ASKED
    assert answer["topics"][0]["topic_authorized_operations"] == NOT_ASKED
