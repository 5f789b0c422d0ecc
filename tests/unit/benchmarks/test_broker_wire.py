"""The frames that the benchmark of the broker sends, and what it reads of the answers."""

import socket
import struct

import pytest

from benchmarks import broker_wire as wire
from benchmarks.log_batches import batch_of
from runnel.protocol.decode import read_request
from runnel.protocol.encode import response_encoder
from runnel.protocol.frames import answer_head, parse_header
from runnel.protocol.versions import Api
from runnel.records import place


def request_in(frame):
    header = parse_header(frame, wire.LENGTH.size, len(frame))
    return header, read_request(frame, header, len(frame))


def answer(api, version, body):
    encoder = response_encoder(api, version)
    message = b"".join(encoder(body))
    return answer_head(1, len(message), flexible=encoder.flexible_header) + message


def batches_at(*offsets):
    return b"".join(place(batch_of(400, 4), offset, 0) for offset in offsets)


def test_a_frame_has_its_size_in_front():
    frame = wire.produce_frame("orders", {0: b"batch"})
    assert wire.LENGTH.unpack_from(frame)[0] == len(frame) - wire.LENGTH.size


def test_a_produce_request_asks_for_all_acknowledgements_and_carries_a_batch_for_each_partition():
    header, body = request_in(wire.produce_frame("orders", {0: b"first", 7: b"second"}))
    assert (header.api_key, header.version) == (Api.PRODUCE, wire.PRODUCE_VERSION)
    assert body["acks"] == -1
    (topic,) = body["topic_data"]
    assert topic["name"] == "orders"
    assert {part["index"]: bytes(part["records"]) for part in topic["partition_data"]} == {0: b"first", 7: b"second"}


def test_a_fetch_request_names_the_offset_of_each_partition():
    header, body = request_in(wire.fetch_frame("orders", {0: 5, 3: 9}))
    assert (header.api_key, header.version) == (Api.FETCH, wire.FETCH_VERSION)
    (topic,) = body["topics"]
    assert {part["partition"]: part["fetch_offset"] for part in topic["partitions"]} == {0: 5, 3: 9}


@pytest.mark.parametrize("topic", ["t", "requests"])
def test_the_error_code_of_a_produce_answer_is_found_where_it_stands(topic):
    result = {"index": 0, "error_code": 0x1234, "base_offset": 5, "log_append_time": -1, "record_errors": ()}
    body = {"responses": [{"name": topic, "partition_responses": [result]}], "throttle_time": 0}
    data = answer(Api.PRODUCE, wire.PRODUCE_VERSION, body)
    assert struct.unpack_from(">h", data, wire.produce_error_at(topic)) == (0x1234,)


def test_the_batches_that_are_whole_are_counted_and_the_offset_after_them_is_told():
    records = memoryview(batches_at(10, 14))
    assert wire.whole_batches(records) == (800, 18)
    assert wire.whole_batches(records[:-1]) == (400, 14)


@pytest.mark.parametrize("length", [0, 5, 61])
def test_without_a_whole_batch_there_is_no_next_offset(length):
    assert wire.whole_batches(memoryview(batches_at(10))[:length]) == (0, None)


BROKER = {"node_id": 1, "host": "127.0.0.1", "port": 9092}
LED = {"error_code": 0}
LEADERLESS = {"error_code": 5}


@pytest.mark.parametrize(
    ("brokers", "topics", "led"),
    [
        ([], [], False),
        ([BROKER], [], True),
        ([BROKER], [{"error_code": 0, "partitions": [LED, LED]}], True),
        ([BROKER], [{"error_code": 0, "partitions": [LED]}], False),
        ([BROKER], [{"error_code": 0, "partitions": [LED, LEADERLESS]}], False),
        ([BROKER], [{"error_code": 3, "partitions": [LED, LED]}], False),
    ],
)
def test_a_topic_is_led_when_all_of_its_partitions_are_and_a_broker_is_named(brokers, topics, led):
    assert wire.is_led({"brokers": brokers, "topics": topics}, 2) is led


def test_an_answer_that_comes_in_pieces_is_read_whole_and_no_further():
    first = answer(Api.API_VERSIONS, 0, {"error_code": 0, "api_keys": ()})
    second = answer(Api.API_VERSIONS, 0, {"error_code": 35, "api_keys": ()})
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for byte in first + second:
            theirs.send(bytes([byte]))
        assert wire.answer_of(ours, Api.API_VERSIONS, 0)["error_code"] == 0
        assert wire.answer_of(ours, Api.API_VERSIONS, 0)["error_code"] == 35


def test_a_large_buffer_is_kept_for_a_small_answer():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(wire.LENGTH.pack(3) + b"abc")
        buffer = bytearray(b"......")
        assert wire.receive(ours, buffer) == 3
        assert buffer == b"abc..."


def test_a_connection_that_ends_within_an_answer_is_an_error():
    ours, theirs = socket.socketpair()
    with ours:
        theirs.send(wire.LENGTH.pack(10) + b"abc")
        theirs.close()
        with pytest.raises(ConnectionResetError):
            wire.receive(ours, bytearray())
