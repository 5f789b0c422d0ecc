"""What stands for the least that a broker can do answers as one, and only behind the sync."""

import os
import socket
import threading
from contextlib import suppress

from benchmarks import broker_least
from benchmarks import broker_wire as wire
from benchmarks.broker_load import RECORD_BATCH, Connection
from benchmarks.log_batches import batch_of

TOPIC = "lone"


def test_the_least_that_answers_is_taken_for_a_broker_by_the_client_that_measures(tmp_path, monkeypatch) -> None:
    synced: list[int] = []
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (synced.append(os.fstat(file).st_size), sync(file)))
    path = tmp_path / "least"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    request = wire.produce_frame(TOPIC, {0: batch_of(RECORD_BATCH, 1)})
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # the listener's end
                broker_least.serve(listener, file, TOPIC)

        server = threading.Thread(target=serve)
        server.start()
        connection = Connection("127.0.0.1", listener.getsockname()[1], TOPIC, request)
        connection.send(2, 0.0)
        answered = 0
        while answered < 2:
            answered += connection.receive()
        connection.socket.close()
        listener.shutdown(socket.SHUT_RDWR)
        server.join()
    os.close(file)
    assert path.read_bytes() == 3 * request
    assert synced[0] == len(request)
    assert synced[-1] == 3 * len(request)
