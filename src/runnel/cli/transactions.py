"""`runnel transactions`: the transactions of any Kafka, those that hang, and how to end one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from runnel.cli.durations import as_duration, checked_duration, parse_duration
from runnel.cli.nouns import noun
from runnel.cli.open_transactions import open_object
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from runnel.cli.tables import print_json, print_table
from runnel.cli.values import as_time, printable
from runnel.client import Admin, OpenTransaction, ProducerState, Transaction, Transactions, UnknownPartition
from runnel.client.admin import TopicAndPartition
from runnel.client.transactions import OPEN, State
from runnel.clock import SYSTEM_CLOCK
from runnel.counted import counted

PRODUCER_COLUMNS = (
    "partition", "producer", "epoch", "last sequence", "last write", "open from", "transaction", "open for",
)  # fmt: skip
STATES = {state.word.replace(" ", "-"): state for state in State}

transactions = noun("List, describe and abort transactions.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="The number of a partition.")]


def _known_states(names: list[str]) -> list[str]:
    for name in names:
        if name not in STATES:
            raise typer.BadParameter(f"'{name}' is no state of a transaction: expected {', '.join(STATES)}.")
    return names


@transactions.command("list")
def list_transactions(
    state: Annotated[
        list[str],
        typer.Option("--state", metavar="STATE", callback=_known_states, help="Those in this state; can be repeated."),
    ] = [],  # noqa: B006  # typer's way to say: all
    open_longer_than: Annotated[
        str | None,
        typer.Option(
            "--open-longer-than",
            metavar="DURATION",
            callback=checked_duration,
            help="Those that have been open for longer, such as 30s or 5m.",
        ),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the transactional ids with their state, and how long a transaction has been open."""
    wanted = [STATES[name] for name in state] or (OPEN if open_longer_than is not None else ())
    found = Transactions(Admin(bootstrap)).list(wanted)
    now = SYSTEM_CLOCK.now()
    if open_longer_than is not None:
        least = parse_duration(open_longer_than)
        found = [each for each in found if each.started is not None and now - each.started >= least]
    if as_json:
        print_json([_object(each, now) for each in found])
    elif not found:
        print("no transactions")
    else:
        columns = ["transaction", "state", "producer", "epoch", "partitions", "open for"]
        print_table(columns, [_row(each, now) for each in found])


@transactions.command()
def describe(
    transaction: Annotated[list[str], typer.Argument(metavar="ID...", help="The transactional ids.")],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the state, the producer, the time-out and the partitions of a transaction, and since when it is open."""
    every = Transactions(Admin(bootstrap))
    found = [every.describe(name) for name in transaction]
    now = SYSTEM_CLOCK.now()
    if as_json:
        print_json([_object(each, now) for each in found])
        return
    for number, each in enumerate(found):
        if number:
            print()
        _print_described(each, now)


@transactions.command()
def producers(
    topic: Topic, partition: Partition = None, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Show the producers that the partitions of a topic remember, and the transactions they have open there."""
    admin = Admin(bootstrap)
    every = Transactions(admin)
    places = _places(admin, [topic], partition)
    states = every.producers(places)
    known = {(each.place, each.producer.producer_id): each for each in every.open_in(places)}
    pairs = [(each, known.get(((each.topic, each.partition), each.producer_id))) for each in states]
    now = SYSTEM_CLOCK.now()
    if as_json:
        print_json([_producer_object(state, found) for state, found in pairs])
    elif not pairs:
        print("no producers")
    else:
        print_table(PRODUCER_COLUMNS, [_producer_row(state, found, now) for state, found in pairs])


@transactions.command()
def hanging(
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="TOPIC", help="Look in this topic only; can be repeated.")
    ] = [],  # noqa: B006
    partition: Partition = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Find transactions that hold back the readers of a partition, and that no coordinator will ever end."""
    if partition is not None and len(topic) != 1:
        raise typer.BadParameter("a partition is one of a topic: give one --topic.", param_hint="'--partition'")
    admin = Admin(bootstrap)
    names = list(dict.fromkeys(topic)) or [each.name for each in admin.topics(internal=True)]
    found = Transactions(admin).hanging(_places(admin, names, partition))
    if as_json:
        print_json([open_object(each) for each in found])
    elif not found:
        print("no hanging transactions")
    else:
        columns = ["topic", "partition", "offset", "producer", "epoch", "last write", "transaction"]
        print_table(columns, [_hanging_row(each) for each in found])


@transactions.command()
def abort(
    transaction: Annotated[
        str | None, typer.Argument(metavar="ID", help="The transactional id; its producer is fenced.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="The topic that a hanging transaction is in.")
    ] = None,
    partition: Partition = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="Where the hanging transaction begins.")] = None,
    producer: Annotated[int | None, typer.Option("--producer", min=0, help="Or the id of its producer.")] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort an open transaction by its id, or one that hangs by its place."""
    hangs = (topic, partition, offset, producer)
    if (transaction is None) == all(part is None for part in hangs):
        raise typer.BadParameter("give either ID, or --topic and --partition with --offset or --producer.")
    if transaction is not None:
        before = Transactions(Admin(bootstrap)).abort(transaction)
        if as_json:
            print_json(_object(before, SYSTEM_CLOCK.now()))
        else:
            were = counted(len(before.partitions), "partition")
            print(f'aborted transaction "{printable(transaction)}" in {were}; its producer is fenced')
        return
    if topic is None or partition is None or (offset is None) == (producer is None):
        raise typer.BadParameter("a hanging transaction is named by --topic, --partition, and --offset or --producer.")
    found = Transactions(Admin(bootstrap)).abort_hanging(topic, partition, first_offset=offset, producer_id=producer)
    if as_json:
        print_json(open_object(found))
    else:
        which = f"of producer {found.producer.producer_id} from offset {found.first_offset}"
        print(f"aborted the hanging transaction {which} in {topic}-{partition}")


