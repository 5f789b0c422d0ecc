import shutil
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import (
    Wire,
    batch_of,
    create_topic,
    fetch,
    fetch_body,
    metadata,
    produce,
    produce_body,
    values_in,
)

two_partitions = pytest.mark.runnel_topic(partitions=2)
three_partitions = pytest.mark.runnel_topic(partitions=3)
FOREVER = 600_000  # longer than a test waits for an answer
KB = b"x" * 1_000


def code(result: Message) -> ErrorCode:
    return ErrorCode(result["error_code"])


def partitions_of(answer: Message) -> list[Message]:
    return [partition for topic in answer["responses"] for partition in topic["partitions"]]


def delete_topic(wire: Wire, name: str) -> None:
    (answer,) = wire.ask(Api.DELETE_TOPICS, 6, topics=[{"name": name, "topic_id": None}], timeout=30_000)["responses"]
    assert not answer["error_code"]


def delete_records(wire: Wire, topic: str, offset: int) -> None:
    partitions = [{"partition_index": 0, "offset": offset}]
    (answer,) = wire.ask(Api.DELETE_RECORDS, 2, topics=[{"name": topic, "partitions": partitions}], timeout=30_000)[
        "topics"
    ]
    assert not answer["partitions"][0]["error_code"]


# --- what is read


