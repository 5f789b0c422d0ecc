import struct
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from crc32c import crc32c

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import APPEND_TIME as APPEND_TIME_BIT
from runnel.records import CONTROL, TRANSACTIONAL, Codec, Producer, Record, build_batch, parse_header
from tests.broker_wire import (
    EARLIEST,
    LATEST,
    Wire,
    batch_of,
    create_topic,
    fetch,
    metadata,
    offset_at,
    produce,
    produce_body,
    records_in,
    values_in,
)

two_partitions = pytest.mark.runnel_topic(partitions=2)
NOW = time.time_ns() // 1_000_000
HOUR = 3_600_000


def code(result: Message) -> ErrorCode:
    return ErrorCode(result["error_code"])


def changed(batch: bytes, position: int, code: str, *values: Any) -> bytes:
    """The batch with another number in its header, and a right checksum."""
    data = bytearray(batch)
    struct.pack_into(f">{code}", data, position, *values)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def numbered(*values: bytes, sequence: int, epoch: int = 0, producer: int = 4_711) -> bytes:
    return batch_of(*values, producer=Producer(producer, epoch, sequence))


# --- appending


def test_a_batch_gets_the_next_offsets(wire: Wire, topic: str) -> None:
    assert produce(wire, topic, batch_of(b"a", b"b"))["base_offset"] == 0
    assert produce(wire, topic, batch_of(b"c"))["base_offset"] == 2
    assert values_in(fetch(wire, topic)) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("acks", [-1, 1])
def test_whoever_asks_for_an_acknowledgement_gets_one(wire: Wire, topic: str, acks: int) -> None:
    result = produce(wire, topic, batch_of(b"a"), acks=acks)
    assert code(result) == ErrorCode.NONE
    assert result["error_message"] is None
    assert result["record_errors"] == []
    assert result["log_append_time"] == -1
    assert result["log_start_offset"] == 0


@pytest.mark.parametrize("version", [3, 6, 7])
@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.LZ4], ids=lambda codec: codec.name)
@pytest.mark.parametrize("acks", [-1, 1])
def test_zstd_is_known_from_version_7_on(wire: Wire, topic: str, version: int, codec: Codec, acks: int) -> None:
    body = produce_body(topic, batch_of(b"a" * 100, codec=codec), acks=acks)
    (response,) = wire.ask(Api.PRODUCE, version, **body)["responses"]
    is_refused = version < 7 and codec is Codec.ZSTD
    expected = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if is_refused else ErrorCode.NONE
    assert response["partition_responses"][0]["error_code"] == expected
    assert len(values_in(fetch(wire, topic))) == (0 if is_refused else 1)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_a_batch_is_kept_as_it_was_compressed(wire: Wire, topic: str, codec: Codec) -> None:
    batch = batch_of(b"a" * 100, b"b" * 100, codec=codec)
    produce(wire, topic, batch)
    assert bytes(fetch(wire, topic)["records"])[16:] == batch[16:]


@two_partitions
def test_the_partitions_of_a_request_are_answered_in_their_order(wire: Wire, topic: str) -> None:
    body = produce_body(topic, batch_of(b"one"), partition=1)
    body["topic_data"][0]["partition_data"].append({"index": 0, "records": batch_of(b"zero")})
    (answer,) = wire.ask(Api.PRODUCE, 9, **body)["responses"]
    assert [each["index"] for each in answer["partition_responses"]] == [1, 0]
    assert values_in(fetch(wire, topic, partition=0)) == [b"zero"]
    assert values_in(fetch(wire, topic, partition=1)) == [b"one"]


