"""The least that acknowledges a synced record: python -m benchmarks.broker_least FILE TOPIC prints its port.

No broker: of one client at a time it takes Produce requests of one record, which are all of one size, writes them to a
file, syncs the file, and answers with bytes that were made before. It decodes, checks and remembers nothing, has no
event loop, and stands still while the disk does. So what answers behind such a sync is not quicker, in Python at least.
"""

import os
import socket
import sys

from benchmarks import broker_wire as wire
from benchmarks.broker_load import RECORD_BATCH
from benchmarks.log_batches import batch_of
from runnel.protocol.encode import response_encoder
from runnel.protocol.frames import answer_head
from runnel.protocol.versions import Api
from tests.interop.kafka_server import HOST

RECEIVE = 64 * 1024
APPENDED = {
    "index": 0,
    "error_code": 0,
    "base_offset": 0,
    "log_append_time": -1,
    "log_start_offset": 0,
    "record_errors": (),
    "error_message": None,
}


def answer_to(topic: str) -> bytes:
    """A Produce request to its first partition was done, in the version of `broker_wire`."""
    body = {"responses": [{"name": topic, "partition_responses": [APPENDED]}], "throttle_time": 0}
    parts = response_encoder(Api.PRODUCE, wire.PRODUCE_VERSION)(body)
    return b"".join([answer_head(1, sum(map(len, parts)), flexible=True), *parts])


def serve(listening: socket.socket, file: int, topic: str) -> None:
    answer, size = answer_to(topic), len(wire.produce_frame(topic, {0: batch_of(RECORD_BATCH, 1)}))
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            rest = 0
            while data := connection.recv(RECEIVE):
                os.write(file, data)
                os.fdatasync(file)
                count, rest = divmod(rest + len(data), size)
                connection.sendall(answer * count)


def main(path: str, topic: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with socket.create_server((HOST, 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        serve(listening, file, topic)


if __name__ == "__main__":
    main(*sys.argv[1:])
