"""A transactional producer of the second generation (KIP-890), on bare sockets: no Python library has one yet.

The broker adds partitions to a transaction by itself (Produce v12, TxnOffsetCommit v5), and each EndTxn v5 gives the
epoch of the next transaction. One request is under way at a time. A request without an answer is sent again on a new
connection until it has one; the broker must see that it is the same.

The messages are written here by hand, so that a mistake in the schemas of our broker does not cancel itself out.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import defaultdict
from collections.abc import Sequence

from runnel.records import TRANSACTIONAL, Producer, Record, build_batch

PRODUCE, INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT = 0, 22, 26, 28
ANSWER_LIMIT = 10.0
PAUSE = 0.02  # seconds before a request is sent again

DUPLICATE_SEQUENCE = 46
CONCURRENT_TRANSACTIONS = 51
# Not the leader or coordinator now, still loading, not enough time, or the transaction before is still being ended.
TRY_AGAIN = {3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, CONCURRENT_TRANSACTIONS, 56}
# An old epoch, or a producer that the coordinator does not know any more.
FENCING = {47, 49, 67, 90}


class Refused(Exception):
    """The broker's error code. If `fatal`, this producer is over; otherwise its transaction must be aborted."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what} was refused with error {code}")
        self.code = code
        self.fatal = code in FENCING


class NoAnswer(Exception):
    """The time is over, and nobody knows what the broker did."""


class ModernProducer:
    def __init__(self, address: tuple[str, int], transactional_id: str, timeout_ms: int, patience: float) -> None:
        self._address = address
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._patience = patience
        self._connection: socket.socket | None = None
        self._correlation = 0
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = defaultdict(int)
        self._touched = False

    def init(self) -> None:
        body = compact(self._id) + struct.pack(">iqh", self._timeout_ms, -1, -1) + NO_TAGS
        while True:
            answer = self._ask(INIT_PRODUCER_ID, 5, body, self._patience)
            _, code, producer_id, epoch = struct.unpack_from(">ihqh", answer)
            if code == 0:
                break
            self._refuse("InitProducerId", code)
        self._renew(producer_id, epoch)

    def _renew(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._sequences.clear()
        self._producer_id, self._epoch = producer_id, epoch
        self._touched = False

    def send(self, topic: str, partition: int, values: Sequence[str]) -> int | None:
        """The offset of the first, if the broker tells it."""
        self._touched = True
        sequence = self._sequences[topic, partition]
        batch = build_batch(
            [Record(value.encode(), timestamp=int(time.time() * 1000)) for value in values],
            producer=Producer(self._producer_id, self._epoch, sequence),
            attributes=TRANSACTIONAL,
        )
        partitions = array(struct.pack(">i", partition) + varint(len(batch) + 1) + batch + NO_TAGS)
        body = compact(self._id) + struct.pack(">hi", -1, 5000) + array(compact(topic) + partitions + NO_TAGS) + NO_TAGS
        deadline = time.monotonic() + self._patience
        while True:
            answer = Reader(self._ask(PRODUCE, 12, body, deadline - time.monotonic()))
            assert answer.varint() == 2, "one topic"
            answer.compact()
            assert answer.varint() == 2, "one partition"
            _, code, offset = answer.unpack(">ihq")
            if code in (0, DUPLICATE_SEQUENCE):
                self._sequences[topic, partition] = sequence + len(values)
                return offset if code == 0 and offset >= 0 else None
            self._refuse("Produce", code, deadline)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._touched = True
        committed = array(struct.pack(">iqi", partition, offset, -1) + compact("") + NO_TAGS)
        body = compact(self._id) + compact(group) + struct.pack(">qhi", self._producer_id, self._epoch, -1)
        body += compact("") + varint(0) + array(compact(topic) + committed + NO_TAGS) + NO_TAGS
        deadline = time.monotonic() + self._patience
        while True:
            answer = Reader(self._ask(TXN_OFFSET_COMMIT, 5, body, deadline - time.monotonic()))
            answer.unpack(">i")
            assert answer.varint() == 2, "one topic"
            answer.compact()
            assert answer.varint() == 2, "one partition"
            _, code = answer.unpack(">ih")
            if code == 0:
                return
            self._refuse("TxnOffsetCommit", code, deadline)

    def commit(self) -> None:
        self._end(committed=True)

    def abort(self) -> None:
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        if not self._touched:
            return
        body = compact(self._id) + struct.pack(">qh?", self._producer_id, self._epoch, committed) + NO_TAGS
        deadline = time.monotonic() + self._patience
        while True:
            answer = self._ask(END_TXN, 5, body, deadline - time.monotonic())
            _, code, producer_id, epoch = struct.unpack_from(">ihqh", answer)
            if code == 0:
                break
            self._refuse("EndTxn", code, deadline)
        self._renew(producer_id, epoch)

    def _refuse(self, what: str, code: int, deadline: float = float("inf")) -> None:
        if code not in TRY_AGAIN:
            raise Refused(what, code)
        if time.monotonic() > deadline:
            raise NoAnswer(f"{what} was still refused with error {code}")
        time.sleep(PAUSE)

    # --- the connection

    def _ask(self, key: int, version: int, body: bytes, patience: float) -> bytes:
        """The answer after its header."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._try(key, version, body)
            except (OSError, EOFError) as error:
                self.close()
                if time.monotonic() > deadline:
                    raise NoAnswer(f"request {key}: {error}") from error
                time.sleep(PAUSE)

    def _try(self, key: int, version: int, body: bytes) -> bytes:
        if self._connection is None:
            self._connection = socket.create_connection(self._address, ANSWER_LIMIT)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation += 1
        name = b"modern"
        request = struct.pack(">hhih", key, version, self._correlation, len(name)) + name + NO_TAGS + body
        self._connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        (correlation,) = struct.unpack_from(">i", answer)
        assert correlation == self._correlation, f"the answer is that of request {correlation}"
        return answer[5:]

    def _receive(self, size: int) -> bytes:
        assert self._connection is not None
        data = self._connection.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise EOFError("the connection ended")
        return data

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# --- Kafka's flexible encoding, as far as it is needed here

NO_TAGS = b"\x00"


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def compact(text: str) -> bytes:
    data = text.encode()
    return varint(len(data) + 1) + data


def array(*items: bytes) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def unpack(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def varint(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self.unpack(">B")
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def compact(self) -> bytes:
        length = self.varint() - 1
        self._at += length
        return self._data[self._at - length : self._at]
