"""Loads a broker with Produce requests of one record: python -m benchmarks.broker_load HOST PORT ... (see `main`).

A process of its own. It knows two loads:
- closed: each connection keeps so many requests in flight, and sends the next one when one is answered: the peak rate;
- open: requests are sent at a fixed rate, spread over the connections, whether the broker keeps up or not. Latency
  counts from the moment at which a request was due, so that a stall is seen by all who would have come meanwhile.

The answers to one request repeated are of one size, so they are counted and their error codes looked at, and nothing
is decoded. That is why Python is fast enough; `busy` in the result, the share of a core that it used, shows how far.
"""

import gc
import json
import select
import socket
import sys
import time
from array import array
from collections import deque

from benchmarks import broker_wire as wire
from benchmarks.broker_turns import percentile
from benchmarks.log_batches import batch_of
from runnel.protocol.versions import Api

RECORD_BATCH = 170  # bytes: a batch with one record of 100
RECEIVE = 64 * 1024
WARM_UP = 0.2  # the part of the time that is not counted
DRAIN_LIMIT = 30.0


class Connection:
    """One connection, and when each of its requests in flight was due."""

    def __init__(self, host: str, port: int, topic: str, request: bytes) -> None:
        self.socket = wire.connect(host, port)
        self.due: deque[float] = deque()
        self._request = request
        self._rest = b""
        self._error_at = wire.produce_error_at(topic)
        self._size = self._first_answer()

    def send(self, count: int, due: float) -> None:
        self.due.extend([due] * count)
        self.socket.sendall(self._request * count)

    def receive(self) -> int:
        """How many answers have come."""
        data = self.socket.recv(RECEIVE)
        if not data:
            raise ConnectionResetError("the broker closed a connection under load")
        if self._rest:
            data = self._rest + data
        count, left = divmod(len(data), self._size)
        self._rest = data[len(data) - left :]
        for position in range(self._error_at, count * self._size, self._size):
            if data[position : position + 2] != b"\0\0":
                raise wire.BrokerRefused(f"a record was refused: {data[position : position + 2].hex()}")
        return count

    def _first_answer(self) -> int:
        """Decode one answer as it should be done; its size is that of all that follow."""
        self.socket.sendall(self._request)
        buffer = bytearray()
        size = wire.receive(self.socket, buffer)
        answer = wire.decoded(Api.PRODUCE, wire.PRODUCE_VERSION, bytes(buffer))
        (result,) = answer["responses"][0]["partition_responses"]
        if result["error_code"]:
            raise wire.BrokerRefused(f"a record was refused with error {result['error_code']}")
        return wire.LENGTH.size + size


class Load:
    """All connections, and what they have seen since the warm-up."""

    def __init__(self, connections: list[Connection], begin: float) -> None:
        self._connections = {connection.socket.fileno(): connection for connection in connections}
        self._order = connections
        self._poll = select.epoll()
        for descriptor in self._connections:
            self._poll.register(descriptor, select.EPOLLIN)
        self.begin = begin
        self.latencies = array("d")

    def closed(self, in_flight: int, end: float) -> None:
        for connection in self._order:
            connection.send(in_flight, time.perf_counter())
        now = time.perf_counter()
        while now < end:
            for descriptor, _ in self._poll.poll():
                connection = self._connections[descriptor]
                count = self._take(connection)
                if count:
                    connection.send(count, time.perf_counter())
            now = time.perf_counter()
        self._drain()

    def open(self, rate: float, end: float) -> None:
        step, due, number = 1 / rate, time.perf_counter(), 0
        while due < end:
            now = time.perf_counter()
            while due <= now:
                self._order[number % len(self._order)].send(1, due)
                number += 1
                due += step
            # The poll object itself waits in whole milliseconds.
            if select.select([self._poll], [], [], max(due - time.perf_counter(), 0))[0]:
                for descriptor, _ in self._poll.poll(0):
                    self._take(self._connections[descriptor])
        self._drain()

    def _take(self, connection: Connection) -> int:
        count = connection.receive()
        now = time.perf_counter()
        for _ in range(count):
            due = connection.due.popleft()
            if due >= self.begin:
                self.latencies.append(now - due)
        return count

    def _drain(self) -> None:
        limit = time.perf_counter() + DRAIN_LIMIT
        while any(connection.due for connection in self._order):
            if time.perf_counter() > limit:
                raise TimeoutError(f"requests without an answer after {DRAIN_LIMIT:.0f} s")
            for descriptor, _ in self._poll.poll(1):
                self._take(self._connections[descriptor])


def main(host: str, port: str, topic: str, connections: str, in_flight: str, rate: str, duration: str) -> None:
    """A rate of 0 asks for the closed load, which alone looks at `in_flight`."""
    gc.disable()
    request = wire.produce_frame(topic, {0: batch_of(RECORD_BATCH, 1)})
    made = [Connection(host, int(port), topic, request) for _ in range(int(connections))]
    start, used = time.perf_counter(), time.process_time()
    load = Load(made, begin=start + WARM_UP * float(duration))
    end = start + float(duration)
    if float(rate):
        load.open(float(rate), end)
    else:
        load.closed(int(in_flight), end)
    busy = (time.process_time() - used) / (time.perf_counter() - start)
    milliseconds = [latency * 1e3 for latency in load.latencies]
    result = {
        "per_second": len(milliseconds) / (end - load.begin),
        "p50": percentile(milliseconds, 0.50),
        "p99": percentile(milliseconds, 0.99),
        "busy": busy,
    }
    print(json.dumps(result))
    for connection in made:
        connection.socket.shutdown(socket.SHUT_RDWR)
        connection.socket.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