@two_partitions
def test_a_partition_that_is_refused_does_not_hurt_the_others(wire: Wire, topic: str) -> None:
    body = produce_body(topic, batch_of(b"a"))
    body["topic_data"][0]["partition_data"].append({"index": 1, "records": b"\x00" * 100})
    body["topic_data"].append({"name": f"{topic}-missing", "partition_data": [{"index": 0, "records": batch_of(b"x")}]})
    first, second = wire.ask(Api.PRODUCE, 9, **body)["responses"]
    assert [bool(each["error_code"]) for each in first["partition_responses"]] == [False, True]
    assert code(second["partition_responses"][0]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert values_in(fetch(wire, topic)) == [b"a"]


def test_requests_that_overtake_each_other_are_answered_in_their_order(wire: Wire, topic: str) -> None:
    sent = [wire.send(Api.PRODUCE, 9, **produce_body(topic, batch_of(b"%d" % number))) for number in range(50)]
    answers = [wire.receive(each)["responses"][0]["partition_responses"][0] for each in sent]
    assert [each["base_offset"] for each in answers] == list(range(50))
    assert values_in(fetch(wire, topic)) == [b"%d" % number for number in range(50)]


# --- without acknowledgement


def test_acks_of_0_gets_no_answer_and_the_record_is_there(wire: Wire, topic: str) -> None:
    wire.send(Api.PRODUCE, 9, **produce_body(topic, batch_of(b"a"), acks=0))
    # The next answer belongs to the next request.
    assert code(produce(wire, topic, batch_of(b"b"))) == ErrorCode.NONE
    assert values_in(fetch(wire, topic)) == [b"a", b"b"]


@pytest.mark.parametrize("partition", [0, 7], ids=["a damaged batch", "an unknown partition"])
def test_an_error_with_acks_of_0_ends_the_connection_and_no_other(
    wire: Wire, other: Wire, topic: str, partition: int
) -> None:
    batch = batch_of(b"a") if partition else batch_of(b"a")[:-1] + b"?"
    wire.send(Api.PRODUCE, 9, **produce_body(topic, batch, partition, acks=0))
    assert wire.is_closed()
    assert code(produce(other, topic, batch_of(b"b"))) == ErrorCode.NONE
    assert values_in(fetch(other, topic)) == [b"b"]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused_and_nothing_is_written(wire: Wire, topic: str, acks: int) -> None:
    assert code(produce(wire, topic, batch_of(b"a"), acks=acks)) == ErrorCode.INVALID_REQUIRED_ACKS
    assert offset_at(wire, topic, LATEST) == 0


# --- topics


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_an_unknown_partition_is_told(wire: Wire, topic: str, partition: int) -> None:
    result = produce(wire, topic, batch_of(b"a"), partition)
    assert code(result) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result["base_offset"] == -1


def test_a_topic_is_not_made_by_writing_to_it(wire: Wire, topic: str) -> None:
    missing = f"{topic}-missing"
    for _ in range(2):
        assert code(produce(wire, missing, batch_of(b"a"))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_internal_topics_cannot_be_written(wire: Wire) -> None:
    assert code(produce(wire, "__consumer_offsets", batch_of(b"a"))) == ErrorCode.INVALID_TOPIC


def produce_by_id(wire: Wire, topic_id: UUID | None, records: bytes) -> Message:
    body = produce_body("", records)
    body["topic_data"][0]["topic_id"] = topic_id
    (answer,) = wire.ask(Api.PRODUCE, 13, **body)["responses"]
    assert answer["topic_id"] == topic_id
    result: Message = answer["partition_responses"][0]
    return result


def delete_topic(wire: Wire, name: str) -> None:
    (answer,) = wire.ask(Api.DELETE_TOPICS, 6, topics=[{"name": name, "topic_id": None}], timeout=30_000)["responses"]
    assert not answer["error_code"]


def test_from_version_13_on_topics_are_named_by_their_id(wire: Wire, topic: str) -> None:
    topic_id = create_topic(wire, f"{topic}-by-id")
    assert code(produce_by_id(wire, topic_id, batch_of(b"a"))) == ErrorCode.NONE
    assert values_in(fetch(wire, f"{topic}-by-id")) == [b"a"]


@pytest.mark.parametrize("topic_id", [UUID(int=2**100 + 1), None], ids=["unknown", "zero"])
def test_an_unknown_id_is_told(wire: Wire, topic_id: UUID | None) -> None:
    assert code(produce_by_id(wire, topic_id, batch_of(b"a"))) == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_id_of_a_topic_that_was_made_again_is_unknown(wire: Wire, topic: str) -> None:
    name = f"{topic}-again"
    before = create_topic(wire, name)
    delete_topic(wire, name)
    after = create_topic(wire, name)
    assert before != after
    assert code(produce_by_id(wire, before, batch_of(b"a"))) == ErrorCode.UNKNOWN_TOPIC_ID
    assert code(produce_by_id(wire, after, batch_of(b"b"))) == ErrorCode.NONE
    assert values_in(fetch(wire, name)) == [b"b"]


# --- batches that are refused


def refused(wire: Wire, topic: str, batch: bytes | None) -> ErrorCode:
    """Why; and nothing was written."""
    result = produce(wire, topic, batch)
    assert result["base_offset"] == -1
    assert offset_at(wire, topic, LATEST) == 0
    return code(result)


@pytest.mark.parametrize("records", [None, b""], ids=["null", "empty"])
def test_a_partition_needs_a_batch(wire: Wire, topic: str, records: bytes | None) -> None:
    assert refused(wire, topic, records) == ErrorCode.INVALID_RECORD


def test_a_partition_takes_one_batch_at_a_time(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch_of(b"a") + batch_of(b"b")) == ErrorCode.INVALID_RECORD


def test_a_wrong_checksum_is_told(wire: Wire, topic: str) -> None:
    batch = bytearray(batch_of(b"abc"))
    batch[-2] ^= 1
    assert refused(wire, topic, bytes(batch)) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_of_an_older_format_is_refused(wire: Wire, topic: str) -> None:
    old = bytearray(batch_of(b"a" * 100))
    old[16] = 1
    assert refused(wire, topic, bytes(old)) == ErrorCode.INVALID_RECORD


def test_the_log_gives_the_offsets(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch_of(b"a", base_offset=5)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [0, 1, 3, -1])
def test_as_many_records_as_offsets_are_needed(wire: Wire, topic: str, count: int) -> None:
    assert refused(wire, topic, changed(batch_of(b"a", b"b"), 57, "i", count)) == ErrorCode.INVALID_RECORD


def test_clients_write_no_control_batches(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch_of(b"a", attributes=CONTROL)) == ErrorCode.INVALID_RECORD


def test_a_producer_with_an_id_numbers_its_batches(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, changed(numbered(b"a", sequence=0), 53, "i", -1)) == ErrorCode.INVALID_RECORD


@pytest.mark.runnel_topic(configs={"max.message.bytes": 1000})
def test_a_batch_has_at_most_max_message_bytes(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch_of(b"a" * 1000)) == ErrorCode.MESSAGE_TOO_LARGE
    fitting = batch_of(b"a" * 900)
    assert code(produce(wire, topic, fitting)) == ErrorCode.NONE


@pytest.mark.runnel_topic(configs={"max.message.bytes": 3_000_000, "segment.bytes": 1_048_576})
def test_a_batch_that_fits_in_no_segment_is_refused(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch_of(b"a" * 1_500_000)) == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.runnel_topic(configs={"cleanup.policy": "compact"})
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=lambda codec: codec.name)
def test_a_compacted_topic_needs_keys(wire: Wire, topic: str, codec: Codec) -> None:
    batch = build_batch([Record(b"a", b"key", NOW), Record(b"b", None, NOW), Record(b"c", None, NOW)], codec=codec)
    result = produce(wire, topic, batch)
    assert code(result) == ErrorCode.INVALID_RECORD
    assert [each["batch_index"] for each in result["record_errors"]] == [1, 2]
    assert offset_at(wire, topic, LATEST) == 0


@pytest.mark.runnel_topic(configs={"cleanup.policy": "compact"})
def test_a_compacted_topic_takes_records_with_keys(wire: Wire, topic: str) -> None:
    assert code(produce(wire, topic, build_batch([Record(None, b"key", NOW)]))) == ErrorCode.NONE


def test_a_transactional_batch_needs_a_transactional_id(wire: Wire, topic: str) -> None:
    batch = batch_of(b"a", producer=Producer(7, 0, 0), attributes=TRANSACTIONAL)
    assert refused(wire, topic, batch) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_batch_outside_of_transactions_may_come_with_a_transactional_id(wire: Wire, topic: str) -> None:
    body = produce_body(topic, batch_of(b"a")) | {"transactional_id": "t"}
    (answer,) = wire.ask(Api.PRODUCE, 9, **body)["responses"]
    assert code(answer["partition_responses"][0]) == ErrorCode.NONE


# --- times


@pytest.mark.runnel_topic(configs={"message.timestamp.after.max.ms": HOUR})
def test_a_timestamp_may_not_be_too_far_ahead(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch_of(b"a", timestamp=NOW + 3 * HOUR)) == ErrorCode.INVALID_TIMESTAMP
    assert code(produce(wire, topic, batch_of(b"b", timestamp=NOW))) == ErrorCode.NONE


@pytest.mark.runnel_topic(configs={"message.timestamp.before.max.ms": HOUR})
def test_a_timestamp_may_not_be_too_old(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch_of(b"a", timestamp=NOW - 3 * HOUR)) == ErrorCode.INVALID_TIMESTAMP
    assert code(produce(wire, topic, batch_of(b"b", timestamp=NOW))) == ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.runnel_topic(configs={"message.timestamp.before.max.ms": HOUR})
def test_no_record_of_a_batch_may_be_too_old(wire: Wire, topic: str, codec: Codec) -> None:
    times = NOW, NOW - 3 * HOUR, NOW
    batch = build_batch([Record(b"a", timestamp=time) for time in times], codec=codec)
    assert refused(wire, topic, batch) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.runnel_topic(configs={"message.timestamp.before.max.ms": HOUR})
def test_records_without_a_timestamp_are_not_too_old(wire: Wire, topic: str) -> None:
    assert code(produce(wire, topic, build_batch([Record(b"a")]))) == ErrorCode.NONE


APPEND_TIME = {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": HOUR}


@pytest.mark.runnel_topic(configs=APPEND_TIME)
def test_a_topic_can_give_its_own_time(wire: Wire, topic: str) -> None:
    """Then the producer's time does not matter, however old or new it is."""
    old = produce(wire, topic, batch_of(b"a", timestamp=NOW - 3 * HOUR))
    new = produce(wire, topic, batch_of(b"b", timestamp=NOW + 30 * HOUR))
    assert [code(old), code(new)] == [ErrorCode.NONE, ErrorCode.NONE]
    first, second = records_in(fetch(wire, topic)["records"])
    assert NOW <= first.timestamp <= second.timestamp < NOW + HOUR
    assert [old["log_append_time"], new["log_append_time"]] == [first.timestamp, second.timestamp]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_producer_cannot_give_the_topics_time(wire: Wire, topic: str, codec: Codec) -> None:
    """As in Kafka: the batch keeps its own times, and is as any other of the topic."""
    result = produce(wire, topic, batch_of(b"a", b"b", timestamp=NOW, codec=codec, attributes=APPEND_TIME_BIT))
    assert (code(result), result["log_append_time"]) == (ErrorCode.NONE, -1)
    data = bytes(fetch(wire, topic)["records"])
    assert not parse_header(data).is_append_time
    assert [record.timestamp for record in records_in(data)] == [NOW, NOW + 1]


def test_a_batch_without_times_cannot_claim_the_topics(wire: Wire, topic: str) -> None:
    batch = build_batch([Record(b"a")], attributes=APPEND_TIME_BIT)
    assert refused(wire, topic, batch) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.runnel_topic(configs=APPEND_TIME)
def test_a_batch_that_has_the_topics_time_already_is_refused(wire: Wire, topic: str) -> None:
    batch = batch_of(b"a", timestamp=NOW, attributes=APPEND_TIME_BIT)
    assert refused(wire, topic, batch) == ErrorCode.INVALID_TIMESTAMP


def test_damage_to_a_batch_that_claims_the_topics_time_is_told(wire: Wire, topic: str) -> None:
    batch = batch_of(b"a", timestamp=NOW, attributes=APPEND_TIME_BIT)
    assert refused(wire, topic, batch[:-1] + b"!") == ErrorCode.CORRUPT_MESSAGE


# --- idempotent producers


def test_a_batch_that_is_sent_twice_is_written_once(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"before"))
    batch = numbered(b"a", b"b", sequence=0)
    for _ in range(3):
        result = produce(wire, topic, batch)
        assert (code(result), result["base_offset"]) == (ErrorCode.NONE, 1)
    assert values_in(fetch(wire, topic)) == [b"before", b"a", b"b"]


def test_a_batch_may_be_sent_again_while_it_is_on_its_way(wire: Wire, topic: str) -> None:
    body = produce_body(topic, numbered(b"a", sequence=0))
    sent = [wire.send(Api.PRODUCE, 9, **body) for _ in range(5)]
    results = [wire.receive(each)["responses"][0]["partition_responses"][0] for each in sent]
    assert {(each["error_code"], each["base_offset"]) for each in results} == {(0, 0)}
    assert offset_at(wire, topic, LATEST) == 1


def test_the_last_five_batches_are_remembered(wire: Wire, topic: str) -> None:
    batches = [numbered(b"%d" % number, sequence=number) for number in range(6)]
    for batch in batches:
        produce(wire, topic, batch)
    assert [produce(wire, topic, batch)["base_offset"] for batch in batches[1:]] == [1, 2, 3, 4, 5]
    assert code(produce(wire, topic, batches[0])) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offset_at(wire, topic, LATEST) == 6


@pytest.mark.parametrize("sequence", [0, 2, 100])
def test_a_gap_in_the_sequence_is_refused(wire: Wire, topic: str, sequence: int) -> None:
    produce(wire, topic, numbered(b"a", sequence=0))
    result = produce(wire, topic, numbered(b"b", b"c", sequence=sequence))
    assert code(result) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(produce(wire, topic, numbered(b"b", sequence=1))) == ErrorCode.NONE


def test_a_sequence_begins_again_after_the_largest_number(wire: Wire, topic: str) -> None:
    assert code(produce(wire, topic, numbered(b"a", sequence=2**31 - 1))) == ErrorCode.NONE
    assert code(produce(wire, topic, numbered(b"b", sequence=0))) == ErrorCode.NONE


def test_an_older_epoch_is_fenced(wire: Wire, topic: str) -> None:
    produce(wire, topic, numbered(b"a", sequence=0, epoch=3))
    assert code(produce(wire, topic, numbered(b"b", sequence=1, epoch=2))) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_0(wire: Wire, topic: str) -> None:
    produce(wire, topic, numbered(b"a", sequence=0))
    refused = produce(wire, topic, numbered(b"b", sequence=1, epoch=1))
    assert code(refused) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(produce(wire, topic, numbered(b"b", sequence=0, epoch=1))) == ErrorCode.NONE


def test_an_unknown_producer_may_begin_anywhere(wire: Wire, topic: str) -> None:
    assert code(produce(wire, topic, numbered(b"a", sequence=77))) == ErrorCode.NONE


@two_partitions
def test_sequences_are_counted_in_each_partition(wire: Wire, topic: str) -> None:
    assert code(produce(wire, topic, numbered(b"a", sequence=0), 0)) == ErrorCode.NONE
    assert code(produce(wire, topic, numbered(b"b", sequence=0), 1)) == ErrorCode.NONE


def test_a_restart_forgets_no_sequence(tmp_path) -> None:
    batches = [numbered(b"%d" % number, sequence=number) for number in range(5)]
    with Broker(tmp_path) as broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, "orders")
            for batch in batches:
                produce(wire, "orders", batch)
        broker.stop()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            assert [produce(wire, "orders", batch)["base_offset"] for batch in batches] == [0, 1, 2, 3, 4]
            assert code(produce(wire, "orders", numbered(b"5", sequence=5))) == ErrorCode.NONE
            assert offset_at(wire, "orders", LATEST) == 6


