"""What is known from an earlier request is what reading this one gives, or it is read."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import MalformedRequest
from runnel.protocol import known as module
from runnel.protocol.decode import read_request
from runnel.protocol.frames import FIXED, parse_header
from runnel.protocol.hot import FLEXIBLE_SINCE, read_single_produce
from runnel.protocol.known import LONGEST_KNOWN, MOST_KNOWN, MOST_SIZES, Facts, KnownProduces, correlation_id_at
from runnel.protocol.own import ANSWERED
from runnel.protocol.versions import SERVED, Api
from tests.property.protocol.test_hot import body_of, names, numbers, requests, versions

flexible_versions = st.integers(FLEXIBLE_SINCE, SERVED[Api.PRODUCE].most)
client_ids = st.none() | st.text(max_size=20)
header_tags = st.just(b"\0") | st.just(b"\x01\x05\x02ab")


def frame(
    version: int, correlation_id: int, client_id: str | None, body: bytes, tags: bytes = b"\0", key: int = Api.PRODUCE
) -> bytes:
    name = (client_id or "").encode()
    header = FIXED.pack(key, version, correlation_id, -1 if client_id is None else len(name)) + name
    return header + (tags if version >= FLEXIBLE_SINCE else b"") + body


def simple(name: str = "tea", index: int = 3, records: bytes | None = b"batch", **others: Any) -> dict[str, Any]:
    topic = {"name": name, "topic_id": UUID(int=7), "partition_data": [{"index": index, "records": records}]}
    return {"transactional_id": None, "acks": -1, "timeout": 1, "topic_data": [topic]} | others


def read_anew(data: bytes, start: int, end: int) -> Facts | None:
    return read_as_a_connection(KnownProduces(), data, start, end)


def read_known(known: KnownProduces, data: bytes, start: int, end: int) -> Facts | None:
    found = known.find(data, start, end)
    return None if found is None else found.facts(correlation_id_at(data, start))


def read_as_a_connection(known: KnownProduces, data: bytes, start: int, end: int) -> Facts | None:
    try:
        facts = read_known(known, data, start, end)
        if facts is not None:
            return facts
        header = parse_header(data, start, end)
        if header.version not in ANSWERED.get(header.api_key, ()):
            return None
        body = read_request(data, header, end)
    except MalformedRequest:
        return None
    if header.api_key == Api.PRODUCE:
        known.note(data, start, end, header)
    return (*header[:4], body)


@given(
    st.lists(st.tuples(versions, numbers, client_ids, header_tags, requests), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), numbers, st.binary(max_size=300)), max_size=8),
    st.binary(max_size=5),
    st.data(),
)
def test_whatever_came_before_a_request_is_read_as_if_it_were_the_first(
    first: list[tuple[int, int, str | None, bytes, dict[str, Any]]],
    again: list[tuple[int, int, bytes]],
    around: bytes,
    data: st.DataObject,
) -> None:
    known = KnownProduces()
    frames = [
        frame(version, number, client, body_of(version, body), tags) for version, number, client, tags, body in first
    ]
    for which, number, records in again:
        version, _, client, tags, body = first[which % len(first)]
        topics = [
            topic | {"partition_data": [part | {"records": records} for part in topic["partition_data"]]}
            for topic in body["topic_data"]
        ]
        like_it = bytearray(frame(version, number, client, body_of(version, body | {"topic_data": topics}), tags))
        if data.draw(st.booleans()):
            like_it[data.draw(st.integers(0, len(like_it) - 1))] = data.draw(st.integers(0, 255))
        frames.append(bytes(like_it))
    for each in frames:
        start, end = len(around), len(around) + len(each)
        whole = around + each + around
        assert read_as_a_connection(known, whole, start, end) == read_anew(whole, start, end)


@given(flexible_versions, client_ids, names.filter(lambda name: len(name.encode()) < 100), st.data())
def test_the_second_of_its_kind_is_known(version: int, client_id: str | None, name: str, data: st.DataObject) -> None:
    name = name or "tea"
    sizes = st.integers(0, 300) | st.sampled_from([126, 127, 128, 16_382, 16_383, 16_384])
    known = KnownProduces()
    for number, tested in enumerate([False, True, True]):
        records = b"r" * data.draw(sizes)
        each = frame(version, number, client_id, body_of(version, simple(name, records=records)))
        facts = read_known(known, each, 0, len(each))
        assert facts == (read_anew(each, 0, len(each)) if tested else None)
        if not tested:
            known.note(each, 0, len(each), parse_header(each, 0, len(each)))


def kinds_that_differ() -> dict[str, Callable[[], bytes]]:
    return {
        "another version": lambda: frame(11, 1, "app", body_of(11, simple())),
        "another API": lambda: frame(12, 1, "app", body_of(12, simple()), key=Api.FETCH),
        "another client id": lambda: frame(12, 1, "apq", body_of(12, simple())),
        "another topic": lambda: frame(12, 1, "app", body_of(12, simple("tee"))),
        "another partition": lambda: frame(12, 1, "app", body_of(12, simple(index=4))),
        "no acknowledgement": lambda: frame(12, 1, "app", body_of(12, simple(acks=0))),
        "another timeout": lambda: frame(12, 1, "app", body_of(12, simple(timeout=2))),
        "tags": lambda: frame(12, 1, "app", body_of(12, simple())[:-1] + b"\x01\x05\x00"),
        "the batch is cut off": lambda: frame(12, 1, "app", body_of(12, simple())[:-4]),
        "the last byte is no end": lambda: frame(12, 1, "app", body_of(12, simple())[:-1] + b"\x01"),
        "no batch, cut off": lambda: frame(12, 1, "app", body_of(12, simple(records=None))[:-1]),
        "it ends before the batch": lambda: frame(12, 1, "app", body_of(12, simple())[:-9]),
    }


def test_what_differs_is_not_taken_for_it() -> None:
    usual = frame(12, 1, "app", body_of(12, simple()))
    for what, make in kinds_that_differ().items():
        known = KnownProduces()
        known.note(usual, 0, len(usual), parse_header(usual, 0, len(usual)))
        assert read_known(known, usual, 0, len(usual)) is not None
        other = make()
        assert read_known(known, other, 0, len(other)) is None, what


def test_what_looks_like_a_request_in_the_tags_of_a_header_is_none() -> None:
    body = body_of(12, simple())
    tag = b"\x00\x00\x00\x00\x00\x02\x02t\x02\x00\x00\x00\x03"
    tag += bytes([len(body) - 2])  # as the length of a batch that reaches to the last three bytes
    each = frame(12, 1, "app", body, tags=b"\x01\x00" + bytes([len(tag)]) + tag)
    known = KnownProduces()
    expected = read_anew(each, 0, len(each))
    assert expected is not None
    for _ in range(2):
        assert read_as_a_connection(known, each, 0, len(each)) == expected


def test_a_length_that_is_written_longer_than_need_be_is_read_each_time() -> None:
    body = body_of(12, simple(records=b"batch"))
    at = body.rindex(b"\x06batch")
    longer = frame(12, 1, "app", body[:at] + b"\x86\x00" + body[at + 1 :])
    known = KnownProduces()
    expected = read_anew(longer, 0, len(longer))
    assert expected is not None
    for _ in range(2):
        assert read_as_a_connection(known, longer, 0, len(longer)) == expected
        assert read_known(known, longer, 0, len(longer)) is None


def test_after_a_length_that_is_written_longer_one_that_reaches_beyond_the_request_is_refused() -> None:
    """Its second half, read alone, would fit."""
    body = body_of(12, simple(records=b"batch"))
    at = body.rindex(b"\x06batch")
    longer = frame(12, 1, "app", body[:at] + b"\x86\x00" + body[at + 1 :])
    beyond = frame(12, 2, "app", body[:at] + b"\x86" + body[at:])
    known = KnownProduces()
    assert read_as_a_connection(known, longer, 0, len(longer)) is not None
    assert read_as_a_connection(known, beyond, 0, len(beyond)) is None


def test_a_length_without_an_end_is_refused_or_read_again() -> None:
    usual = frame(12, 1, "app", body_of(12, simple()))
    known = KnownProduces()
    known.note(usual, 0, len(usual), parse_header(usual, 0, len(usual)))
    at = usual.rindex(b"\x06batch")
    endless = usual[:at] + b"\xff" * 3
    assert read_known(known, endless, 0, len(endless)) is None
    assert read_as_a_connection(known, usual[:at] + b"\xff" * 9, 0, at + 9) is None


def test_a_connection_remembers_so_many_and_no_more() -> None:
    known = KnownProduces()
    all_frames = [frame(12, 1, "app", body_of(12, simple(index=number))) for number in range(MOST_KNOWN + 3)]
    for each in all_frames:
        read_as_a_connection(known, each, 0, len(each))
    found = [read_known(known, each, 0, len(each)) is not None for each in all_frames]
    assert found == [True] * MOST_KNOWN + [False] * 3


def test_what_is_long_is_not_remembered_and_not_looked_at_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    known, looks = KnownProduces(), 0

    def look(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return read_single_produce(*arguments)

    monkeypatch.setattr(module, "read_single_produce", look)
    each = frame(12, 1, "a" * LONGEST_KNOWN, body_of(12, simple()))
    for _ in range(MOST_KNOWN + 3):
        assert read_as_a_connection(known, each, 0, len(each)) == read_anew(each, 0, len(each))
        assert read_known(known, each, 0, len(each)) is None
    assert looks == MOST_KNOWN + (MOST_KNOWN + 3), "each was read anew for comparison, too"


def test_a_connection_tries_so_many_sizes_and_no_more() -> None:
    known = KnownProduces()
    all_frames = [frame(12, 1, "app", body_of(12, simple("t" * number))) for number in range(1, MOST_SIZES + 3)]
    for each in all_frames:
        read_as_a_connection(known, each, 0, len(each))
    another = frame(12, 1, "app", body_of(12, simple("s")))
    read_as_a_connection(known, another, 0, len(another))
    found = [read_known(known, each, 0, len(each)) is not None for each in (*all_frames, another)]
    assert found == [True] * MOST_SIZES + [False] * 2 + [True]
