"""Where the tests of transactions play: a node on a disk in memory, with time that is moved by hand.

    stage = Stage()
    ann = stage.producer()
    ann.begin()
    ann.write("orders", b"one")
    ann.end(committed=True)

A producer here is as good as a test wants it to be: it keeps its id, epoch and sequences, and can be told to lie.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from inspect import isawaitable
from random import Random
from typing import Any

from runnel.broker.apis import handler_of
from runnel.broker.endpoints import Endpoint
from runnel.broker.node import open_node
from runnel.broker.request import Later
from runnel.broker.transactions import ProducerEpoch, Status, Transaction
from runnel.log import Partition
from runnel.protocol.decode import read_response
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from runnel.records import TRANSACTIONAL, Producer, Record, batches_of, build_batch, marker_in, records_of
from runnel.testing import FaultyFiles, StoppedClock
from tests.broker_wire import fetch_body
from tests.unit.broker.node_stage import bytes_of, request_of
from tests.unit.broker.socketless import Loop

SECONDS = 60.0  # for what takes a moment
READ_COMMITTED = 1
TIMEOUT = 60_000


class Stage:
    def __init__(self, **configs: str) -> None:
        self.configs = {name.replace("_", "."): value for name, value in configs.items()}
        self.clock = StoppedClock()
        self.files = FaultyFiles(clock=self.clock)
        self._open()

    def _open(self) -> None:
        self.loop = Loop()
        self.node = open_node("/data", self.configs, files=self.files, loop=self.loop, clock=self.clock)
        self.node.endpoints = {"PLAINTEXT": Endpoint("broker.example", 9092)}
        self.node.transactions.start()

    # --- its life

    def close(self) -> None:
        self.node.stop()
        self._end_tasks()
        self.node.close()
        self.loop.close()

    def restart(self) -> None:
        self.close()
        self._open()

    def kill(self) -> None:
        """The process ends."""
        self._leave()
        self.files = self.files.kill()
        self._open()

    def lose_power(self, seed: int = 0) -> None:
        self._leave()
        self.files = self.files.crash(Random(seed))
        self._open()

    def _leave(self) -> None:
        """Nothing more happens to the files: what is under way is dropped where it stands."""
        log = self.node.log
        log._closed.set()
        log._thread.join()
        commits = log._commits
        commits._background = False
        if commits._thread is not None:
            commits._wake.put(False)
            commits._thread.join()
        self.node._threads.shutdown()
        self._end_tasks()
        self.loop.close()

    def _end_tasks(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.turn(3)

    # --- time

    def turn(self) -> None:
        self.loop.turn()
        time.sleep(0)  # the log's threads may have something to do

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not after {SECONDS:.0f} s")
            self.turn()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = self.loop.create_task(work)
        self.until(task.done)
        return task.result()

    def advance(self, milliseconds: int) -> None:
        """Move the clock, a second at a time: what is due rings, and what follows from it can be due too."""
        while milliseconds > 0:
            step = min(milliseconds, 1_000)
            self.clock.advance(step)
            self.loop.advance(step / 1000)
            milliseconds -= step

    def quiet(self) -> None:
        """Wait until no transaction is being ended, also none of those whose end nobody asked for."""
        self.until(lambda: not any(each.status.is_ending for each in self.node.transactions.all().values()))

    # --- requests

    def ask(self, api: Api, body: Mapping[str, Any], version: int = -1) -> dict[str, Any]:
        """The answer to a request as its bytes tell it."""
        version = SERVED[api].most if version == -1 else version
        return self.answer_of(api, version, self.run(self._answered(api, version, body)))

    def begin(self, api: Api, body: Mapping[str, Any], version: int = -1) -> asyncio.Task[Any]:
        """A request under way; its answer is not read."""
        version = SERVED[api].most if version == -1 else version
        return self.loop.create_task(self._answered(api, version, body))

    def answer_of(self, api: Api, version: int, answer: Any) -> dict[str, Any]:
        return read_response(api, version, bytes_of(api, version, answer))

    async def _answered(self, api: Api, version: int, body: Mapping[str, Any]) -> Any:
        request = request_of(api, version, body)
        answer = handler_of(request.api_key)(self.node, request)
        if isinstance(answer, Later):
            given = self.loop.create_future()
            answer.then(lambda body: given.done() or given.set_result(body))
            return await given
        return await answer if isawaitable(answer) else answer

    # --- topics

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.run(self.node.topics.create(topic, partitions, named))

    def delete(self, topic: str) -> None:
        body = {"topics": [{"name": topic, "topic_id": None}], "timeout": 1_000}
        (gone,) = self.ask(Api.DELETE_TOPICS, body)["responses"]
        assert not gone["error_code"]

    def partition(self, topic: str = "orders", number: int = 0) -> Partition:
        found = self.node.topics.find(topic)
        assert found is not None
        return found.partition(number)

    def fetch(self, topic: str = "orders", number: int = 0, *, committed: bool = True, offset: int = 0) -> Any:
        found = self.node.topics.find(topic)
        assert found is not None
        body = fetch_body({topic: {number: offset}}, isolation_level=READ_COMMITTED if committed else 0)
        body["topics"][0]["topic_id"] = found.id
        (answer,) = self.ask(Api.FETCH, body)["responses"][0]["partitions"]
        assert not answer["error_code"]
        return answer

    def values(self, topic: str = "orders", number: int = 0, *, committed: bool = True) -> list[bytes]:
        """What a consumer of committed records gets: it leaves out what is aborted, and the markers."""
        fetched = self.fetch(topic, number, committed=committed)
        return values_in(fetched["records"], fetched["aborted_transactions"] or ())

    def committed_offset(self, topic: str = "orders", number: int = 0, group: str = "g", *, stable: bool = True) -> int:
        """-1: there is none; -2: it is not known yet."""
        found = self.node.topics.find(topic)
        assert found is not None
        asked = [{"name": topic, "topic_id": found.id, "partition_indexes": [number]}]
        wanted = {"group_id": group, "topics": asked, "member_id": None, "member_epoch": -1}
        (answer,) = self.ask(Api.OFFSET_FETCH, {"groups": [wanted], "require_stable": stable})["groups"]
        (partition,) = answer["topics"][0]["partitions"]
        if partition["error_code"] == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return -2
        assert not partition["error_code"]
        return int(partition["committed_offset"])

    # --- transactions

    def get(self, name: str = "t") -> Transaction:
        known = self.node.transactions.get(name)
        assert known is not None
        return known

    def until_is(self, status: Status, name: str = "t") -> None:
        self.until(lambda: self.get(name).status is status)

    def producer(self, name: str = "t", generation: int = 2, **more: Any) -> TransactionalProducer:
        producer = TransactionalProducer(self, name, generation)
        assert producer.initialise(**more) == ErrorCode.NONE
        return producer


class TransactionalProducer:
    """Each call is one request, and answers with its error code."""

    def __init__(self, stage: Stage, name: str, generation: int) -> None:
        self.stage = stage
        self.name = name
        self.generation = generation
        self.producer = ProducerEpoch(-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}

    def initialise(self, timeout: int = TIMEOUT, *, keep: bool = False) -> ErrorCode:
        """`keep`: bring the id and the epoch."""
        brought = self.producer if keep else ProducerEpoch(-1, -1)
        body = {"transactional_id": self.name, "transaction_timeout": timeout, "producer_id": brought.producer_id}
        body |= {"producer_epoch": brought.epoch, "enable2_pc": False, "keep_prepared_txn": False}
        answer = self.stage.ask(Api.INIT_PRODUCER_ID, body, 4 if self.generation == 1 else 5)
        if not answer["error_code"]:
            self._become(answer)
        return ErrorCode(answer["error_code"])

    def _become(self, answer: dict[str, Any]) -> None:
        after = ProducerEpoch(answer["producer_id"], answer["producer_epoch"])
        if after != self.producer:
            self.sequences = {}
        self.producer = after

    def add_body(self, *places: tuple[str, int]) -> dict[str, Any]:
        return {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self.producer.producer_id,
            "v3_and_below_producer_epoch": self.producer.epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [number]} for topic, number in places],
        }

    def add(self, *places: tuple[str, int]) -> ErrorCode:
        answer = self.stage.ask(Api.ADD_PARTITIONS_TO_TXN, self.add_body(*places), 3)
        results = answer["results_by_topic_v3_and_below"]
        codes = {each["partition_error_code"] for topic in results for each in topic["results_by_partition"]}
        return ErrorCode(max(codes))

    def batch(self, values: tuple[bytes, ...], sequence: int) -> bytes:
        records = [Record(value, None, self.stage.clock.now()) for value in values]
        return build_batch(records, producer=Producer(*self.producer, sequence), attributes=TRANSACTIONAL)

    def produce_body(self, topic: str, number: int, batch: bytes) -> dict[str, Any]:
        found = self.stage.node.topics.find(topic)
        data = [{"index": number, "records": batch}]
        return {
            "transactional_id": self.name,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [{"name": topic, "topic_id": found and found.id, "partition_data": data}],
        }

    def write(self, topic: str, *values: bytes, number: int = 0, sequence: int | None = None) -> ErrorCode:
        """One batch; in the first generation the partition is added before."""
        if self.generation == 1:
            error = self.add((topic, number))
            if error:
                return error
        known = self.sequences.get((topic, number), 0)
        batch = self.batch(values, known if sequence is None else sequence)
        version = 11 if self.generation == 1 else 12
        answer = self.stage.ask(Api.PRODUCE, self.produce_body(topic, number, batch), version)
        (result,) = answer["responses"][0]["partition_responses"]
        if not result["error_code"] and sequence is None:
            self.sequences[topic, number] = known + len(values)
        return ErrorCode(result["error_code"])

    def add_offsets(self, group: str = "g") -> ErrorCode:
        body = {"transactional_id": self.name, "producer_id": self.producer.producer_id, "group_id": group}
        answer = self.stage.ask(Api.ADD_OFFSETS_TO_TXN, body | {"producer_epoch": self.producer.epoch}, 3)
        return ErrorCode(answer["error_code"])

    def commit_offset(self, offset: int, topic: str = "orders", number: int = 0, group: str = "g") -> ErrorCode:
        if self.generation == 1:
            error = self.add_offsets(group)
            if error:
                return error
        answer = self.stage.ask(
            Api.TXN_OFFSET_COMMIT, self.offset_body(offset, topic, number, group), 4 if self.generation == 1 else 5
        )
        return ErrorCode(answer["topics"][0]["partitions"][0]["error_code"])

    def offset_body(self, offset: int, topic: str = "orders", number: int = 0, group: str = "g") -> dict[str, Any]:
        place = {"partition_index": number, "committed_offset": offset, "committed_leader_epoch": -1}
        place["committed_metadata"] = ""
        return {
            "transactional_id": self.name,
            "group_id": group,
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.epoch,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [place]}],
        }

    def end_body(self, *, committed: bool) -> dict[str, Any]:
        body = {"transactional_id": self.name, "producer_id": self.producer.producer_id, "committed": committed}
        return body | {"producer_epoch": self.producer.epoch}

    @property
    def end_version(self) -> int:
        return 3 if self.generation == 1 else 5

    def end(self, *, committed: bool, lost: bool = False) -> ErrorCode:
        """The markers are written, too: who looks by requests alone may use `end_soon`. `lost`: the producer does not
        hear of the answer."""
        error = self.end_soon(committed=committed, lost=lost)
        self.stage.until(lambda: not self.stage.node.transactions.are_ending)
        return error

    def end_soon(self, *, committed: bool, lost: bool = False) -> ErrorCode:
        """Answered, and the markers are on their way."""
        answer = self.stage.ask(Api.END_TXN, self.end_body(committed=committed), self.end_version)
        if not answer["error_code"] and not lost and self.generation > 1:
            self._become(answer)
        return ErrorCode(answer["error_code"])


def values_in(data: Any, aborted: Any) -> list[bytes]:
    """The values of committed records, as a consumer finds them with the list of what was aborted."""
    data = bytes(data)
    starts = sorted(((each["first_offset"], each["producer_id"]) for each in aborted), reverse=True)
    gone: set[int] = set()
    values: list[bytes] = []
    for position, header in batches_of(data):
        while starts and starts[-1][0] <= header.last_offset:
            gone.add(starts.pop()[1])
        records = records_of(data, position)
        if header.is_control:
            if not marker_in(records[0]).committed:
                gone.discard(header.producer_id)
        elif header.producer_id not in gone or not header.is_transactional:
            values += [record.value or b"" for record in records]
    return values
