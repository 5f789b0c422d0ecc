"""Whatever bytes come, a request is read or malformed: no other error, and little memory."""

import contextlib
import struct
import tracemalloc

from hypothesis import example, given, settings
from hypothesis import strategies as st

from runnel.errors import MalformedRequest
from runnel.protocol.decode import MOST_ITEMS, read_request, read_response
from runnel.protocol.frames import parse_header
from runnel.protocol.schemas import schema
from runnel.protocol.versions import Api
from tests.property.protocol.kio_messages import REQUESTS, RESPONSES, Kind, encoded, sample

MANY = settings(max_examples=1_500)
BYTES_OF_MEMORY = 1_000_000  # for a request of a few hundred bytes

requests = st.sampled_from(REQUESTS)


def read_or_refuse(data: bytes) -> None:
    """Any other error than MalformedRequest goes on."""
    with contextlib.suppress(MalformedRequest):
        read_request(data, parse_header(data, 0, len(data)), len(data))


def head(kind: Kind, client_id: bytes = b"") -> bytes:
    tags = b"\x00" if schema(kind.api_key, kind.version).flexible else b""
    return struct.pack(">hhih", kind.api_key, kind.version, 1, len(client_id)) + client_id + tags


@MANY
@given(requests, st.binary(max_size=300))
@example(Kind(Api.METADATA, 12, "request"), b"\xff\xff\xff\xff\x0f")
def test_random_bytes_after_a_header_are_read_or_malformed(kind: Kind, body: bytes) -> None:
    read_or_refuse(head(kind) + body)


@MANY
@given(requests, st.binary(max_size=300))
def test_random_bytes_after_the_key_and_the_version_are_read_or_malformed(kind: Kind, rest: bytes) -> None:
    read_or_refuse(struct.pack(">hh", kind.api_key, kind.version) + rest)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A right request with some bytes changed, taken out or put in."""
    kind = draw(requests)
    data = bytearray(head(kind, b"app") + encoded(kind, sample(kind)))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(4, len(data)))
        match draw(st.integers(0, 2)):
            case 0:
                data[position : position + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                data[position:position] = draw(st.binary(max_size=8))
            case _:
                del data[position : position + draw(st.integers(1, 8))]
    return bytes(data)


@MANY
@given(damaged())
def test_damaged_requests_are_read_or_malformed(data: bytes) -> None:
    read_or_refuse(data)


@settings(max_examples=300)
@given(st.sampled_from(RESPONSES), st.binary(max_size=300))
def test_random_bytes_as_a_response_are_read_or_malformed(kind: Kind, data: bytes) -> None:
    with contextlib.suppress(MalformedRequest):
        read_response(kind.api_key, kind.version, data)


@settings(max_examples=300)
@given(requests, st.binary(max_size=300) | st.builds(lambda n: b"\xff" * n, st.integers(1, 300)))
@example(Kind(Api.METADATA, 12, "request"), b"\xff\xff\xff\xff\x0f")
@example(Kind(Api.METADATA, 1, "request"), b"\x7f\xff\xff\xff")
def test_random_bytes_cost_little_memory(kind: Kind, body: bytes) -> None:
    data = head(kind) + body
    read_or_refuse(head(kind) + encoded(kind, sample(kind)))  # its readers are made once
    tracemalloc.start()
    try:
        read_or_refuse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < BYTES_OF_MEMORY


def test_an_item_costs_a_bounded_memory() -> None:
    """Two bytes an item is the shortest: the name of a topic, and no tags. MOST_ITEMS of them are all there can be."""
    count = MOST_ITEMS // 10
    items = bytes([count + 1 & 0x7F | 0x80, count + 1 >> 7 & 0x7F | 0x80, count + 1 >> 14])
    data = head(Kind(Api.DESCRIBE_TOPIC_PARTITIONS, 0, "request")) + items + b"\x01\x00" * count
    data += struct.pack(">i", 1) + b"\xff\x00"
    tracemalloc.start()
    try:
        request = read_request(data, parse_header(data, 0, len(data)), len(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(request["topics"]) == count
    assert peak < count * 300
