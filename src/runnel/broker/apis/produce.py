"""Produce (0), versions 3 to 13: append record batches. Versions 0 to 2 are advertised and not served (KAFKA-18659).

- Every partition has exactly one batch, of format v2. It is answered when it is synced, or as the topic's flush setting
  says. `acks` of 1 is served like -1; 0 gets no answer, but its memory is held as long, and an error closes the
  connection.
- From version 13 on topics are named by their id.
- A batch that an idempotent producer sends twice is written once, and answered with its first offset.
- Before version 7 a batch by zstd is UNSUPPORTED_COMPRESSION_TYPE: clients of that time cannot read it.
- A record without a key is INVALID_RECORD in a compacted topic, with an error for each; one that is too old or too new
  is INVALID_TIMESTAMP. Only in compacted topics, and in those with a `message.timestamp.before.max.ms`, records are
  unpacked.
- Internal topics cannot be written.
- A transactional batch is written if its producer is in force (INVALID_PRODUCER_EPOCH, or INVALID_PRODUCER_ID_MAPPING
  if the transactional id has another producer) and the partition is in its transaction. From version 12 on (the second
  generation) the partition joins the transaction with its first batch; before, it has to be added with
  AddPartitionsToTxn: TRANSACTION_ABORTABLE if it was not, INVALID_TXN_STATE before version 11.
- A producer over its quota, or a nearly full disk, gets a throttle time: the answer comes first, then the client waits.
- The time-out of the request is the client's own affair: a batch that was accepted is not given up.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from runnel.broker.lanes import (
    IDS_SINCE,
    ZSTD_SINCE,
    Lane,
    is_in_transaction,
    lane_of,
    new_response,
    new_result,
    note_outcome,
    refuse_by_time,
    refuse_zstd,
)
from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.request import Answer, Body, Later, Request, Silence
from runnel.broker.topics import Topic
from runnel.broker.transactions import ProducerEpoch, TopicPartition
from runnel.broker.transactions.mistakes import refuse
from runnel.errors import InvalidBatch, RunnelError
from runnel.log import Append, Partition
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.known import Known
from runnel.records import HEADER_SIZE, TRANSACTIONAL, BatchHeader, parse_header, records_of

ABORTABLE_SINCE = 11
SECOND_GENERATION_SINCE = 12


def handle(node: Node, request: Request) -> Answer:
    return _begun_alone(node, request) or Production(node, request).start()


# --- the short way


class LoneBatch(Later):
    """A request with nothing but a lone batch, see `runnel.broker.lanes`."""

    __slots__ = ("_lane", "_size")

    def __init__(self, lane: Lane, size: int) -> None:
        self._body = self._tell = None
        self._lane = lane
        self._size = size

    def done(self, append: Append) -> None:
        self.give(self._lane.answer(append.outcome, self._lane.throttle(self._size)))


def _begun_alone(node: Node, request: Request) -> LoneBatch | None:
    """None if this is another kind of request, or it is refused."""
    asked = request.body["topic_data"]
    if len(asked) != 1 or len(asked[0]["partition_data"]) != 1:
        return None
    batch = asked[0]["partition_data"][0]["records"]
    lane = lane_of(node, Known(request.version, request.client_id, request.body))
    if batch is None or lane is None:
        return None
    lone = LoneBatch(lane, len(batch))
    append = lane.submit(batch)
    if append is None:
        return None
    append.when_done(partial(node.handover.call, lone.done))
    return lone


# --- the long way


class _First(NamedTuple):
    """A batch that waits to be admitted."""

    place: TopicPartition
    partition: Partition
    batch: memoryview
    result: dict[str, Any]


class Production(Later):
    """One request on its way: answered when the last of its batches is."""

    __slots__ = ("_joining", "_node", "_pending", "_request", "_responses", "_written")

    def __init__(self, node: Node, request: Request) -> None:
        super().__init__()
        self._node = node
        self._request = request
        self._responses: list[dict[str, Any]] = []
        self._joining: dict[ProducerEpoch, list[_First]] = {}
        self._pending = 0
        self._written = 0

    def start(self) -> Answer:
        body = self._request.body
        mistake = None if body["acks"] in (-1, 0, 1) else ErrorCode.INVALID_REQUIRED_ACKS
        for topic in body["topic_data"]:
            self._take_topic(topic, mistake)
        for producer, batches in self._joining.items():
            self._ask(producer, batches)
        return self if self._pending else self._answer()

    # --- appending

    def _take_topic(self, asked: dict[str, Any], mistake: ErrorCode | None) -> None:
        by_id = self._request.version >= IDS_SINCE
        topics = self._node.topics
        topic = topics.find_id(asked["topic_id"]) if by_id else topics.find(asked["name"])
        if mistake is None and topic is None:
            mistake = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif mistake is None and topic is not None and topic.is_internal:
            mistake = ErrorCode.INVALID_TOPIC
        results: list[dict[str, Any]] = []
        self._responses.append(new_response(asked, results))
        for partition in asked["partition_data"]:
            result = new_result(partition["index"])
            results.append(result)
            if mistake is not None or topic is None:
                result["error_code"] = mistake
                self._miss(asked["topic_id"] if by_id else asked["name"], partition["index"], mistake)
            else:
                self._append(topic, partition["index"], partition["records"], result)

    def _append(self, topic: Topic, number: int, batch: memoryview | None, result: dict[str, Any]) -> None:
        try:
            partition = topic.partition(number)
            if batch is None or len(batch) < HEADER_SIZE:
                raise InvalidBatch("no record batch")
            header = parse_header(batch)
            if self._request.version < ZSTD_SINCE:
                refuse_zstd(self._request.version, header)
            refuse_by_time(self._node.clock, topic.settings, header, batch)
            if topic.settings.compacts:
                keyless = keyless_in(batch)
                if keyless:
                    result["record_errors"] = keyless
                    raise Refusal(ErrorCode.INVALID_RECORD, "a compacted topic takes no records without a key")
            if header.attributes & TRANSACTIONAL:
                self._admit(topic, partition, batch, header, result)
            else:
                self._submit(partition, batch, result)
                self._pending += 1
        except IndexError:
            result["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._miss(topic.name, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except (Refusal, RunnelError) as error:
            result["error_code"], result["error_message"] = code_of(error), text_of(error)
            self._node.refused(self._request, result["error_code"], f"{topic.name}-{number}: {error}")

    def _miss(self, topic: object, number: int, mistake: ErrorCode | None) -> None:
        """Who is in a transaction has had the partition; others may be a little early."""
        name = self._request.body["transactional_id"]
        if name and mistake is not None:
            self._node.refused(self._request, mistake, f"transaction {name!r} cannot write to {topic}-{number}")

    def _submit(self, partition: Partition, batch: memoryview, result: dict[str, Any]) -> None:
        append = partition.submit(batch)
        self._written += len(batch)
        result["log_start_offset"] = partition.start_offset
        append.when_done(lambda append: self._node.handover.call(self._done, (result, append)))

    def _admit(
        self, topic: Topic, partition: Partition, batch: memoryview, header: BatchHeader, result: dict[str, Any]
    ) -> None:
        """The first batch of a transaction in a partition has to be admitted by the coordinator; the others follow, and
        so do all if the partition was added before, durably."""
        if not self._request.body["transactional_id"]:
            raise Refusal(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch in a request without a transactional id",
            )
        number = result["index"]
        if is_in_transaction(self._node, self._request.body["transactional_id"], topic, number, header):
            self._submit(partition, batch, result)
            self._pending += 1
            return

        self._pending += 1
        producer = ProducerEpoch(header.producer_id, header.producer_epoch)
        first = _First(TopicPartition(topic.name, number), partition, batch, result)
        if self._request.version >= SECOND_GENERATION_SINCE:
            self._joining.setdefault(producer, []).append(first)
        else:
            self._ask(producer, [first])

    def _ask(self, producer: ProducerEpoch, batches: list[_First]) -> None:
        """Those that join with their first batches are asked for together: it is one decision."""
        name = self._request.body["transactional_id"]
        version = 2 if self._request.version >= SECOND_GENERATION_SINCE else 1

        def then(refused: BaseException | None) -> None:
            for batch in batches:
                self._submit_first(batch, refused)

        self._node.transactions.admit(name, producer, [each.place for each in batches], version, then)

    def _submit_first(self, first: _First, refused: BaseException | None) -> None:
        try:
            if refused is not None:
                raise refused  # whatever it is, the producer waits for an answer
            self._submit(first.partition, first.batch, first.result)
        except Exception as error:
            # What the disk did not take is told as of any other batch: nobody looks for a coordinator here.
            abortable = self._request.version >= ABORTABLE_SINCE
            where = f"{first.place.topic}-{first.place.partition}"
            first.result["error_code"] = refuse(
                self._node,
                self._request,
                error,
                knows_fenced=False,
                knows_abortable=abortable,
                unstored=ErrorCode.KAFKA_STORAGE_ERROR,
                where=where,
            )
            first.result["error_message"] = text_of(error)
            self._settle()

    # --- answering

    def _done(self, done: tuple[dict[str, Any], Append]) -> None:
        result, append = done
        note_outcome(result, append.outcome)
        self._settle()

    def _settle(self) -> None:
        self._pending -= 1
        if not self._pending:
            self.give(self._answer())

    def _answer(self) -> Body:
        throttle = self._node.throttle_producer(self._request.client_id, self._written)
        if self._request.body["acks"] == 0:
            self._give_up_if_refused()
            return Silence(throttle)
        return {"responses": self._responses, "throttle_time": throttle}

    def _give_up_if_refused(self) -> None:
        for topic in self._responses:
            for result in topic["partition_responses"]:
                if result["error_code"]:
                    self._request.peer.give_up(
                        f"a record for {topic['name'] or topic['topic_id']}-{result['index']}, which asked for no "
                        f"acknowledgement, was refused: {ErrorCode(result['error_code']).name}"
                    )


def keyless_in(batch: memoryview) -> list[dict[str, Any]]:
    """Each record without a key, as an error of its own."""
    return [
        {"batch_index": index, "batch_index_error_message": "a compacted topic needs a key"}
        for index, record in enumerate(records_of(batch))
        if record.key is None
    ]
