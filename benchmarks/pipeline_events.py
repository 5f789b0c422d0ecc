"""The events of the pipeline's benchmarks: clicks as JSON, made by operations on whole columns and sent as batches.

    {"page":"p17","customer_id":4711,"at":"2026-01-01T00:00:01.234Z","ms":87}

A thousand of them make a second of event time, in order, spread over the partitions. Batches hold about 500 records,
as a producer that lingers for a few milliseconds sends them.
"""

from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import broker_wire as wire
from benchmarks.broker_servers import Running
from runnel.client.column_bodies import column_bodies
from runnel.protocol.versions import Api
from runnel.records import Codec, batch_around

FLAT = "page string, customer_id long, at timestamp, ms long"
NESTED = (
    "page string, at timestamp, customer struct<id:long,name:string,address:struct<city:string,zip:string>>,"
    " items array<struct<sku:string,quantity:int>>"
)
PARTITIONS = 4
PAGES = 100
CUSTOMERS = 10_000
START = 1_767_225_600_000  # the first millisecond of 2026
KEPT = {"retention.ms": "-1"}  # records as old as that would be removed within minutes
PER_SECOND = 1_000
BROKEN_SHARE = 100  # one in so many
BATCH_BYTES = 56_000
BLOCK = 50_000  # rows of a partition that are made at once
IN_FLIGHT = 8  # requests


class Kind(StrEnum):
    CLEAN = "clean"
    BROKEN = "broken"  # 1 % of the values end too early
    RICH = "rich"  # zstd, keys and two headers
    NESTED = "nested"


def fill(broker: Running, topic: str, count: int, kind: Kind = Kind.CLEAN) -> None:
    """Make the topic and write `count` events; when it returns, the broker has all of them."""
    broker.create_topic(topic, PARTITIONS, KEPT)
    with broker.connect() as connection:
        waiting: deque[None] = deque()
        for batches in _requests(count, kind):
            connection.sendall(wire.produce_frame(topic, batches))
            waiting.append(None)
            if len(waiting) == IN_FLIGHT:
                waiting.popleft()
                _check(wire.answer_of(connection, Api.PRODUCE, wire.PRODUCE_VERSION))
        for _ in waiting:
            _check(wire.answer_of(connection, Api.PRODUCE, wire.PRODUCE_VERSION))


def broken(count: int) -> int:
    """How many of so many events are broken where some are."""
    return sum(_broken_rows(numbers).size for numbers in _blocks(count))


def _check(answer: dict[str, Any]) -> None:
    told = [each for topic in answer["responses"] for each in topic["partition_responses"]]
    if wrong := [each["error_code"] for each in told if each["error_code"]]:
        raise wire.BrokerRefused(f"Produce ended with the errors {wrong}")


def _requests(count: int, kind: Kind) -> Iterator[dict[int, bytes]]:
    """A batch of each partition at a time."""
    lanes = {number: _batches(number, count, kind) for number in range(PARTITIONS)}
    while lanes:
        taken = {number: next(lane, None) for number, lane in lanes.items()}
        lanes = {number: lane for number, lane in lanes.items() if taken[number] is not None}
        if found := {number: batch for number, batch in taken.items() if batch is not None}:
            yield found


def _batches(partition: int, count: int, kind: Kind) -> Iterator[bytes]:
    for numbers in _blocks(count, partition):
        times = pa.array(START + numbers * 1_000 // PER_SECOND)
        keys = headers = None
        if kind is Kind.RICH:
            keys = pc.cast(pa.array(_customers(numbers)), pa.string())
            headers = pa.array([[{"key": "trace", "value": b"0123456789abcdef"}, {"key": "kind", "value": b"click"}]])
            headers = headers.take(pa.array(np.zeros(len(numbers), np.int64)))
        codec = Codec.ZSTD if kind is Kind.RICH else Codec.NONE
        for body in column_bodies(values(numbers, kind), keys, times, headers, batch_bytes=BATCH_BYTES):
            yield batch_around(body.data, body.contents, codec=codec)


def _blocks(count: int, partition: int | None = None) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """The numbers of the events of a partition, or of all of them, a block at a time."""
    step = 1 if partition is None else PARTITIONS
    for start in range(partition or 0, count, BLOCK * step):
        yield np.arange(start, min(count, start + BLOCK * step), step, dtype=np.int64)


def values(numbers: np.ndarray[Any, np.dtype[np.int64]], kind: Kind) -> pa.Array:
    """Of the events with these numbers."""
    page, customer = _text(_mixed(numbers) % PAGES), _text(_customers(numbers))
    at = _times(numbers)
    if kind is Kind.NESTED:
        parts = ['{"page":"p', page, '","at":"', at, '","customer":{"id":', customer, ',"name":"customer ', customer]
        parts += ['","address":{"city":"Lisbon","zip":"', page, '"}},"items":[{"sku":"a', page, '","quantity":1},']
        parts += ['{"sku":"b', page, '","quantity":2}]}']
    else:
        parts = ['{"page":"p', page, '","customer_id":', customer, ',"at":"', at, '","ms":']
        parts += [_text(_mixed(numbers) % 1_000), "}"]
    made = pc.binary_join_element_wise(*parts, "")
    if kind is Kind.BROKEN:
        wrong = np.zeros(len(numbers), np.bool_)
        wrong[_broken_rows(numbers)] = True
        made = pc.if_else(pa.array(wrong), pc.utf8_slice_codeunits(made, 0, 20), made)
    return made


def _times(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    """ISO 8601; the text of a second is made once."""
    milliseconds = numbers * 1_000 // PER_SECOND
    first = int(milliseconds[0]) // 1_000
    seconds = pa.array((np.arange(first, int(milliseconds[-1]) // 1_000 + 1) * 1_000 + START) // 1_000 * 1_000)
    texts = pc.strftime(seconds.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("s", "UTC")), "%Y-%m-%dT%H:%M:%S")
    fractions = pa.array([f".{number:03}Z" for number in range(1_000)])
    whole = texts.take(pa.array(milliseconds // 1_000 - first))
    return pc.binary_join_element_wise(whole, fractions.take(pa.array(milliseconds % 1_000)), "")


def _broken_rows(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.intp]]:
    return np.flatnonzero(_mixed(numbers) // 7 % BROKEN_SHARE == 0)


def _customers(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return _mixed(numbers) // 11 % CUSTOMERS


def _mixed(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Numbers that look like chance, the same in every run."""
    return (numbers * 2_654_435_761) >> 8 & 0xFFFFFFFF


def _text(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pc.cast(pa.array(numbers), pa.string())