def _places(admin: Admin, names: Iterable[str], partition: int | None) -> list[TopicAndPartition]:
    every = [(topic.name, each.number) for topic in admin.described(list(names)) for each in topic.partitions]
    if partition is None:
        return every
    wanted = [place for place in every if place[1] == partition]
    if not wanted:
        raise UnknownPartition(next(iter(names)), partition, len(every))
    return wanted


# --- tables


def _row(known: Transaction, now: int) -> list[Any]:
    return [known.id, known.state, known.producer_id, known.epoch, len(known.partitions), _open_for(known, now)]


def _print_described(known: Transaction, now: int) -> None:
    producer = f"producer {known.producer_id} epoch {known.epoch}"
    since = f"  open since {as_time(known.started)} ({_open_for(known, now)})" if known.started is not None else ""
    print(f"{printable(known.id)}  {known.state}  {producer}  time-out {as_duration(known.timeout)}{since}")
    if known.partitions:
        print_table(["topic", "partition"], known.partitions)


def _producer_row(state: ProducerState, found: OpenTransaction | None, now: int) -> list[Any]:
    known = found.known if found is not None else None
    return [
        state.partition,
        state.producer_id,
        state.epoch,
        state.last_sequence if state.last_sequence >= 0 else None,
        as_time(state.last_timestamp) if state.last_timestamp >= 0 else None,
        state.first_offset,
        known.id if known is not None else None,
        _open_for(known, now) if known is not None else None,
    ]


def _hanging_row(found: OpenTransaction) -> list[Any]:
    producer = found.producer
    name = found.known.id if found.known is not None else None
    last = as_time(producer.last_timestamp)
    return [*found.place, found.first_offset, producer.producer_id, producer.epoch, last, name]


def _open_for(known: Transaction, now: int) -> str | None:
    return None if known.started is None else as_duration(now - known.started)


# --- JSON


def _object(known: Transaction, now: int) -> dict[str, Any]:
    return {
        "transaction": known.id,
        "state": known.state,
        "producer_id": known.producer_id,
        "epoch": known.epoch,
        "timeout_ms": known.timeout,
        "started": known.started,
        "open_ms": None if known.started is None else max(0, now - known.started),
        "partitions": [{"topic": topic, "partition": number} for topic, number in known.partitions],
    }


def _producer_object(state: ProducerState, found: OpenTransaction | None) -> dict[str, Any]:
    return {
        "topic": state.topic,
        "partition": state.partition,
        "producer_id": state.producer_id,
        "epoch": state.epoch,
        "last_sequence": state.last_sequence,
        "last_timestamp": state.last_timestamp,
        "coordinator_epoch": state.coordinator_epoch,
        "open": None if found is None else open_object(found),
    }
