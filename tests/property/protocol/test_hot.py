"""What is read and written by hand is what the general reader and writer give, or it is left to them."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import MalformedRequest
from runnel.protocol.decode import MOST_ITEMS, _read, _request_reader
from runnel.protocol.encode import Encoder, request_encoder
from runnel.protocol.hot import (
    FLEXIBLE_SINCE,
    IDS_SINCE,
    added_partitions_answer,
    end_answer,
    read_added_partitions,
    read_end,
    read_single_produce,
    single_produce_answer,
)
from runnel.protocol.schemas import schema
from runnel.protocol.versions import SERVED, Api


def mostly_one(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, min_size=1, max_size=1) | st.lists(items, max_size=2)


versions = st.integers(3, SERVED[Api.PRODUCE].most)
numbers = st.integers(-(2**31), 2**31 - 1)
offsets = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=200)
ids = st.uuids() | st.just(UUID(int=0)) | st.none()
partitions = st.fixed_dictionaries({"index": numbers, "records": st.binary(max_size=300) | st.none()})
topics = st.fixed_dictionaries({"name": names, "topic_id": ids, "partition_data": mostly_one(partitions)})
requests = st.fixed_dictionaries(
    {
        "transactional_id": st.none() | names,
        "acks": st.integers(-1, 1),
        "timeout": numbers,
        "topic_data": mostly_one(topics),
    }
)
results = st.fixed_dictionaries(
    {
        "index": numbers,
        "error_code": st.just(0) | st.integers(0, 100),
        "base_offset": offsets,
        "log_append_time": offsets,
        "log_start_offset": offsets,
        "record_errors": st.just(()),
        "error_message": st.none(),
    }
)
answers = st.fixed_dictionaries(
    {
        "responses": st.lists(
            st.fixed_dictionaries(
                {"name": names, "topic_id": ids, "partition_responses": st.lists(results, min_size=1, max_size=2)}
            ),
            max_size=2,
        ),
        "throttle_time": numbers,
    }
)


def general(data: bytes, start: int, end: int, version: int, api: Api = Api.PRODUCE) -> dict[str, Any] | None:
    try:
        return _read(_request_reader(api, version), data, start, end, MOST_ITEMS)
    except MalformedRequest:
        return None


def body_of(version: int, request: dict[str, Any], api: Api = Api.PRODUCE) -> bytes:
    return b"".join(bytes(part) for part in request_encoder(api, version)(request))


@given(versions, requests, st.binary(max_size=5), st.binary(max_size=5))
def test_a_request_is_read_as_the_general_reader_reads_it(
    version: int, request: dict[str, Any], before: bytes, after: bytes
) -> None:
    body = body_of(version, request)
    data, start, end = before + body + after, len(before), len(before) + len(body)
    by_hand = read_single_produce(data, start, end, version)
    assert by_hand is None or by_hand == general(data, start, end, version)


@given(versions, requests, st.data())
def test_changed_bytes_are_read_so_too(version: int, request: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(body_of(version, request))
    for position in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        body[position] = data.draw(st.integers(0, 255))
    changed = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    by_hand = read_single_produce(changed, 0, len(changed), version)
    assert by_hand is None or by_hand == general(changed, 0, len(changed), version)


@given(
    st.integers(FLEXIBLE_SINCE, SERVED[Api.PRODUCE].most),
    numbers,
    st.binary(min_size=1, max_size=300),
    st.none() | st.text(max_size=30),
)
def test_the_common_request_is_not_left_to_the_general_reader(
    version: int, index: int, records: bytes, transactional_id: str | None
) -> None:
    topic = {"name": "t", "topic_id": UUID(int=7), "partition_data": [{"index": index, "records": records}]}
    body = body_of(version, {"transactional_id": transactional_id, "acks": -1, "timeout": 1, "topic_data": [topic]})
    assert read_single_produce(body, 0, len(body), version) is not None


@given(versions, answers)
def test_an_answer_is_written_as_the_general_writer_writes_it(version: int, answer: dict[str, Any]) -> None:
    known = schema(Api.PRODUCE, version)
    encoder = Encoder(known.response, flexible=known.flexible_answer, flexible_header=known.flexible_answer_header)
    by_hand = single_produce_answer(version, answer)
    assert by_hand is None or by_hand == b"".join(bytes(part) for part in encoder(answer))
    if version >= FLEXIBLE_SINCE and is_common(version, answer["responses"]):
        assert by_hand is not None


TELLING_MORE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"error_message": ""}, {}),
    ({"record_errors": [{"batch_index": 0, "batch_index_error_message": None}]}, {}),
    ({"current_leader": {"leader_id": 1, "leader_epoch": 7}}, {}),
    ({}, {"node_endpoints": [{"node_id": 1, "host": "h", "port": 2, "rack": None}]}),
]


@pytest.mark.parametrize(("of_partition", "of_all"), TELLING_MORE)
def test_an_answer_that_tells_more_is_left_to_the_general_writer(
    of_partition: dict[str, Any], of_all: dict[str, Any]
) -> None:
    result = {"index": 0, "error_code": 0, "base_offset": 1, "log_append_time": -1, "log_start_offset": 0}
    topic = {"name": "t", "topic_id": UUID(int=7), "partition_responses": [result | of_partition]}
    answer = {"responses": [topic], "throttle_time": 0, **of_all}
    assert single_produce_answer(SERVED[Api.PRODUCE].most, answer) is None


def is_common(version: int, responses: list[dict[str, Any]]) -> bool:
    if len(responses) != 1 or len(responses[0]["partition_responses"]) != 1:
        return False
    named = responses[0]["topic_id"] if version >= IDS_SINCE else len(responses[0]["name"].encode()) < 127
    return bool(named) and not responses[0]["partition_responses"][0]["error_code"]


# --- partitions that join a transaction

ADD = Api.ADD_PARTITIONS_TO_TXN
adding_versions = st.integers(0, 3)
added_topics = st.fixed_dictionaries({"name": names, "partitions": st.lists(numbers, max_size=150)})
added = st.fixed_dictionaries(
    {
        "v3_and_below_transactional_id": names,
        "v3_and_below_producer_id": offsets,
        "v3_and_below_producer_epoch": st.integers(-(2**15), 2**15 - 1),
        "v3_and_below_topics": mostly_one(added_topics),
    }
)


@given(adding_versions, added, st.binary(max_size=5), st.binary(max_size=5))
def test_partitions_that_join_are_read_as_the_general_reader_reads_them(
    version: int, request: dict[str, Any], before: bytes, after: bytes
) -> None:
    body = body_of(version, request, ADD)
    data, start, end = before + body + after, len(before), len(before) + len(body)
    by_hand = read_added_partitions(data, start, end, version)
    assert by_hand is None or by_hand == general(data, start, end, version, ADD)
    topics = request["v3_and_below_topics"]
    if version < 3 and len(topics) == 1 and len(topics[0]["partitions"]) <= 100:
        assert by_hand is not None


@given(adding_versions, added, st.data())
def test_changed_bytes_of_them_are_read_so_too(version: int, request: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(body_of(version, request, ADD))
    for position in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        body[position] = data.draw(st.integers(0, 255))
    changed = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    by_hand = read_added_partitions(changed, 0, len(changed), version)
    assert by_hand is None or by_hand == general(changed, 0, len(changed), version, ADD)


added_results = st.fixed_dictionaries({"partition_index": numbers, "partition_error_code": st.integers(-1, 100)})
added_answers = st.fixed_dictionaries(
    {
        "results_by_topic_v3_and_below": mostly_one(
            st.fixed_dictionaries({"name": names, "results_by_partition": st.lists(added_results, max_size=150)})
        ),
        "throttle_time": numbers,
    }
)


@given(adding_versions, added_answers)
def test_the_answer_to_them_is_written_as_the_general_writer_writes_it(version: int, answer: dict[str, Any]) -> None:
    known = schema(ADD, version)
    encoder = Encoder(known.response, flexible=known.flexible_answer, flexible_header=known.flexible_answer_header)
    by_hand = added_partitions_answer(version, answer)
    assert by_hand is None or by_hand == b"".join(bytes(part) for part in encoder(answer))
    topics = answer["results_by_topic_v3_and_below"]
    if version < 3 and len(topics) == 1 and len(topics[0]["results_by_partition"]) <= 100:
        assert by_hand is not None


# --- its end

END = Api.END_TXN
ending_versions = st.integers(0, SERVED[END].most)
ends = st.fixed_dictionaries(
    {
        "transactional_id": names,
        "producer_id": offsets,
        "producer_epoch": st.integers(-(2**15), 2**15 - 1),
        "committed": st.booleans(),
    }
)


@given(ending_versions, ends, st.binary(max_size=5), st.binary(max_size=5))
def test_an_end_is_read_as_the_general_reader_reads_it(
    version: int, request: dict[str, Any], before: bytes, after: bytes
) -> None:
    body = body_of(version, request, END)
    data, start, end = before + body + after, len(before), len(before) + len(body)
    by_hand = read_end(data, start, end, version)
    assert by_hand is None or by_hand == general(data, start, end, version, END)
    assert (by_hand is None) == (version >= 3)


@given(ending_versions, ends, st.data())
def test_changed_bytes_of_an_end_are_read_so_too(version: int, request: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(body_of(version, request, END))
    for position in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        body[position] = data.draw(st.integers(0, 255))
    changed = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    by_hand = read_end(changed, 0, len(changed), version)
    assert by_hand is None or by_hand == general(changed, 0, len(changed), version, END)


end_answers = st.fixed_dictionaries(
    {
        "throttle_time": numbers,
        "error_code": st.integers(-1, 100),
        "producer_id": offsets,
        "producer_epoch": st.integers(-(2**15), 2**15 - 1),
    }
)


@given(ending_versions, end_answers)
def test_the_answer_to_an_end_is_written_as_the_general_writer_writes_it(version: int, answer: dict[str, Any]) -> None:
    known = schema(END, version)
    encoder = Encoder(known.response, flexible=known.flexible_answer, flexible_header=known.flexible_answer_header)
    by_hand = end_answer(version, answer)
    assert by_hand is None or by_hand == b"".join(bytes(part) for part in encoder(answer))
    assert (by_hand is None) == (version >= 3)
