"""A broker that answers what a test tells it to, over a socket.

    with scripted_broker({Api.LIST_TRANSACTIONS: [answer, another]}) as broker:
        Wire(broker.address, 5)

Each API has its answers, one after the other; the last is given again and again. An answer may be bytes, which are
sent as they are. `asked` holds the requests, as mappings.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from runnel.protocol.decode import read_request
from runnel.protocol.encode import response_encoder
from runnel.protocol.frames import answer_head, parse_header
from runnel.protocol.schemas import versions
from runnel.protocol.versions import Api

Answer = Mapping[str, Any] | bytes


@dataclass
class ScriptedBroker:
    address: tuple[str, int]
    answers: dict[int, list[Answer]]
    served: dict[int, tuple[int, int]]
    asked: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)

    def answer(self, frame: bytes) -> bytes:
        header = parse_header(frame, 0, len(frame))
        self.asked.append((header.api_key, header.version, read_request(frame, header, len(frame))))
        if header.api_key == Api.API_VERSIONS and Api.API_VERSIONS not in self.answers:
            rows = [{"api_key": key, "min_version": low, "max_version": top} for key, (low, top) in self.served.items()]
            told: Answer = {"error_code": 0, "api_keys": rows}
        else:
            left = self.answers[header.api_key]
            told = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(told, bytes):
            return told
        encoder = response_encoder(header.api_key, header.version)
        body = b"".join(map(bytes, encoder(told)))
        return answer_head(header.correlation_id, len(body), flexible=encoder.flexible_header) + body


@contextmanager
def scripted_broker(
    answers: Mapping[int, Sequence[Answer]], *, served: Mapping[int, tuple[int, int]] | None = None
) -> Iterator[ScriptedBroker]:
    """It serves the APIs that have answers, in all versions that Runnel knows, unless `served` tells others."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        known = {key: (min(versions(key)), max(versions(key))) for key in answers}
        broker = ScriptedBroker(
            server.getsockname(), {key: list(each) for key, each in answers.items()}, known | dict(served or {})
        )
        thread = threading.Thread(target=_serve, args=[server, broker])
        thread.start()
        try:
            yield broker
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, broker: ScriptedBroker) -> None:
    """Until the server is shut down, and every client has gone."""
    threads: list[threading.Thread] = []
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            break
        threads.append(threading.Thread(target=_answer, args=[connection, broker]))
        threads[-1].start()
    for thread in threads:
        thread.join()


def _answer(connection: socket.socket, broker: ScriptedBroker) -> None:
    # A client that does not like an answer goes away without reading it all.
    with suppress(ConnectionError), connection, connection.makefile("rb") as stream:
        while size := stream.read(4):
            answer = broker.answer(stream.read(*struct.unpack(">i", size)))
            if not answer:
                break
            connection.sendall(answer)
