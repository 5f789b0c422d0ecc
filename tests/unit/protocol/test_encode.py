import pytest

from runnel.protocol.decode import read_response
from runnel.protocol.encode import COPIED_SIZE, put_string, request_encoder, response_encoder
from runnel.protocol.versions import Api
from tests.property.protocol.kio_messages import Kind, decoded, sample


def test_a_handler_gives_one_mapping_for_all_versions() -> None:
    body = sample(Kind(Api.METADATA, 13, "response"))
    for version in (9, 10, 12, 13):
        kind = Kind(Api.METADATA, version, "response")
        data = b"".join(
            map(bytes, response_encoder(Api.METADATA, version)(body | {"cluster_authorized_operations": 1}))
        )
        assert decoded(kind, data)["topics"][0]["name"] == "näme"


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(KeyError, match="error_code has no value"):
        response_encoder(Api.HEARTBEAT, 0)({})


def test_a_field_with_a_default_may_be_left_out() -> None:
    (data,) = response_encoder(Api.FIND_COORDINATOR, 4)({"throttle_time": 0, "coordinators": ()})
    assert bytes(data) == b"\x00\x00\x00\x00\x01\x00"


def test_large_records_are_parts_of_their_own_and_small_ones_are_copied() -> None:
    large, small = b"L" * (COPIED_SIZE + 1), b"S" * COPIED_SIZE
    partitions = [
        {"partition_index": number, "error_code": 0, "high_watermark": 1, "aborted_transactions": None, "records": data}
        for number, data in enumerate((small, large, small, large))
    ]
    body = {"throttle_time": 0, "error_code": 0, "responses": [{"topic": "t", "partitions": partitions}]}
    parts = response_encoder(Api.FETCH, 12)(body)
    assert [part for part in parts if part is large] == [large, large]
    assert not any(part is small for part in parts)
    data = b"".join(map(bytes, parts))
    found = read_response(Api.FETCH, 12, data)["responses"][0]["partitions"]
    assert [bytes(each["records"]) for each in found] == [small, large, small, large]


def test_an_array_may_be_any_iterable() -> None:
    body = {"throttle_time": 0, "error_code": 0, "groups": iter([{"group_id": "g", "protocol_type": "consumer"}])}
    (data,) = response_encoder(Api.LIST_GROUPS, 2)(body)
    assert read_response(Api.LIST_GROUPS, 2, bytes(data))["groups"][0]["group_id"] == "g"


def test_a_tagged_field_with_its_default_takes_no_room() -> None:
    kind = Kind(Api.FETCH, 12, "request")
    with_default, without = sample(kind) | {"cluster_id": None}, dict(sample(kind))
    del without["cluster_id"]
    encoder = request_encoder(Api.FETCH, 12)
    assert encoder(with_default) == encoder(without)


def test_a_text_may_have_as_many_bytes_as_its_length_can_say() -> None:
    data = bytearray()
    put_string(data, "ü" * 16_383)
    assert data[:2] == b"\x7f\xfe"


@pytest.mark.parametrize("size", [32_768, 65_535, 65_536])
def test_a_text_that_is_too_long_for_its_length_is_shortened(size: int) -> None:
    """An error message may quote what a client sent; a longer one would read as a negative length, or as none."""
    data = bytearray()
    put_string(data, "a" * size)
    length = int.from_bytes(data[:2], "big", signed=True)
    assert 0 < length == len(data) - 2


def test_a_text_that_is_shortened_is_still_text() -> None:
    data = bytearray()
    put_string(data, "a" + "€" * 40_000)
    assert data[2:].decode().startswith("a€")
