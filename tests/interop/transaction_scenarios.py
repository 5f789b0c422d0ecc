"""What a broker answers in transactions, told so that two brokers can be compared.

A scenario is a function of `Told`: it asks one question after the other, and each answer is noted without what differs
from run to run. Producer ids are numbered in the order in which they are seen. CONCURRENT_TRANSACTIONS is an answer
that asks to come again, and a matter of speed: so it is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import TRANSACTIONAL, Producer
from tests.broker_wire import Wire, batch_of, create_topic, fetch_body, records_in

LIMIT = 60.0
AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
READ_COMMITTED = 1
LAST_EPOCH = 32_766
SECOND_PRODUCE, SECOND_END, SECOND_OFFSETS = 12, 5, 5


class Told:
    def __init__(self, bootstrap: str, name: str) -> None:
        self.wire = Wire(bootstrap)
        self.name = name
        self.topic = f"topic-{name}"
        self.group = f"group-{name}"
        self.answers: list[tuple[Any, ...]] = []
        self._ids: dict[int, int] = {}
        create_topic(self.wire, self.topic, 2)
        self._until_found()
        until(lambda: self._has_leader(0) and self._has_leader(1))

    def _has_leader(self, partition: int) -> bool:
        asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
        body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": self.topic, "partitions": [asked]}]}
        answer = self.wire.ask(Api.LIST_OFFSETS, 7, **body)
        return not answer["topics"][0]["partitions"][0]["error_code"]

    def _until_found(self) -> None:
        """Kafka makes its internal topics when somebody asks for the first time."""
        for key_type, key in enumerate((self.group, self.name)):
            body = {"key": key, "key_type": key_type, "coordinator_keys": [key]}
            until(lambda body=body: not self.wire.ask(Api.FIND_COORDINATOR, 4, **body)["coordinators"][0]["error_code"])

    def _note(self, what: str, *facts: Any) -> None:
        self.answers.append((what, *facts))

    def _code(self, answer: dict[str, Any]) -> str:
        return ErrorCode(answer["error_code"]).name

    def number(self, producer_id: int) -> int:
        return producer_id if producer_id < 0 else self._ids.setdefault(producer_id, len(self._ids))

    # --- questions

    def initialise(self, version: int = 4, expected: tuple[int, int] = (-1, -1), timeout: int = 60_000) -> Any:
        body = {"transactional_id": self.name, "transaction_timeout": timeout, "producer_id": expected[0]}
        body |= {"producer_epoch": expected[1], "enable2_pc": False, "keep_prepared_txn": False}
        answer = again(lambda: self.wire.ask(Api.INIT_PRODUCER_ID, version, **body))
        producer = answer["producer_id"], answer["producer_epoch"]
        self._note(f"init {version}", self._code(answer), self.number(producer[0]), producer[1])
        return producer

    def add(self, producer: Any, *places: tuple[str, int], version: int = 3) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in places or ((self.topic, 0),):
            topics.setdefault(topic, []).append(partition)
        asked = [{"name": name, "partitions": numbers} for name, numbers in topics.items()]
        body = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": producer[0],
            "v3_and_below_producer_epoch": producer[1],
            "v3_and_below_topics": asked,
        }

        def ask() -> dict[str, Any]:
            answer = self.wire.ask(Api.ADD_PARTITIONS_TO_TXN, version, **body)
            results = {
                (topic["name"], each["partition_index"]): each["partition_error_code"]
                for topic in answer["results_by_topic_v3_and_below"]
                for each in topic["results_by_partition"]
            }
            return {"error_code": max(results.values()), "results": results}

        results = again(ask)["results"]
        told = sorted((self._anonymous(topic), part, ErrorCode(code).name) for (topic, part), code in results.items())
        self._note(f"add {version}", *told)

    def _anonymous(self, topic: str) -> str:
        return "topic" if topic == self.topic else topic

    def produce(
        self, producer: Any, sequence: int, *values: bytes, partition: int = 0, version: int = 11, name: Any = ""
    ) -> None:
        batch = batch_of(
            *(values or (b"v",)),
            timestamp=int(time.time() * 1000),
            producer=Producer(*producer, sequence),
            attributes=TRANSACTIONAL,
        )
        body = {
            "transactional_id": self.name if name == "" else name,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [{"name": self.topic, "partition_data": [{"index": partition, "records": batch}]}],
        }

        def ask() -> dict[str, Any]:
            answer: dict[str, Any] = self.wire.ask(Api.PRODUCE, version, **body)["responses"][0]
            result: dict[str, Any] = answer["partition_responses"][0]
            return result

        answer = again(ask)
        self._note(f"produce {version}", self._code(answer), answer["base_offset"])

    def add_offsets(self, producer: Any, version: int = 3) -> None:
        body = {"transactional_id": self.name, "producer_id": producer[0], "producer_epoch": producer[1]}
        answer = again(lambda: self.wire.ask(Api.ADD_OFFSETS_TO_TXN, version, **body, group_id=self.group))
        self._note(f"add offsets {version}", self._code(answer))

    def commit_offset(self, producer: Any, offset: int, version: int = 4, **member: Any) -> None:
        place = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
        place["committed_metadata"] = "so far"
        body = {
            "transactional_id": self.name,
            "group_id": self.group,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": self.topic, "partitions": [place]}],
        }

        def ask() -> dict[str, Any]:
            answer = self.wire.ask(Api.TXN_OFFSET_COMMIT, version, **body | member)
            result: dict[str, Any] = answer["topics"][0]["partitions"][0]
            return result

        self._note(f"commit offset {version}", self._code(again(ask)))

    def offset(self, *, stable: bool) -> None:
        group = {
            "group_id": self.group,
            "topics": [{"name": self.topic, "partition_indexes": [0, 1]}],
            "member_id": None,
            "member_epoch": -1,
        }
        answer = self.wire.ask(Api.OFFSET_FETCH, 9, groups=[group], require_stable=stable)["groups"][0]
        partitions = answer["topics"][0]["partitions"]
        found = [(self._code(each), each["committed_offset"], each["metadata"]) for each in partitions]
        self._note("offset", self._code(answer), *found)

    def delete_group(self) -> None:
        (answer,) = self.wire.ask(Api.DELETE_GROUPS, 2, groups_names=[self.group])["results"]
        self._note("delete group", self._code(answer))

    def delete_offset(self) -> None:
        topics = [{"name": self.topic, "partitions": [{"partition_index": 0}]}]
        answer = self.wire.ask(Api.OFFSET_DELETE, 0, group_id=self.group, topics=topics)
        found = [self._code(each) for topic in answer["topics"] for each in topic["partitions"]]
        self._note("delete offset", self._code(answer), *found)

    def end(self, producer: Any, *, committed: bool, version: int = 3) -> Any:
        body = {"transactional_id": self.name, "producer_id": producer[0], "producer_epoch": producer[1]}
        answer = again(lambda: self.wire.ask(Api.END_TXN, version, **body, committed=committed))
        after = (answer["producer_id"], answer["producer_epoch"]) if version >= SECOND_END else producer
        told = (self.number(after[0]), after[1]) if version >= SECOND_END else ()
        self._note(f"end {version}", committed, self._code(answer), *told)
        if not answer["error_code"]:
            self.until_ended()
        return after

    def until_ended(self) -> None:
        """Kafka answers before the markers are written."""

        def ended() -> bool:
            answer = self.wire.ask(Api.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name])
            return not str(answer["transaction_states"][0]["transaction_state"]).startswith("Prepare")

        until(ended)

    def describe(self) -> None:
        answer = self.wire.ask(Api.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name])
        (state,) = answer["transaction_states"]
        topics = sorted((self._anonymous(each["topic"]), tuple(each["partitions"])) for each in state["topics"])
        self._note(
            "describe",
            self._code(state),
            state["transaction_state"],
            state["transaction_timeout"],
            min(state["transaction_start_time"], 1),
            self.number(state["producer_id"]),
            state["producer_epoch"],
            topics,
        )

    def listed(self, **filters: Any) -> None:
        body = {"state_filters": (), "producer_id_filters": (), "duration_filter": -1, "transactional_id_pattern": None}
        answer = self.wire.ask(Api.LIST_TRANSACTIONS, 2, **body | filters)
        mine = [each for each in answer["transaction_states"] if each["transactional_id"] == self.name]
        told = [(self.number(each["producer_id"]), each["transaction_state"]) for each in mine]
        self._note("list", self._code(answer), sorted(answer["unknown_state_filters"]), *told)

    def producers(self, partition: int = 0) -> None:
        body = {"topics": [{"name": self.topic, "partition_indexes": [partition]}]}
        (topic,) = self.wire.ask(Api.DESCRIBE_PRODUCERS, 0, **body)["topics"]
        (found,) = topic["partitions"]
        told = [
            (
                self.number(each["producer_id"]),
                each["producer_epoch"],
                each["last_sequence"],
                each["current_txn_start_offset"],
            )
            for each in found["active_producers"]
        ]
        self._note("producers", self._code(found), *sorted(told))

    def fetch(self, *, committed: bool, offset: int = 0, partition: int = 0, version: int = 12) -> None:
        body = fetch_body({self.topic: {partition: offset}}, isolation_level=READ_COMMITTED if committed else 0)
        (found,) = self.wire.ask(Api.FETCH, version, **body)["responses"][0]["partitions"]
        aborted = found["aborted_transactions"]
        if aborted is not None:
            aborted = [(self.number(each["producer_id"]), each["first_offset"]) for each in aborted]
        records = [(record.offset, record.value) for record in records_in(found["records"])]
        told = found["high_watermark"], found["last_stable_offset"]
        self._note("fetch", committed, self._code(found), *told, aborted, records)

    def latest(self, *, committed: bool, timestamp: int = -1) -> None:
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        body = {"replica_id": -1, "topics": [{"name": self.topic, "partitions": [asked]}], "timeout": 30_000}
        answer = self.wire.ask(Api.LIST_OFFSETS, 7, isolation_level=READ_COMMITTED if committed else 0, **body)
        (found,) = answer["topics"][0]["partitions"]
        self._note("latest", committed, timestamp, self._code(found), found["offset"])

    def mark(self, producer: Any, *, committed: bool, coordinator_epoch: int = 0, topic: str | None = None) -> None:
        marker = {
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "transaction_result": committed,
            "topics": [{"name": topic or self.topic, "partition_indexes": [0]}],
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": 0,
        }
        answer = self.wire.ask(Api.WRITE_TXN_MARKERS, 1, markers=[marker])
        (found,) = answer["markers"][0]["topics"][0]["partitions"]
        self._note("mark", self._code(found))


def again(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    deadline = time.monotonic() + LIMIT
    while True:
        answer = ask()
        if answer["error_code"] not in AGAIN or time.monotonic() > deadline:
            return answer
        time.sleep(0.02)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not after {LIMIT:.0f} s")
        time.sleep(0.02)


# --- the first generation


def a_commit(told: Told) -> None:
    producer = told.initialise()
    told.describe()
    told.add(producer)
    told.produce(producer, 0, b"a", b"b")
    told.describe()
    told.producers()
    for committed in (True, False):
        told.fetch(committed=committed)
        told.latest(committed=committed)
        told.latest(committed=committed, timestamp=0)
    told.end(producer, committed=True)
    told.describe()
    told.producers()
    for committed in (True, False):
        told.fetch(committed=committed)
        told.latest(committed=committed)
        told.latest(committed=committed, timestamp=0)
    told.end(producer, committed=True)
    told.end(producer, committed=False)
    told.add(producer)
    told.produce(producer, 2, b"c")
    told.end(producer, committed=True)
    told.fetch(committed=True, offset=1)


def an_abort(told: Told) -> None:
    producer = told.initialise()
    told.add(producer, (told.topic, 0), (told.topic, 1))
    told.produce(producer, 0, b"a", b"b")
    told.produce(producer, 0, b"x", partition=1)
    told.end(producer, committed=False)
    told.end(producer, committed=False)
    told.end(producer, committed=True)
    told.add(producer)
    told.produce(producer, 2, b"c")
    told.end(producer, committed=True)
    for offset in range(5):
        told.fetch(committed=True, offset=offset)
    told.fetch(committed=True, partition=1)
    told.fetch(committed=False)


def ends_of_nothing(told: Told) -> None:
    producer = told.initialise()
    told.end(producer, committed=True)
    told.end(producer, committed=False)


def writes_that_were_not_added(told: Told) -> None:
    producer = told.initialise()
    for version in (9, 10, 11):
        told.produce(producer, 0, version=version)
    told.add(producer, (told.topic, 1))
    for version in (9, 10, 11):
        told.produce(producer, 0, version=version)
    told.produce(producer, 0, partition=1)
    told.end(producer, committed=True)
    told.produce(producer, 1, partition=1)
    told.fetch(committed=False, partition=1)
    told.produce(producer, 1, partition=1, name=None)


def partitions_that_are_not_there(told: Told) -> None:
    producer = told.initialise()
    told.add(producer, (told.topic, 0), (told.topic, 7), ("no-such-topic", 0))
    told.add(producer, (told.topic, 0), ("__transaction_state", 0))
    told.add(producer, ("__consumer_offsets", 0))
    told.describe()


def a_fenced_producer(told: Told) -> None:
    old = told.initialise()
    told.add(old)
    told.produce(old, 0, b"old")
    told.add_offsets(old)
    new = told.initialise()
    told.until_ended()
    told.describe()
    for version in range(4):
        told.add(old, version=version)
        told.add_offsets(old, version)
        told.end(old, committed=True, version=version)
        told.commit_offset(old, 1, version=version)
    told.end(old, committed=True, version=SECOND_END)
    for version in (9, 10, 11, SECOND_PRODUCE):
        told.produce(old, 1, version=version)
    for version in (3, 4, 5):
        told.initialise(version, expected=old)
    told.add(new)
    told.produce(new, 0, b"new")
    told.end(new, committed=True)
    told.fetch(committed=True)


def an_unknown_producer(told: Told) -> None:
    nobody = (987_654, 0)
    told.add(nobody)
    told.add_offsets(nobody)
    told.end(nobody, committed=True)
    told.produce(nobody, 0, version=11)
    told.produce(nobody, 0, version=SECOND_PRODUCE)
    told.commit_offset(nobody, 1)
    told.describe()
    told.initialise()
    told.add(nobody)
    told.add_offsets(nobody)
    told.end(nobody, committed=False)
    told.end(nobody, committed=False, version=SECOND_END)
    told.produce(nobody, 0, version=11)
    told.produce(nobody, 0, version=SECOND_PRODUCE)
    told.commit_offset(nobody, 1)
    told.initialise(expected=nobody)


def offsets_in_a_transaction(told: Told) -> None:
    producer = told.initialise()
    told.commit_offset(producer, 3, version=3)
    told.commit_offset(producer, 3)
    told.add_offsets(producer)
    told.commit_offset(producer, 3)
    told.describe()
    for stable in (True, False):
        told.offset(stable=stable)
    told.end(producer, committed=False)
    told.offset(stable=True)
    told.add_offsets(producer)
    told.commit_offset(producer, 4)
    told.end(producer, committed=True)
    told.offset(stable=True)
    told.commit_offset(producer, 5)
    told.add_offsets(producer)
    told.commit_offset(producer, 6, member_id="nobody", generation_id=3)
    told.commit_offset(producer, 6, member_id="nobody")
    told.commit_offset(producer, 6, generation_id=3)
    told.end(producer, committed=False)


def a_group_that_is_deleted_while_its_offsets_are_pending(told: Told) -> None:
    producer = told.initialise()
    told.add_offsets(producer)
    told.commit_offset(producer, 3)
    told.delete_group()
    told.end(producer, committed=True)
    told.offset(stable=True)
    told.add_offsets(producer)
    told.commit_offset(producer, 4)
    told.delete_offset()
    told.end(producer, committed=True)
    told.offset(stable=True)


def a_producer_that_brings_its_epoch(told: Told) -> None:
    first = told.initialise()
    second = told.initialise(expected=first)
    told.initialise(expected=first)
    told.add(second)
    told.end(second, committed=False)
    third = told.initialise(expected=second)
    told.initialise()
    for version in (3, 4, 5):
        told.initialise(version, expected=third)
    told.initialise(expected=(first[0], 99))
    told.initialise(timeout=0)
    told.initialise(timeout=900_001)


def lists(told: Told) -> None:
    producer = told.initialise()
    told.listed()
    told.listed(transactional_id_pattern=f".*{told.name}")
    told.listed(transactional_id_pattern="nothing like it")
    told.listed(transactional_id_pattern=told.name[:-1])  # all of it has to fit
    told.listed(state_filters=["Empty", "Wrong"])
    told.listed(state_filters=["Ongoing"])
    told.add(producer)
    told.listed(state_filters=["Ongoing"])
    told.listed(producer_id_filters=[producer[0]])
    told.listed(producer_id_filters=[producer[0] + 100_000])
    told.listed(duration_filter=100_000)
    told.end(producer, committed=False)


# --- the second generation


def commits_with_new_epochs(told: Told) -> None:
    producer = told.initialise(5)
    told.produce(producer, 0, b"a", b"b", version=SECOND_PRODUCE)
    told.describe()
    told.produce(producer, 2, b"c", version=SECOND_PRODUCE)
    told.fetch(committed=True)
    after = told.end(producer, committed=True, version=SECOND_END)
    told.describe()
    told.producers()
    told.end(producer, committed=True, version=SECOND_END)
    told.end(producer, committed=False, version=SECOND_END)
    told.produce(producer, 3, b"late", version=SECOND_PRODUCE)
    told.produce(after, 0, b"d", version=SECOND_PRODUCE)
    told.end(producer, committed=True, version=SECOND_END)
    third = told.end(after, committed=False, version=SECOND_END)
    told.end(after, committed=False, version=SECOND_END)
    told.end(after, committed=True, version=SECOND_END)
    told.end(producer, committed=True, version=SECOND_END)
    told.produce(third, 0, b"e", version=SECOND_PRODUCE)
    told.end(third, committed=True, version=SECOND_END)
    for committed in (True, False):
        told.fetch(committed=committed)


def ends_of_nothing_with_new_epochs(told: Told) -> None:
    producer = told.initialise(5)
    told.end(producer, committed=True, version=SECOND_END)
    after = told.end(producer, committed=False, version=SECOND_END)
    told.describe()
    told.end(producer, committed=False, version=SECOND_END)
    told.end(after, committed=True, version=SECOND_END)
    third = told.end(after, committed=False, version=SECOND_END)
    told.produce(third, 0, version=SECOND_PRODUCE)
    fourth = told.end(third, committed=True, version=SECOND_END)
    told.end(fourth, committed=True, version=SECOND_END)
    told.end(fourth, committed=False, version=SECOND_END)


def offsets_that_join_by_themselves(told: Told) -> None:
    producer = told.initialise(5)
    told.commit_offset(producer, 3, version=SECOND_OFFSETS)
    told.describe()
    told.offset(stable=True)
    after = told.end(producer, committed=True, version=SECOND_END)
    told.offset(stable=True)
    told.commit_offset(producer, 9, version=SECOND_OFFSETS)
    told.commit_offset(after, 4, version=SECOND_OFFSETS)
    told.end(after, committed=False, version=SECOND_END)
    told.offset(stable=True)


def a_fenced_producer_with_new_epochs(told: Told) -> None:
    old = told.initialise(5)
    told.produce(old, 0, b"old", version=SECOND_PRODUCE)
    new = told.initialise(5)
    told.produce(old, 1, version=SECOND_PRODUCE)
    told.commit_offset(old, 1, version=SECOND_OFFSETS)
    told.end(old, committed=True, version=SECOND_END)
    told.end(old, committed=False, version=SECOND_END)
    told.produce(new, 0, b"new", version=SECOND_PRODUCE)
    told.end(new, committed=True, version=SECOND_END)
    told.fetch(committed=True)


def a_producer_that_brings_its_epoch_after_an_end(told: Told) -> None:
    producer = told.initialise(5)
    told.produce(producer, 0, version=SECOND_PRODUCE)
    after = told.end(producer, committed=True, version=SECOND_END)
    told.initialise(5, expected=producer)  # its answer was lost: it gets what it should have
    told.initialise(5, expected=after)


def epochs_that_are_used_up(told: Told) -> None:
    """The last one is 32,766. Then there is a new producer id, with epoch 0."""
    body = {"transactional_id": told.name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    body |= {"enable2_pc": False, "keep_prepared_txn": False}
    producer = (-1, -1)
    while producer[1] < LAST_EPOCH - 1:
        count = min(200, LAST_EPOCH - 1 - producer[1])
        for sent in [told.wire.send(Api.INIT_PRODUCER_ID, 5, **body) for _ in range(count)]:
            answer = told.wire.receive(sent)
            assert answer["error_code"] == ErrorCode.NONE
            producer = answer["producer_id"], answer["producer_epoch"]
    told.number(producer[0])
    last = told.initialise(5, expected=producer)
    told.produce(last, 0, b"x", version=SECOND_PRODUCE)
    told.describe()
    told.end(last, committed=True, version=SECOND_END)
    told.describe()
    told.end(last, committed=True, version=SECOND_END)
    told.end(last, committed=False, version=SECOND_END)
    told.producers()
    fresh = told.initialise(5, expected=last)
    told.produce(fresh, 0, b"y", version=SECOND_PRODUCE)
    told.end(last, committed=True, version=SECOND_END)
    told.end(fresh, committed=True, version=SECOND_END)
    told.fetch(committed=True)


def markers_by_hand(told: Told) -> None:
    producer = told.initialise()
    told.add(producer)
    told.produce(producer, 0, b"a")
    told.mark((producer[0], producer[1] + 1), committed=False)
    told.mark(producer, committed=False)
    told.fetch(committed=True)
    told.mark(producer, committed=False)
    told.mark(producer, committed=False, topic="no-such-topic")
    told.producers()


SCENARIOS: tuple[Callable[[Told], None], ...] = (
    a_commit,
    an_abort,
    ends_of_nothing,
    writes_that_were_not_added,
    partitions_that_are_not_there,
    a_fenced_producer,
    an_unknown_producer,
    offsets_in_a_transaction,
    a_group_that_is_deleted_while_its_offsets_are_pending,
    a_producer_that_brings_its_epoch,
    lists,
    commits_with_new_epochs,
    ends_of_nothing_with_new_epochs,
    offsets_that_join_by_themselves,
    a_fenced_producer_with_new_epochs,
    a_producer_that_brings_its_epoch_after_an_end,
    epochs_that_are_used_up,
    markers_by_hand,
)


def told_by(bootstrap: str, scenario: Callable[[Told], None], name: str) -> list[tuple[Any, ...]]:
    told = Told(bootstrap, name)
    try:
        scenario(told)
    finally:
        told.wire.close()
    return told.answers
