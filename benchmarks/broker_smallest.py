"""The smallest broker for many clients, in Python: python -m benchmarks.broker_smallest FILE TOPIC prints its port.

What no broker can leave out, for Produce requests of one record, which are all of one size: uvloop, frames and their
correlation ids, a batch's header and checksum, an offset; one write and one sync for all that a turn of the loop has
brought; an answer to each. It knows one topic, no errors and no limits, and stands still while the disk does. What a
broker in Python takes beyond this is its own code.
"""

import asyncio
import os
import sys

import uvloop
from crc32c import crc32c

from benchmarks import broker_wire as wire
from benchmarks.broker_least import answer_to
from benchmarks.broker_load import RECORD_BATCH
from benchmarks.log_batches import batch_of
from runnel.protocol.frames import FIXED, LENGTH
from runnel.records.batch import CHECKED_FROM, HEADER, LENGTH_PREFIX, PLACE
from tests.interop.kafka_server import HOST


class Batches:
    """What came in this turn of the loop."""

    def __init__(self, file: int, topic: str) -> None:
        batch = batch_of(RECORD_BATCH, 1)
        request, answer = wire.produce_frame(topic, {0: batch}), answer_to(topic)
        self.request_size, self._batch_at, self._batch_size = len(request), request.index(batch), len(batch)
        offset_at = wire.produce_error_at(topic) + 2
        self._length, self._before, self._after = answer[:4], answer[8:offset_at], answer[offset_at + 8 :]
        self._file = file
        self._offset = self._position = 0
        self._waiting: list[tuple[asyncio.WriteTransport, bytes, bytes]] = []

    def take(self, transport: asyncio.WriteTransport, data: bytes, position: int) -> None:
        start = position + self._batch_at
        batch = memoryview(data)[start : start + self._batch_size]
        _, length, _, _, checksum, _, delta, _, _, _, _, _, _ = HEADER.unpack_from(batch)
        if crc32c(batch[CHECKED_FROM:]) != checksum or length + LENGTH_PREFIX != self._batch_size:
            raise SystemExit("a batch is not as it was built")
        _, _, correlation_id, _ = FIXED.unpack_from(data, position + LENGTH.size)
        place, offset = PLACE.pack(self._offset, length, 1), self._offset.to_bytes(8, "big")
        answer = b"".join((self._length, LENGTH.pack(correlation_id), self._before, offset, self._after))
        self._offset += delta + 1
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._commit)
        self._waiting.append((transport, place + batch[PLACE.size :], answer))

    def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._position += os.pwrite(self._file, b"".join([batch for _, batch, _ in waiting]), self._position)
        os.fdatasync(self._file)
        for transport, _, answer in waiting:
            transport.write(answer)


class Client(asyncio.Protocol):
    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data, position, size = self._rest + data, 0, self._batches.request_size
        while len(data) - position >= size:
            self._batches.take(self._transport, data, position)  # type: ignore[arg-type]
            position += size
        self._rest = data[position:]


async def serve(file: int, topic: str) -> None:
    batches = Batches(file, topic)
    server = await asyncio.get_running_loop().create_server(lambda: Client(batches), HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(path: str, topic: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(file, topic))


if __name__ == "__main__":
    main(*sys.argv[1:])
