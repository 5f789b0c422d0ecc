"""What is in topics, as a consumer of committed records sees it, and what tables it makes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, TopicPartition


class Seen(NamedTuple):
    topic: str
    partition: int
    key: str | None
    value: Any
    headers: dict[str, str]
    timestamp: int

    @property
    def op(self) -> str | None:
        return None if self.value is None else self.value.get("op")


def committed(bootstrap: str, prefix: str) -> dict[str, list[Seen]]:
    """The records of each topic whose name begins so, partition by partition."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "nobody", "isolation.level": "read_committed"}
    at_the_end = {"enable.partition.eof": True, "fetch.wait.max.ms": 50}  # which an empty answer tells
    consumer = Consumer({**settings, **at_the_end, "enable.auto.commit": False})
    try:
        topics = consumer.list_topics(timeout=30).topics
        places = [TopicPartition(name, number, 0) for name, each in topics.items() for number in each.partitions
                  if name.startswith(prefix)]  # fmt: skip
        found: dict[str, list[Seen]] = {place.topic: [] for place in places}
        consumer.assign(places)
        left = {(place.topic, place.partition) for place in places}
        while left:
            for message in consumer.consume(1_000, 0.05):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard((message.topic(), message.partition()))
                else:
                    found[message.topic()].append(_seen(message))
        return found
    finally:
        consumer.close()


def _seen(message: Any) -> Seen:
    key, value = message.key(), message.value()
    headers = {name: text.decode() for name, text in message.headers() or ()}
    return Seen(
        message.topic(),
        message.partition(),
        None if key is None else key.decode(),
        None if value is None else json.loads(value),
        headers,
        message.timestamp()[1],
    )


Known: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class Rebuilt:
    """A table as its topic tells it: by key, or as so many of each row where rows have no key."""

    rows: dict[str, Any] = field(default_factory=dict)
    bag: Counter[str] = field(default_factory=Counter)


def with_all_columns(row: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A column that was added since is null."""
    return {**dict.fromkeys(other), **row}


def rebuilt(records: Iterable[Seen], *, complete_from: float = -1, known: Known | None = None) -> Rebuilt:
    """Each event must fit the one before: what it says was there is there. That holds for events behind the line of the
    log at which the topic became complete; before that, changes of rows may be told that were not read yet.
    `known` is of a row what counts, where columns are renamed, or have defaults.
    """
    table = Rebuilt()
    told: set[Any] = set()
    lines: dict[str | None, int] = {}
    for record in records:
        if record.value is None:
            assert record.key not in table.rows, f"a tombstone of {record.key}, which is there"
            continue
        value = record.value
        if value["op"] == "t":
            table.rows.clear()
            table.bag.clear()
            told = {each for each in told if each and each[0] != "r"}  # what comes into it may be read again
            continue
        line = line_of(value["source"])
        _check_once(record, line, told, lines)
        # A row that may have changed unseen is told as it is.
        is_as_it_is = value["op"] == "u" and value["before"] is None
        must_fit = value["op"] != "r" and line > complete_from and not is_as_it_is
        if record.key is None:
            _fold_bag(table.bag, value, known)
        else:
            _fold(table.rows, record.key, value, known, must_fit=must_fit)
    assert all(count > 0 for count in table.bag.values()), table.bag
    return table


def _check_once(record: Seen, line: int, told: set[Any], lines: dict[str | None, int]) -> None:
    value = record.value
    if value["op"] == "r":
        once: Any = ("r", record.key) if record.key is not None else None
    else:
        once = (line, value["op"])
        assert line >= lines.get(record.key, 0), f"{record} comes after line {lines[record.key]}"
        lines[record.key] = line
    assert once is None or once not in told, f"twice: {record}"
    told.add(once)


def _fold(rows: dict[str, Any], key: str, value: Any, known: Known | None, *, must_fit: bool) -> None:
    if must_fit:
        held, before = rows.get(key), value["before"]
        if held is not None and before is not None:
            held, before = (known(held), known(before)) if known else (with_all_columns(held, before), before)
        assert held == before, f"{key} is {held}, and was told to be {before}: {value}"
    if value["op"] == "d":
        rows.pop(key, None)
    else:
        rows[key] = value["after"]


def _fold_bag(bag: Counter[str], value: Any, known: Known | None) -> None:
    for row, count in ((value["before"], -1), (value["after"], 1)):
        if row is not None:
            text = json.dumps(known(row) if known else row, sort_keys=True)
            bag[text] += count
            if not bag[text]:
                del bag[text]


def check_transactions(topics: dict[str, list[Seen]], prefix: str) -> None:
    """BEGIN and END of each, with the counts of what is in the topics; orders without a gap."""
    orders: dict[str, dict[int, str]] = {}
    within: dict[tuple[str, str], list[int]] = {}
    for topic, records in topics.items():
        if topic == f"{prefix}.transaction":
            continue
        for record in records:
            block = record.value and record.value.get("transaction")
            if block:
                own = orders.setdefault(block["id"], {})
                assert block["total_order"] not in own, record
                own[block["total_order"]] = topic
                within.setdefault((block["id"], topic), []).append(block["data_collection_order"])
    boundaries = [record.value for record in topics.get(f"{prefix}.transaction", [])]
    statuses = [(each["id"], each["status"]) for each in boundaries]
    assert len(set(statuses)) == len(statuses), "a transaction begins or ends twice"
    ended = {each["id"]: each for each in boundaries if each["status"] == "END"}
    assert {name for name, status in statuses if status == "BEGIN"} == set(ended)
    assert set(orders) <= set(ended)
    for name, end in ended.items():
        assert sorted(orders.get(name, {})) == list(range(1, end["event_count"] + 1)), name
        counts = Counter(orders.get(name, {}).values())
        assert counts == {
            _topic(topics, prefix, each["data_collection"]): each["event_count"] for each in end["data_collections"]
        }
        for topic, count in counts.items():
            assert sorted(within[name, topic]) == list(range(1, count + 1))


def line_of(source: dict[str, Any]) -> int:
    """Where in its log a source says that an event was, as a number that rises."""
    if "pos" in source:
        number = int(source["file"].rpartition(".")[2])
        return number << 60 | source["pos"] << 24 | source["row"]
    return source.get("line") or source.get("lsn") or 0


def line_of_place(at: Mapping[str, Any]) -> int:
    """The same of a position between transactions."""
    return line_of({**at, "row": 0}) if "pos" in at else int(at.get("id") or at["lsn"])


def _topic(topics: dict[str, list[Seen]], prefix: str, collection: str) -> str:
    """Messages of applications are counted by the name of their topic, rows by that of their table."""
    return collection if collection in topics else f"{prefix}.{collection}"
