import struct

import pytest

from runnel.errors import MalformedRequest
from runnel.protocol.encode import put_unsigned_varint
from runnel.protocol.frames import ANSWER_HEAD, answer_head, parse_header, skip_tags, unsigned_varint


def header(client_id: bytes | None, length: int | None = None) -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", 3, 12, 77, size if length is None else length) + (client_id or b"")


def test_a_header_has_key_version_correlation_and_client_id() -> None:
    data = header("ü-app".encode())
    parsed = parse_header(data, 0, len(data))
    assert parsed == (3, 12, 77, "ü-app", len(data))


def test_a_client_may_have_no_id() -> None:
    data = header(None)
    assert parse_header(data, 0, len(data)).client_id is None


def test_a_client_id_may_be_empty() -> None:
    data = header(b"")
    assert parse_header(data, 0, len(data)).client_id == ""


def test_a_client_id_that_is_no_text_is_no_reason_to_refuse() -> None:
    data = header(b"\xff\xfe")
    assert parse_header(data, 0, len(data)).client_id == "\ufffd\ufffd"


def test_a_header_is_read_from_its_place_among_others() -> None:
    data = b"before" + header(b"app") + b"\x01body" + header(b"next")
    start, end = len(b"before"), len(b"before") + len(header(b"app")) + 5
    parsed = parse_header(data, start, end)
    assert parsed.client_id == "app"
    assert data[parsed.end : end] == b"\x01body"


@pytest.mark.parametrize("size", range(10))
def test_a_frame_that_is_shorter_than_a_header_is_malformed(size: int) -> None:
    data = header(None)[:size] + b"next frame"
    with pytest.raises(MalformedRequest, match="shorter than its header"):
        parse_header(data, 0, size)


@pytest.mark.parametrize("length", [4, 100, 32767, -2, -32768])
def test_a_client_id_reaches_at_most_to_the_end_of_its_own_frame(length: int) -> None:
    data = header(b"app", length)
    with pytest.raises(MalformedRequest, match="reaches beyond the request"):
        parse_header(data + b"x" * 40_000, 0, len(data))


# --- tags


def test_tags_of_a_header_are_skipped() -> None:
    tags = b"\x02\x00\x03abc\x81\x01\x00"
    assert skip_tags(b"head" + tags + b"body", 4) == 4 + len(tags)


def test_no_tags_are_one_byte() -> None:
    assert skip_tags(b"\x00body", 0) == 1


@pytest.mark.parametrize(
    "tags", [b"", b"\x01", b"\x01\x00", b"\x01\x00\x05abc", b"\xff", b"\x01\x00\xff\xff\xff\xff\x0f", b"\x02\x00\x00"]
)
def test_tags_that_reach_beyond_the_request_are_malformed(tags: bytes) -> None:
    with pytest.raises(MalformedRequest):
        skip_tags(tags, 0)


def test_a_count_of_tags_that_cannot_be_costs_nothing() -> None:
    with pytest.raises(MalformedRequest):
        skip_tags(b"\xff\xff\xff\xff\x7f\x00\x00", 0)


# --- numbers of variable length


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 16383, 16384, 2**21, 2**31 - 1, 2**32 - 1])
def test_a_number_of_variable_length_goes_both_ways(number: int) -> None:
    data = bytearray(b"..")
    put_unsigned_varint(data, number)
    assert unsigned_varint(bytes(data) + b"rest", 2) == (number, len(data))


def test_a_number_has_at_most_five_bytes() -> None:
    with pytest.raises(MalformedRequest, match="more than five bytes"):
        unsigned_varint(b"\x80\x80\x80\x80\x80\x01", 0)


# --- answers


def test_the_head_of_an_answer_counts_what_follows_its_length() -> None:
    assert answer_head(9, 100, flexible=False) == ANSWER_HEAD.pack(104, 9)


def test_the_head_of_a_flexible_answer_has_an_empty_set_of_tags() -> None:
    assert answer_head(-1, 100, flexible=True) == ANSWER_HEAD.pack(105, -1) + b"\x00"
