"""One client's connection: bytes in, requests to their handlers, answers out in the order of the requests.

What it promises:
- answers leave in the order of the requests, though several requests may be under way at once;
- a client that does not read its answers is not read from, and at most one fetch of it is held in memory;
- one client with much to say does not keep the others waiting: after so many requests it is the next one's turn;
- what is no request of Kafka's protocol ends the connection with one line in the log, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, cast

from runnel.broker.apis import handler_of
from runnel.broker.lanes import WHOLE_HEAD, Lane, lane_of
from runnel.broker.request import Body, Encoded, Handler, Later, LongPoll, Request, Silence
from runnel.counted import counted
from runnel.errors import MalformedRequest, RunnelError
from runnel.files import Buffer
from runnel.log import Outcome
from runnel.protocol.decode import read_request
from runnel.protocol.encode import Encoder, response_encoder
from runnel.protocol.frames import LENGTH, answer_head, parse_header
from runnel.protocol.known import Facts, Found, KnownProduces, correlation_id_at
from runnel.protocol.own import ANSWERED
from runnel.protocol.versions import Api
from runnel.settings import KIB

if TYPE_CHECKING:
    from runnel.broker.server import Server

REQUESTS_UNDER_WAY = 64  # of one connection; clients keep about five
REQUESTS_AT_ONCE = 16  # before it is the next connection's turn
UNSENT_MARK = 256 * KIB  # more than this in the socket's buffer, and no further request is begun
SMALLEST_REQUEST = 8
SMALLEST_FRAME = LENGTH.size + SMALLEST_REQUEST
MAPPED = "::ffff:"  # before an address of IPv4
PARTS_AT_ONCE = 16  # of answers, to the socket
COPIED_SIZE = KIB  # of a part
PRODUCE = int(Api.PRODUCE)
NO_BODY: dict[str, object] = {}
FETCH_KEY = Api.FETCH.to_bytes(2, "big")
SMALL_PIECE = 4 * KIB
GATHERED_SIZE = 64 * KIB
ALWAYS_READ = 64 * KIB  # a request of this size is read though memory is short: others' large ones must not stop it

logger = logging.getLogger(__name__)


Frame = tuple[bytes, int, int]  # data with a request in it, and from where to where that goes


class Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("encoder", "long_poll", "parts", "request", "throttle")

    def __init__(self, request: Request, encoder: Encoder) -> None:
        self.request = request
        self.encoder = encoder
        self.parts: list[Buffer] | None = None  # None: not answered yet
        self.throttle = 0
        self.long_poll: LongPoll | None = None


class LoneSlot(Slot):
    """Of a lone batch, which is told of by the log: see `Told`."""

    __slots__ = ("_connection", "found", "is_ready", "lane", "outcome", "whole")

    def __init__(self, request: Request, encoder: Encoder, connection: Connection, lane: Lane, found: Found) -> None:
        super().__init__(request, encoder)
        self.lane = lane
        self.whole: bytes | None = None  # the usual answer, if it `is_ready` and the append does not fail
        self.is_ready = False
        self.outcome: Outcome | None = None
        self.found = found
        self._connection = connection

    def expect(self, base_offset: int, timestamp: int) -> None:
        self.throttle = throttle = self.lane.throttle(len(self.found[1]))
        self.whole = self.lane.whole_answer(self.request[2], base_offset, timestamp, throttle)
        self.is_ready = True  # last: after a defect it is tried again, where the connection ends of it

    def tell(self, base_offset: int, timestamp: int, error: RunnelError | None) -> None:
        self.outcome = base_offset, timestamp, error
        self._connection.node.handover.call(self._connection.appended, self)

    def refuse(self) -> None:
        self._connection.node.handover.call(self._connection.begin_again, self)


class Connection(asyncio.Protocol):
    host = ""

    def __init__(self, server: Server, listener: str) -> None:
        self.listener = listener
        self.last_active = 0
        self._server = server
        self.node = server.node
        self._clock = server.clock
        self._transport: asyncio.Transport | None = None
        self._chunks: list[bytes | bytearray] = []  # of a request that is not whole yet
        self._arrived = 0
        self._needed = LENGTH.size
        self._frames: deque[Frame] = deque()  # whole, not begun
        self._slots: deque[Slot] = deque()  # begun, not sent
        self._under_way = 0  # bytes of what is begun
        self._unsent = 0  # bytes that the client has not taken, as told to the server
        self._reading = True
        self._sending = True
        self._muted: asyncio.TimerHandle | None = None
        self._turn_planned = False
        self._stopping = False
        self._known = KnownProduces()
        self._heard = False  # of it, since that
        self._seen = (0, 0)  # how much had come and had not left, when it was last looked at

    def __repr__(self) -> str:
        return f"<Connection of {self.host or 'a client'}>"

    @property
    def descriptor(self) -> int:
        """Of its socket, while it is one of the server's."""
        assert self._transport is not None
        return int(self._transport.get_extra_info("socket").fileno())

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are, without saying so
        self._transport = transport
        peer = transport.get_extra_info("peername")
        # A listener for both families names IPv4 addresses in IPv6's way: they are the same clients by any listener.
        self.host = str(peer[0]).removeprefix(MAPPED) if peer else "?"
        transport.set_write_buffer_limits(UNSENT_MARK)
        self.last_active = self._server.clock.elapsed()
        refused = self._server.admit(self)
        if refused:
            self._transport = None
            transport.abort()
            self._server.tell_rarely("a connection from %s was refused: %s", self.host, refused)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._stopping:
            return
        size = len(data)
        if (
            not (self._slots or self._frames or self._chunks)
            and SMALLEST_FRAME <= size <= ALWAYS_READ
            and LENGTH.unpack_from(data)[0] + LENGTH.size == size
            and self._muted is None
            and self._sending
            and size - LENGTH.size <= self.node.settings.socket_request_max_bytes
        ):  # one whole request, and the only one, which waits for nothing
            self._heard = True
            self._under_way += size
            self._server.received.under_way += size
            self._begin(data, LENGTH.size, size)
            if self._slots and self._slots[0].parts is not None:
                self._take_turn()
            return
        self._server.received.arriving += size
        self._arrived += size
        if self._chunks:
            self._keep(data)
        else:
            self._chunks.append(data)
        if self._arrived >= self._needed:
            self._cut_frames()
        self._take_turn()

    def eof_received(self) -> bool:
        return False  # whoever closes its side does not wait for answers

    def pause_writing(self) -> None:
        self._sending = False
        self._note_unsent()

    def resume_writing(self) -> None:
        self._sending = True
        self.last_active = self._server.clock.elapsed()
        self._note_unsent()
        self._take_turn()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        if self._transport is None:  # it was refused
            return
        self._transport = None
        received = self._server.received
        received.arriving -= self._arrived
        received.under_way -= self._under_way
        self._under_way = self._arrived = 0
        self._server.unsent.total -= self._unsent
        self._unsent = 0
        self._chunks.clear()
        self._frames.clear()
        for slot in self._slots:
            if slot.long_poll is not None:
                slot.long_poll.cancel()
        self._slots.clear()
        if self._muted is not None:
            self._muted.cancel()
        self._server.release(self)
        received.forget(self)

    # --- from bytes to frames

    def _keep(self, data: bytes) -> None:
        """What follows the first piece. Small ones are gathered: each costs more than it holds, and a request may come
        byte by byte."""
        last = self._chunks[-1]
        if isinstance(last, bytearray) and len(last) < GATHERED_SIZE:
            last += data
        else:
            self._chunks.append(data if len(data) >= SMALL_PIECE else bytearray(data))

    def _cut_frames(self) -> None:
        first = self._chunks[0]
        data = first if len(self._chunks) == 1 and isinstance(first, bytes) else b"".join(self._chunks)
        position, size, most = 0, len(data), self._server.settings.socket_request_max_bytes
        was_large = self._needed > ALWAYS_READ
        self._needed = LENGTH.size
        while size - position >= LENGTH.size:
            (length,) = LENGTH.unpack_from(data, position)
            if not SMALLEST_REQUEST <= length <= most:
                self._refuse_length(length)
                return
            end = position + LENGTH.size + length
            if end > size:
                self._needed = LENGTH.size + length
                break
            self._frames.append((data, position + LENGTH.size, end))
            position = end
        whole = position
        self._chunks = [data[position:]] if position < size else []
        self._arrived -= whole
        self._under_way += whole
        self._server.received.arriving -= whole
        self._server.received.under_way += whole
        if was_large:
            self._server.received.forget(self)

    def _refuse_length(self, length: int) -> None:
        most = self._server.settings.socket_request_max_bytes
        self.give_up(
            f"it announced a request of {counted(length, 'byte')}; at least {SMALLEST_REQUEST} and at most "
            f"socket.request.max.bytes = {most:,} are taken"
        )

    # --- whose turn it is

    def _take_turn(self) -> None:
        """Begin what may be begun, and read on or not."""
        if self._transport is None:
            return
        begun = 0
        if self._frames:
            self.last_active = self._clock.elapsed()
        while self._frames and begun < REQUESTS_AT_ONCE:
            if not self._may_begin():
                self._send()  # perhaps it waits only for an answer to leave
                if not self._may_begin():
                    break
            self._begin(*self._frames.popleft())
            begun += 1
        if self._slots and self._slots[0].parts is not None:
            self._send()
        if self._frames and self._may_begin():
            self._plan_turn()
        reads_on = self._reading and self._sending and self._muted is None and self._needed <= ALWAYS_READ
        if self._frames or not reads_on:
            self._read_or_wait()

    def _plan_turn(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self._server.loop.call_soon(self._planned_turn)

    def _planned_turn(self) -> None:
        self._turn_planned = False
        self._take_turn()

    def _may_begin(self) -> bool:
        if not self._sending or self._muted is not None or self._stopping or len(self._slots) >= REQUESTS_UNDER_WAY:
            return False
        # A fetch holds what it read until it is sent: only one of them at a time.
        if not self._slots:
            return True
        data, start, _ = self._frames[0]
        return not data.startswith(FETCH_KEY, start)

    def _read_or_wait(self) -> None:
        if self._transport is None or self._stopping:
            return
        if self._frames or not self._sending or self._muted is not None:
            self._pause_reading()
        elif self._needed > ALWAYS_READ and self._server.received.is_full:
            self._pause_reading()
            self._server.received.wait(self)
        else:
            self.go_on_reading()

    def _pause_reading(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def go_on_reading(self) -> None:
        if not self._reading and self._transport is not None and not self._stopping:
            self._reading = True
            self._transport.resume_reading()

    def give_up(self, reason: str) -> None:
        """End the connection, with a line in the log."""
        if self._transport is not None:
            self._server.tell_rarely("the connection of %s is closed: %s", self.host, reason)
            self._transport.abort()
            self._stopping = True

    # --- one request

    def _begin(self, data: bytes, start: int, end: int) -> None:
        found = self._known.find(data, start, end)
        if found is not None:
            known = found[0]
            lane: Lane | None = known.way
            if lane is None or not lane.is_open:
                lane = known.way = lane_of(self.node, known)
            if lane is not None and self._begin_lone(found, lane, correlation_id_at(data, start), end - start):
                return
        try:
            read = self._read(data, start, end) if found is None else found.facts(correlation_id_at(data, start))
        except MalformedRequest as error:
            self.give_up(error.what)
            return
        key, version, correlation_id, client_id, body = read
        facts = (key, version, correlation_id, client_id, body, self, end - start)
        request = tuple.__new__(Request, facts)  # without a call in Python: there are many
        slot = Slot(request, _ENCODERS[key, version])
        self._slots.append(slot)
        self._call(handler_of(key), slot)

    def _read(self, data: bytes, start: int, end: int) -> Facts:
        header = parse_header(data, start, end)
        key, version, correlation_id, client_id, _ = header
        if _is_served(key, version):
            body = read_request(data, header, end)
            if key == Api.PRODUCE:
                self._known.note(data, start, end, header)
        elif key == Api.API_VERSIONS and _is_served(key, 0):
            version, body = 0, {"unsupported_version": True}  # the one question that may be asked in any version
        else:
            raise MalformedRequest(f"it asked for API {key} in version {version}, which is not served")
        return key, version, correlation_id, client_id, body

    def _call(self, handler: Handler, slot: Slot) -> None:
        try:
            answer = handler(self._server.node, slot.request)
            if isinstance(answer, Later):
                answer.then(partial(self._came, slot))
            elif isinstance(answer, Awaitable):
                slot.long_poll = answer if isinstance(answer, LongPoll) else None
                future = asyncio.ensure_future(answer, loop=self._server.loop)  # the same, if it is one
                future.add_done_callback(partial(self._answered, slot))
            else:
                self._fill(slot, answer)
        except Exception as error:
            self._fail(slot.request, error)

    def _came(self, slot: Slot, body: Body) -> None:
        if self._transport is None:
            return
        try:
            self._fill(slot, body)
        except Exception as error:
            self._fail(slot.request, error)
        else:
            self._answer_or_wait(slot)

    def _answer_or_wait(self, slot: Slot) -> None:
        if slot is not self._slots[0]:
            return
        if len(self._slots) == 1:
            self._take_turn()
        else:  # the next answers may be on their way from the same round: each sending wakes the client
            self._plan_turn()

    def _answered(self, slot: Slot, done: asyncio.Future[Body]) -> None:
        request = slot.request
        if done.cancelled() or self._transport is None:
            if not done.cancelled() and done.exception() is not None:
                logger.debug("%s failed for a client that is gone: %r", request.name, done.exception())
            return
        try:
            body = done.result()
        except Exception as error:
            self._fail(request, error)
        else:
            self._came(slot, body)

    def _fill(self, slot: Slot, body: Body) -> None:
        request, encoder = slot.request, slot.encoder
        if isinstance(body, Encoded):
            data, slot.throttle = body
            size = len(data)
            slot.parts = [answer_head(request.correlation_id, size, flexible=encoder.flexible_header), data]
        elif isinstance(body, Silence):
            slot.parts, slot.throttle, size = [], body.throttle, 0
        else:
            parts = encoder(body)
            slot.throttle = body.get("throttle_time", 0)
            size = sum(map(len, parts))
            slot.parts = [answer_head(request.correlation_id, size, flexible=encoder.flexible_header), *parts]
        self._server.count(request, size)

    def _fail(self, request: Request, error: BaseException) -> None:
        self._server.tell_rarely("%s of %s failed", request.name, self.host, error=error)
        self.give_up(f"its {request.name} could not be answered: {error!r}")

    # --- a lone batch

    def _begin_lone(self, found: Found, lane: Lane, correlation_id: int, size: int) -> bool:
        """False if it has to go the long way."""
        known, batch = found
        facts = (PRODUCE, known.version, correlation_id, known.client_id, NO_BODY, self, size)
        slot = LoneSlot(tuple.__new__(Request, facts), _ENCODERS[PRODUCE, known.version], self, lane, found)
        try:
            if not lane.begin(batch, slot):
                return False
        except Exception as error:
            self._fail(slot.request, error)
        self._slots.append(slot)
        return True

    def begin_again(self, slot: LoneSlot) -> None:
        """The long way, in its place: the log has looked at it and refuses it."""
        request = slot.request
        if self._transport is None:
            return
        key, version, correlation_id, client_id, body = slot.found.facts(request.correlation_id)
        slot.request = Request(key, version, correlation_id, client_id, body, self, request.size)
        self._call(handler_of(key), slot)
        if slot.parts is not None:
            self._answer_or_wait(slot)

    def appended(self, slot: LoneSlot) -> None:
        """On the event loop. The usual answer leaves at once where nothing else is under way."""
        request, outcome, server = slot.request, slot.outcome, self._server
        assert outcome is not None
        base_offset, timestamp, error = outcome
        try:
            if not slot.is_ready:
                slot.expect(base_offset, timestamp)
            data = slot.whole
            if data is None or error is not None:
                self._came(slot, slot.lane.answer(outcome, slot.throttle))
                return
        except Exception as error:
            self._fail(request, error)
            return
        if self._transport is None:
            return
        if (
            len(self._slots) > 1
            or self._frames
            or slot.throttle
            or not self._sending
            or self._stopping
            or self._muted is not None
            or server.received.waiting
        ):
            slot.parts = [data]
            self._answer_or_wait(slot)
        else:
            self._transport.write(data)
            self._slots.clear()
            size = request[6] + LENGTH.size
            self._under_way -= size
            server.received.under_way -= size
        server.count(request, len(data) - WHOLE_HEAD)

    # --- answers

    def _send(self) -> None:
        if self._transport is None:
            return
        sent = 0
        parts: list[Buffer] = []
        while self._slots and self._slots[0].parts is not None and self._sending and self._muted is None:
            slot = self._slots.popleft()
            sent += slot.request.size + LENGTH.size
            parts += slot.parts or ()
            if len(parts) >= PARTS_AT_ONCE:
                self._write(parts)
                parts = []
            if slot.throttle and not self._stopping:
                self._server.counters.throttled += 1
                self._mute(slot.throttle)
        if parts:
            self._write(parts)
        if sent:
            self._under_way -= sent
            self._server.received.under_way -= sent
            if self._server.received.waiting:
                self._server.received.made_room()
        if self._stopping and not self._slots:
            self._transport.close()

    def _write(self, parts: list[Buffer]) -> None:
        """Small answers are sent as one piece: to copy them costs less than to send parts."""
        if self._transport is not None:
            if len(parts) == 1:
                self._transport.write(parts[0])
            elif max(map(len, parts)) <= COPIED_SIZE:
                self._transport.write(b"".join(parts))
            else:
                self._transport.writelines(parts)

    def _note_unsent(self) -> None:
        unsent = self._transport.get_write_buffer_size() if self._transport is not None and not self._sending else 0
        self._server.unsent.total += unsent - self._unsent
        self._unsent = unsent

    def _mute(self, milliseconds: int) -> None:
        """The client was told to wait: until then nothing of it is begun, and nothing more is answered."""
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self._server.loop.call_later(milliseconds / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._take_turn()

    # --- stopping

    @property
    def is_idle(self) -> bool:
        """Whether we wait for the client: for its next request, or because it does not take its answers."""
        return not self._sending or (not self._slots and not self._frames)

    def has_been_silent(self) -> bool:
        """Whether we wait for the client, and nothing of a request came or of an answer left since this was last asked:
        a large one may take long."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        before, self._seen = self._seen, (self._arrived, unsent)
        heard, self._heard = self._heard, False
        return self.is_idle and self._seen == before and not heard

    def stop(self) -> None:
        """Begin nothing more, answer what is under way, and close."""
        if self._transport is None or self._stopping:
            return
        self._pause_reading()
        self._stopping = True
        self._frames.clear()
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        self._send()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


_ENCODERS: dict[tuple[int, int], Encoder] = {}  # of the APIs and versions that were asked for


def _is_served(key: int, version: int) -> bool:
    """Then its encoder is there. What is not served is not remembered: a stranger may ask for anything."""
    if (key, version) in _ENCODERS:
        return True
    if key not in ANSWERED or version not in ANSWERED[key]:
        return False
    _ENCODERS[key, version] = response_encoder(key, version)
    return True