def test_data_begins_with_the_batch_that_holds_the_offset(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a", b"b", b"c"))
    produce(wire, topic, batch_of(b"d", b"e"))
    assert values_in(fetch(wire, topic, 0)) == [b"a", b"b", b"c", b"d", b"e"]
    assert values_in(fetch(wire, topic, 2)) == [b"a", b"b", b"c", b"d", b"e"]
    assert values_in(fetch(wire, topic, 4)) == [b"d", b"e"]


def test_a_batch_is_read_as_it_was_written(wire: Wire, topic: str) -> None:
    batch = batch_of(b"a", b"b")
    produce(wire, topic, batch_of(b"before"))
    produce(wire, topic, batch)
    found = bytes(fetch(wire, topic, 1)["records"])
    assert found[:8] == (1).to_bytes(8, "big")
    assert found[16:] == batch[16:]


def test_at_the_end_there_are_no_records_and_no_error(wire: Wire, topic: str) -> None:
    """Empty bytes, not null: librdkafka takes null for a broken answer."""
    produce(wire, topic, batch_of(b"a", b"b"))
    found = fetch(wire, topic, 2)
    assert code(found) == ErrorCode.NONE
    assert found["records"] is not None
    assert bytes(found["records"]) == b""
    assert found["high_watermark"] == found["last_stable_offset"] == 2


def test_the_answer_says_where_the_log_begins_and_ends(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a", b"b", b"c"))
    delete_records(wire, topic, 1)
    found = fetch(wire, topic, 1)
    assert (found["log_start_offset"], found["high_watermark"], found["last_stable_offset"]) == (1, 3, 3)


@pytest.mark.parametrize("offset", [3, 100, -1, -2])
def test_an_offset_that_is_not_there_is_out_of_range(wire: Wire, topic: str, offset: int) -> None:
    produce(wire, topic, batch_of(b"a", b"b"))
    found = fetch(wire, topic, offset)
    assert code(found) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert bytes(found["records"]) == b""


def test_an_offset_that_was_deleted_is_out_of_range(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a"))
    produce(wire, topic, batch_of(b"b"))
    delete_records(wire, topic, 1)
    assert code(fetch(wire, topic, 0)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values_in(fetch(wire, topic, 1)) == [b"b"]


def test_both_isolation_levels_see_the_same(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a"))
    uncommitted, committed = (fetch(wire, topic, isolation_level=level) for level in (0, 1))
    assert values_in(uncommitted) == values_in(committed) == [b"a"]
    assert uncommitted["aborted_transactions"] is None
    assert not committed["aborted_transactions"]


def test_the_topics_are_answered_in_their_order(wire: Wire, topic: str) -> None:
    others = [f"{topic}-{letter}" for letter in "ca"]
    for name in others:
        create_topic(wire, name)
    answer = wire.ask(Api.FETCH, 11, **fetch_body({others[0]: {0: 0}, topic: {0: 0}, others[1]: {0: 0}}))
    assert [each["topic"] for each in answer["responses"]] == [others[0], topic, others[1]]


# --- what is not there


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_an_unknown_partition_is_told(wire: Wire, topic: str, partition: int) -> None:
    assert code(fetch(wire, topic, partition=partition)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_is_told_and_not_made(wire: Wire, topic: str) -> None:
    for _ in range(2):
        assert code(fetch(wire, f"{topic}-missing")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_is_told_at_once(wire: Wire, topic: str) -> None:
    """Though another partition has nothing, and the client would wait."""
    body = fetch_body({topic: {0: 0, 9: 0}}, max_wait=FOREVER)
    codes = [code(each) for each in partitions_of(wire.ask(Api.FETCH, 11, **body))]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def fetch_by_id(wire: Wire, topic_id: UUID | None, version: int = 13) -> Message:
    body = fetch_body({"": {0: 0}})
    body["topics"][0]["topic_id"] = topic_id
    (answer,) = wire.ask(Api.FETCH, version, **body)["responses"]
    assert answer["topic_id"] == topic_id
    result: Message = answer["partitions"][0]
    return result


@pytest.mark.parametrize("version", [13, 18])
def test_from_version_13_on_topics_are_named_by_their_id(wire: Wire, topic: str, version: int) -> None:
    topic_id = create_topic(wire, f"{topic}-by-id")
    produce(wire, f"{topic}-by-id", batch_of(b"a"))
    assert values_in(fetch_by_id(wire, topic_id, version)) == [b"a"]


def test_an_unknown_id_is_told(wire: Wire) -> None:
    assert code(fetch_by_id(wire, UUID(int=2**100 + 3))) == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_id_of_a_topic_that_was_made_again_is_unknown(wire: Wire, topic: str) -> None:
    name = f"{topic}-again"
    before = create_topic(wire, name)
    produce(wire, name, batch_of(b"old"))
    delete_topic(wire, name)
    after = create_topic(wire, name)
    assert code(fetch_by_id(wire, before)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert values_in(fetch_by_id(wire, after)) == []


# --- leader epochs


def with_epoch(body: dict[str, Any], epoch: int) -> dict[str, Any]:
    body["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
    return body


def fetch_in_epoch(wire: Wire, topic: str, epoch: int) -> Message:
    (result,) = partitions_of(wire.ask(Api.FETCH, 11, **with_epoch(fetch_body({topic: {0: 0}}), epoch)))
    return result


def test_an_epoch_of_the_future_is_unknown(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a"))
    assert code(fetch_in_epoch(wire, topic, 99)) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_epoch_of_the_past_is_fenced(tmp_path: Path) -> None:
    """A copy of the files of a running broker is what a crash leaves: the next start begins a new epoch."""
    with Broker(tmp_path / "data") as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders")
        produce(wire, "orders", batch_of(b"a"))
        before = metadata(wire, "orders")["topics"][0]["partitions"][0]["leader_epoch"]
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    with Broker(tmp_path / "crashed") as broker, Wire(broker.bootstrap) as wire:
        produce(wire, "orders", batch_of(b"b"))
        after = metadata(wire, "orders")["topics"][0]["partitions"][0]["leader_epoch"]
        assert after > before
        assert code(fetch_in_epoch(wire, "orders", before)) == ErrorCode.FENCED_LEADER_EPOCH
        assert values_in(fetch_in_epoch(wire, "orders", after))[0] == b"a"


def test_no_epoch_means_no_check(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a"))
    assert values_in(fetch_in_epoch(wire, topic, -1)) == [b"a"]


# --- limits


@pytest.mark.parametrize("limit", [0, 1])
def test_a_batch_is_given_however_large_it_is(wire: Wire, topic: str, limit: int) -> None:
    produce(wire, topic, batch_of(KB))
    produce(wire, topic, batch_of(b"next"))
    assert values_in(fetch(wire, topic, max_bytes=limit, partition_max_bytes=limit)) == [KB]


def test_a_partition_gives_no_more_than_its_limit(wire: Wire, topic: str) -> None:
    for _ in range(5):
        produce(wire, topic, batch_of(KB))
    assert whole_batches(fetch(wire, topic, partition_max_bytes=2_500)) == 2


def whole_batches(fetched: Message) -> int:
    """Kafka may cut the last batch of an answer; what counts is how many are whole."""
    return len(bytes(fetched["records"])) // len(batch_of(KB))


@three_partitions
def test_the_limit_of_a_request_holds_for_all_its_partitions(wire: Wire, topic: str) -> None:
    for partition in range(3):
        for _ in range(3):
            produce(wire, topic, batch_of(KB), partition)
    body = fetch_body({topic: {0: 0, 1: 0, 2: 0}}, max_bytes=4_400)
    assert [whole_batches(each) for each in partitions_of(wire.ask(Api.FETCH, 11, **body))] == [3, 1, 0]


@two_partitions
def test_only_the_first_batch_of_an_answer_may_be_too_large(wire: Wire, topic: str) -> None:
    for partition in range(2):
        produce(wire, topic, batch_of(KB), partition)
    body = fetch_body({topic: {0: 0, 1: 0}}, max_bytes=10)
    assert [whole_batches(each) for each in partitions_of(wire.ask(Api.FETCH, 11, **body))] == [1, 0]


@two_partitions
def test_the_limit_of_a_partition_holds_when_another_has_given_something(wire: Wire, topic: str) -> None:
    for partition in range(2):
        produce(wire, topic, batch_of(KB), partition)
    body = fetch_body({topic: {0: 0, 1: 0}}, partition_max_bytes=100)
    assert [whole_batches(each) for each in partitions_of(wire.ask(Api.FETCH, 11, **body))] == [1, 0]


@two_partitions
def test_an_empty_partition_does_not_use_up_the_batch_that_may_be_too_large(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(KB), partition=1)
    body = fetch_body({topic: {0: 0, 1: 0}}, max_bytes=10)
    assert [whole_batches(each) for each in partitions_of(wire.ask(Api.FETCH, 11, **body))] == [0, 1]


def test_a_partition_on_the_disk_does_not_keep_back_a_large_batch_of_another(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders", 3)
        produce(wire, "orders", batch_of(b"old"), partition=2)
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        produce(wire, "orders", batch_of(KB), partition=0)
        produce(wire, "orders", batch_of(b"new"), partition=1)
        body = fetch_body({"orders": {0: 0, 1: 0, 2: 0}}, partition_max_bytes=500)
        found = partitions_of(wire.ask(Api.FETCH, 11, **body))
        assert [values_in(each) for each in found] == [[KB], [b"new"], [b"old"]]


def test_the_broker_has_a_limit_of_its_own() -> None:
    with Broker(settings={"fetch.max.bytes": 2_500}) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders")
        for _ in range(5):
            produce(wire, "orders", batch_of(KB))
        assert whole_batches(fetch(wire, "orders")) == 2


def test_everything_can_be_read_bit_by_bit(wire: Wire, topic: str) -> None:
    for number in range(20):
        produce(wire, topic, batch_of(*[b"%d-%d" % (number, each) for each in range(number % 4 + 1)]))
    found: list[bytes | None] = []
    while True:
        fetched = fetch(wire, topic, len(found), max_bytes=150)
        if len(found) == fetched["high_watermark"]:
            break
        first = int.from_bytes(bytes(fetched["records"])[:8], "big")
        found = found[:first] + values_in(fetched)
    assert found == [b"%d-%d" % (number, each) for number in range(20) for each in range(number % 4 + 1)]


# --- waiting


def test_a_fetch_waits_for_a_record(wire: Wire, other: Wire, topic: str) -> None:
    sent = wire.send(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, max_wait=FOREVER))
    produce(other, topic, batch_of(b"a"))
    assert values_in(partitions_of(wire.receive(sent))[0]) == [b"a"]


def test_a_fetch_waits_for_as_many_bytes_as_it_wants(wire: Wire, other: Wire, topic: str) -> None:
    produce(other, topic, batch_of(KB))
    sent = wire.send(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, max_wait=FOREVER, min_bytes=2_500))
    produce(other, topic, batch_of(KB))
    produce(other, topic, batch_of(KB))
    assert values_in(partitions_of(wire.receive(sent))[0]) == [KB, KB, KB]


def test_the_bytes_of_a_new_segment_count_too(wire: Wire, other: Wire, topic: str) -> None:
    create_topic(other, f"{topic}-rolled", internal_segment_bytes="1100")
    produce(other, f"{topic}-rolled", batch_of(KB))
    sent = wire.send(Api.FETCH, 11, **fetch_body({f"{topic}-rolled": {0: 0}}, max_wait=FOREVER, min_bytes=2_500))
    produce(other, f"{topic}-rolled", batch_of(KB))
    assert not wire.has_answer_within(0.05)
    produce(other, f"{topic}-rolled", batch_of(KB))
    assert values_in(partitions_of(wire.receive(sent))[0]) == [KB, KB, KB]


@pytest.mark.parametrize("minimum", [1, 1_500])
def test_whoever_waits_at_the_end_has_no_older_segment_looked_into(tmp_path: Path, minimum: int) -> None:
    """There may be thousands, and it is the event loop that would wait for the disk."""
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders", internal_segment_bytes="1100")
        for _ in range(5):
            produce(wire, "orders", batch_of(KB))
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire, Wire(broker.bootstrap) as other:
        sent = wire.send(Api.FETCH, 11, **fetch_body({"orders": {0: 5}}, max_wait=FOREVER, min_bytes=minimum))
        for value in (b"new", KB, KB):
            produce(other, "orders", batch_of(value))
        assert values_in(partitions_of(wire.receive(sent))[0])[0] == b"new"
        partition = broker._running().node.topics.find("orders").partition(0)  # type: ignore[union-attr]
        assert [segment.loaded for segment in partition._writer.segments._all[:4]] == [False] * 4


@two_partitions
def test_the_bytes_of_all_partitions_count(wire: Wire, other: Wire, topic: str) -> None:
    produce(other, topic, batch_of(KB), 0)
    sent = wire.send(Api.FETCH, 11, **fetch_body({topic: {0: 0, 1: 0}}, max_wait=FOREVER, min_bytes=1_500))
    produce(other, topic, batch_of(KB), 1)
    assert [values_in(each) for each in partitions_of(wire.receive(sent))] == [[KB], [KB]]


def test_what_is_enough_is_given_at_once(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(KB))
    assert values_in(fetch(wire, topic, max_wait=FOREVER, min_bytes=1_000)) == [KB]


def test_a_fetch_waits_no_longer_than_it_wants(wire: Wire, topic: str) -> None:
    begun = time.monotonic()
    found = fetch(wire, topic, max_wait=300)
    assert time.monotonic() - begun >= 0.29
    assert bytes(found["records"]) == b""
    assert code(found) == ErrorCode.NONE


def test_what_there_is_is_given_when_the_wait_is_over(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(KB))
    begun = time.monotonic()
    found = fetch(wire, topic, max_wait=300, min_bytes=10_000)
    assert time.monotonic() - begun >= 0.29
    assert values_in(found) == [KB]


@pytest.mark.parametrize("limits", [{"min_bytes": 0, "max_wait": FOREVER}, {"min_bytes": 10, "max_wait": 0}])
def test_whoever_does_not_want_to_wait_does_not(wire: Wire, topic: str, limits: dict[str, int]) -> None:
    assert values_in(fetch(wire, topic, **limits)) == []


@two_partitions
def test_any_of_the_partitions_ends_the_wait(wire: Wire, other: Wire, topic: str) -> None:
    sent = wire.send(Api.FETCH, 11, **fetch_body({topic: {0: 0, 1: 0}}, max_wait=FOREVER))
    produce(other, topic, batch_of(b"a"), partition=1)
    assert [values_in(each) for each in partitions_of(wire.receive(sent))] == [[], [b"a"]]


def test_many_wait_for_the_same_record(wire: Wire, runnel_broker: Broker, topic: str) -> None:
    waiting = [Wire(runnel_broker.bootstrap) for _ in range(20)]
    sent = [each.send(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, max_wait=FOREVER)) for each in waiting]
    produce(wire, topic, batch_of(b"a"))
    for each, request in zip(waiting, sent, strict=True):
        assert values_in(partitions_of(each.receive(request))[0]) == [b"a"]
        each.close()


def test_a_client_that_is_gone_while_it_waits_hurts_nobody(wire: Wire, runnel_broker: Broker, topic: str) -> None:
    for minimum in (1, 10_000):
        with Wire(runnel_broker.bootstrap) as gone:
            gone.send(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, max_wait=FOREVER, min_bytes=minimum))
    produce(wire, topic, batch_of(b"a"))
    assert values_in(fetch(wire, topic)) == [b"a"]


def test_a_topic_that_is_deleted_ends_the_wait(wire: Wire, other: Wire, topic: str) -> None:
    name = f"{topic}-gone"
    topic_id = create_topic(other, name)
    body = fetch_body({name: {0: 0}}, max_wait=FOREVER)
    body["topics"][0]["topic_id"] = topic_id
    for version in (11, 13):
        sent = wire.send(Api.FETCH, version, **body)
        metadata(other, name)
        delete_topic(other, name)
        found = partitions_of(wire.receive(sent))[0]
        assert bytes(found["records"]) == b""
        assert code(found) in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
        body["topics"][0]["topic_id"] = create_topic(other, name)


def test_what_was_there_of_a_topic_that_is_deleted_is_not_given(wire: Wire, other: Wire, topic: str) -> None:
    name = f"{topic}-gone"
    topic_id = create_topic(other, name)
    produce(other, name, batch_of(b"old"))
    body = fetch_body({name: {0: 0}}, max_wait=FOREVER, min_bytes=10_000)
    body["topics"][0]["topic_id"] = topic_id
    sent = wire.send(Api.FETCH, 13, **body)
    metadata(other, name)
    delete_topic(other, name)
    found = partitions_of(wire.receive(sent))[0]
    assert (code(found), bytes(found["records"])) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")


def test_a_broker_that_stops_ends_the_wait() -> None:
    with Broker() as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders")
        sent = wire.send(Api.FETCH, 11, **fetch_body({"orders": {0: 0}}, max_wait=FOREVER))
        with Wire(broker.bootstrap) as other:  # its answer says that the fetch has arrived, too
            metadata(other, "orders")
        broker.stop()
        found = partitions_of(wire.receive(sent))[0]
        assert (code(found), bytes(found["records"])) == (ErrorCode.NONE, b"")
        assert wire.is_closed()


# --- order


def test_what_is_asked_after_a_fetch_that_waits_is_answered_after_it(wire: Wire, other: Wire, topic: str) -> None:
    waiting = wire.send(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, max_wait=FOREVER))
    versions = wire.send(Api.API_VERSIONS, 0)
    second = wire.send(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, max_wait=FOREVER))
    listed = wire.send(Api.LIST_GROUPS, 0)
    produce(other, topic, batch_of(b"a"))
    assert values_in(partitions_of(wire.receive(waiting))[0]) == [b"a"]
    assert wire.receive(versions)["api_keys"]
    assert values_in(partitions_of(wire.receive(second))[0]) == [b"a"]
    assert wire.receive(listed)["error_code"] == 0


def test_many_requests_at_once_are_answered_in_their_order(wire: Wire, topic: str) -> None:
    """More than the broker works on at once, and of all sorts: some are answered at once, some wait for the disk."""
    asked: list[tuple[Api, int, dict[str, Any]]] = [
        (Api.PRODUCE, 9, produce_body(topic, batch_of(b"a"))),
        (Api.API_VERSIONS, 0, {}),
        (Api.FETCH, 11, fetch_body({topic: {0: 0}})),
        (Api.INIT_PRODUCER_ID, 0, {"transactional_id": None, "transaction_timeout": 1}),
        (Api.LIST_GROUPS, 0, {}),
    ]
    sent = [wire.send(api, version, **body) for _ in range(60) for api, version, body in asked]
    for number, request in enumerate(sent):
        answer = wire.receive(request)  # it checks that it belongs to this request
        if request.api_key == Api.PRODUCE:
            assert answer["responses"][0]["partition_responses"][0]["base_offset"] == number // len(asked)
        if request.api_key == Api.FETCH:  # an answer that was sent before tells of a record that is there
            assert partitions_of(answer)[0]["high_watermark"] >= number // len(asked) + 1


def test_a_fetch_that_waits_holds_up_no_other_connection(wire: Wire, other: Wire, topic: str) -> None:
    sent = wire.send(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, max_wait=FOREVER))
    for _ in range(3):
        assert metadata(other, topic)["topics"][0]["name"] == topic
    produce(other, topic, batch_of(b"a"))
    assert values_in(partitions_of(wire.receive(sent))[0]) == [b"a"]


# --- sessions are declined


def test_whoever_asks_for_a_session_gets_none(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a"))
    answer = wire.ask(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, session_id=0, session_epoch=0))
    assert (answer["error_code"], answer["session_id"]) == (0, 0)
    assert values_in(partitions_of(answer)[0]) == [b"a"]


@pytest.mark.parametrize("session_id", [7, 123_456, 0])
def test_a_session_that_is_gone_is_told(wire: Wire, topic: str, session_id: int) -> None:
    answer = wire.ask(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, session_id=session_id, session_epoch=3))
    assert answer["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer["responses"] == []


@pytest.mark.parametrize("session_epoch", [0, -1], ids=["begins again", "ends it"])
def test_a_whole_list_is_answered_though_its_session_is_gone(wire: Wire, topic: str, session_epoch: int) -> None:
    produce(wire, topic, batch_of(b"a"))
    answer = wire.ask(Api.FETCH, 11, **fetch_body({topic: {0: 0}}, session_id=7, session_epoch=session_epoch))
    assert answer["error_code"] == ErrorCode.NONE
    assert values_in(partitions_of(answer)[0]) == [b"a"]


def test_a_fetch_for_nothing_is_answered_at_once(wire: Wire) -> None:
    assert wire.ask(Api.FETCH, 11, **fetch_body({}, max_wait=FOREVER))["responses"] == []


# --- throttling


def test_a_consumer_over_its_quota_is_answered_first_and_heard_later(runnel_broker: Broker, topic: str) -> None:
    with Wire(runnel_broker.bootstrap, "slow-reader") as slow, Wire(runnel_broker.bootstrap) as other:
        produce(other, topic, batch_of(b"x" * 12_000))
        entity = [{"entity_type": "client-id", "entity_name": "slow-reader"}]
        ops = [{"key": "consumer_byte_rate", "value": 1_000.0, "remove": False}]
        other.ask(Api.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
        answer = slow.ask(Api.FETCH, 11, **fetch_body({topic: {0: 0}}))
        answered = time.monotonic()
        throttle = answer["throttle_time"]
        assert throttle > 0
        metadata(slow, topic)
        assert time.monotonic() - answered >= 0.9 * throttle / 1000
        assert other.ask(Api.FETCH, 11, **fetch_body({topic: {0: 0}}))["throttle_time"] == 0