# --- what else the answer says


def test_the_answer_says_where_the_log_begins(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a", b"b"))
    partitions = [{"partition_index": 0, "offset": 1}]
    wire.ask(Api.DELETE_RECORDS, 2, topics=[{"name": topic, "partitions": partitions}], timeout=30_000)
    assert produce(wire, topic, batch_of(b"c"))["log_start_offset"] == 1
    assert offset_at(wire, topic, EARLIEST) == 1


def test_the_answer_gives_the_reason_in_words(wire: Wire, topic: str) -> None:
    assert "base offset 5" in produce(wire, topic, batch_of(b"a", base_offset=5))["error_message"]


# --- throttling

RATE = 1_000  # bytes a second; measured over ten seconds, so that 12 kB are about two seconds too many
TOO_MUCH = b"x" * 12_000


@pytest.fixture
def slow(runnel_broker: Broker, topic: str) -> Iterator[Wire]:
    """A client with a quota of its own."""
    with Wire(runnel_broker.bootstrap, topic) as wire:
        entity = [{"entity_type": "client-id", "entity_name": topic}]
        ops = [{"key": "producer_byte_rate", "value": float(RATE), "remove": False}]
        entries = [{"entity": entity, "ops": ops}]
        (answer,) = wire.ask(Api.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False)["entries"]
        assert not answer["error_code"], answer["error_message"]
        yield wire


def test_a_producer_over_its_quota_is_answered_first_and_heard_later(slow: Wire, other: Wire, topic: str) -> None:
    answer = slow.ask(Api.PRODUCE, 9, **produce_body(topic, batch_of(TOO_MUCH)))
    answered = time.monotonic()
    throttle = answer["throttle_time"]
    assert throttle > 0
    assert answer["responses"][0]["partition_responses"][0]["base_offset"] == 0
    metadata(slow, topic)
    assert time.monotonic() - answered >= 0.9 * throttle / 1000
    assert other.ask(Api.PRODUCE, 9, **produce_body(topic, batch_of(TOO_MUCH)))["throttle_time"] == 0


def test_a_producer_that_asks_for_no_acknowledgement_has_its_quota_too(slow: Wire, topic: str) -> None:
    begun = time.monotonic()
    slow.send(Api.PRODUCE, 9, **produce_body(topic, batch_of(TOO_MUCH), acks=0))
    metadata(slow, topic)
    assert time.monotonic() - begun >= 1.0
