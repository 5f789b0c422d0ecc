"""A node without sockets: each request goes through its bytes to the API's handler, and each answer through its own."""

import asyncio
import struct
from collections.abc import Mapping
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple

from runnel.broker.apis import handler_of
from runnel.broker.endpoints import Endpoint
from runnel.broker.node import open_node
from runnel.broker.request import Encoded, Later, Request
from runnel.protocol.decode import read_request, read_response
from runnel.protocol.encode import request_encoder, response_encoder
from runnel.protocol.frames import parse_header
from runnel.protocol.versions import SERVED, Api
from runnel.testing import StoppedClock

NEWEST = -1


class Caller(NamedTuple):
    host: str = "127.0.0.1"
    listener: str = "PLAINTEXT"


class NodeStage:
    def __init__(self, data: Path, configs: Mapping[str, str] | None = None) -> None:
        self.data = str(data)
        self.configs = dict(configs or {})
        self.clock = StoppedClock()
        self.loop = asyncio.new_event_loop()
        self._open()

    def _open(self) -> None:
        self.node = open_node(self.data, self.configs, loop=self.loop, clock=self.clock)
        self.node.endpoints = {"PLAINTEXT": Endpoint("broker.example", 9092)}

    def restart(self) -> None:
        self._close_node()
        self._open()

    def close(self) -> None:
        self._close_node()
        self.loop.close()

    def _close_node(self) -> None:
        self.node.stop()
        self.node.close()

    def ask(self, api: Api, body: Mapping[str, Any], version: int = NEWEST) -> dict[str, Any]:
        """The answer to a request as its bytes tell it."""
        version = SERVED[api].most if version == NEWEST else version
        answer = self.loop.run_until_complete(self._answered(request_of(api, version, body)))
        return read_response(api, version, bytes_of(api, version, answer))

    async def _answered(self, request: Request) -> Any:
        answer = handler_of(request.api_key)(self.node, request)
        if isinstance(answer, Later):
            given = self.loop.create_future()
            answer.then(given.set_result)
            return await given
        return await answer if isawaitable(answer) else answer

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.loop.run_until_complete(self.node.topics.create(topic, partitions, named))


def bytes_of(api: Api, version: int, answer: Any) -> bytes:
    """The body of an answer."""
    if isinstance(answer, Encoded):
        return answer.data
    return b"".join(bytes(part) for part in response_encoder(api, version)(answer))


def request_of(api: Api, version: int, body: Mapping[str, Any]) -> Request:
    encoder = request_encoder(api, version)
    frame = struct.pack(">hhihx" if encoder.flexible_header else ">hhih", api, version, 1, -1)
    frame += b"".join(bytes(part) for part in encoder(body))
    header = parse_header(frame, 0, len(frame))
    read = read_request(frame, header, len(frame))
    return Request(api, version, 1, header.client_id, read, Caller(), len(frame))
