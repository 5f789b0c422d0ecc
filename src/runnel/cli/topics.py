"""`runnel topics`: the topics of any Kafka."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from runnel.cli.nouns import noun
from runnel.cli.open_transactions import open_object, open_text
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, pairs
from runnel.cli.tables import print_json, print_table
from runnel.cli.values import as_time, printable
from runnel.client import (
    EARLIEST,
    LATEST,
    Admin,
    Cleanness,
    Compaction,
    Config,
    Topic,
    UnknownPartition,
    cleanness,
    compact,
)
from runnel.client.admin import TopicAndPartition
from runnel.client.errors import MOST_PARTITIONS
from runnel.counted import counted

CLEAN_COLUMNS = ["clean to", "clean until", "held by"]

topics = noun("List, create, describe, change, compact and delete topics.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The names of the topics.")]
Configs = Annotated[
    list[str], typer.Option("--config", metavar="NAME=VALUE", help="Set a config of the topic; can be repeated.")
]


def _count(partitions: int | None) -> int | None:
    if partitions is not None and not 1 <= partitions <= MOST_PARTITIONS:
        raise typer.BadParameter(f"a topic cannot have {partitions} partitions: expected 1 to {MOST_PARTITIONS:,}.")
    return partitions


Partitions = Annotated[
    int | None, typer.Option("--partitions", callback=_count, help="How many partitions it shall have.")
]


@topics.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also those that Kafka keeps for itself.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics."""
    found = Admin(bootstrap).topics(internal=internal)
    if as_json:
        print_json([_summary(topic) for topic in found])
    elif not found:
        print("no topics")
    else:
        rows = [(topic.name, len(topic.partitions), _replicas(topic)) for topic in found]
        print_table(["topic", "partitions", "replicas"], rows)


@topics.command()
def create(
    topic: Name,
    partitions: Partitions = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, max=32_767, help="How many brokers shall hold it.")
    ] = None,
    config: Configs = [],  # noqa: B006  # typer's way to say: none
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic. What is not given is up to the broker."""
    configs = dict(pairs(config, "--config"))
    admin = Admin(bootstrap)
    admin.create(topic, partitions=partitions, replication_factor=replication_factor, configs=configs)
    if as_json:
        print_json({"topic": topic, "partitions": partitions, "configs": configs})
    else:
        print(f'created topic "{topic}"')


@topics.command()
def describe(
    topic: Names,
    all_configs: Annotated[
        bool, typer.Option("--all", help="Show every config, not just those that differ from the default.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show partitions with their offsets and size, up to when they are clean if compacted, and the configs set."""
    admin = Admin(bootstrap)
    described = [_describe(admin, name, all_configs) for name in topic]
    if as_json:
        print_json(described)
        return
    for number, each in enumerate(described):
        if number:
            print()
        _print_described(each)


@topics.command()
def alter(
    topic: Name,
    config: Configs = [],  # noqa: B006
    unset: Annotated[
        list[str], typer.Option("--unset", metavar="NAME", help="Let a config be the default again; can be repeated.")
    ] = [],  # noqa: B006
    partitions: Partitions = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change configs, or add partitions. Partitions are never removed."""
    configs = dict(pairs(config, "--config"))
    unset = list(dict.fromkeys(unset))  # one that is named twice is one
    if not configs and not unset and partitions is None:
        raise typer.BadParameter("give at least one of --config, --unset and --partitions.")
    if both := sorted(configs.keys() & set(unset)):
        raise typer.BadParameter(f"'{both[0]}' is both set and unset.", param_hint="'--unset'")
    admin = Admin(bootstrap)
    if partitions is not None:
        admin.add_partitions(topic, partitions)
        if not as_json:
            print(f'topic "{topic}" has {counted(partitions, "partition")} now')
    if configs or unset:
        admin.alter(topic, configs=configs, unset=unset)
        if not as_json:
            print(f'changed {counted(len(configs) + len(unset), "config")} of topic "{topic}"')
    if as_json:
        print_json({"topic": topic, "partitions": partitions, "configs": configs, "unset": unset})


@topics.command("compact")
def compact_topic(
    topic: Name,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Compact this partition alone.")] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Compact a topic now, and wait for it: keep only the newest record of each key. Only Runnel's broker can."""
    admin = Admin(bootstrap)
    numbers = [each.number for each in admin.topic(topic).partitions]
    if partition is not None and partition not in numbers:
        raise UnknownPartition(topic, partition, len(numbers))
    wanted = numbers if partition is None else [partition]
    done = compact(admin, topic, wanted)
    if as_json:
        print_json({"topic": topic, "partitions": [_compaction_object(each) for each in done]})
        return
    columns = ["partition", "records before", "after", "bytes before", "after", "end", *CLEAN_COLUMNS]
    print_table(columns, [_compaction_row(each) for each in done])


@topics.command()
def delete(topic: Names, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Delete topics with all their records. Nothing is deleted if one of them is not there."""
    admin = Admin(bootstrap)
    names = list(dict.fromkeys(topic))  # one that is named twice is there once
    for name in names:
        admin.topic(name)
    for name in names:
        admin.delete(name)
        if not as_json:
            print(f'deleted topic "{name}"')
    if as_json:
        print_json({"deleted": names})


# --- describe


def _describe(admin: Admin, name: str, all_configs: bool) -> dict[str, Any]:
    topic = admin.topic(name)
    places: list[TopicAndPartition] = [(name, partition.number) for partition in topic.partitions]
    starts, ends, sizes = admin.offsets(places, EARLIEST), admin.offsets(places, LATEST), admin.sizes(places)
    configs = admin.configs([name])[name]
    clean = cleanness(admin, name, [number for _, number in places]) if _compacts(configs) else {}
    return _summary(topic) | {
        "partitions": [
            {
                "partition": partition.number,
                "leader": partition.leader,
                "replicas": partition.replicas,
                "in_sync": partition.in_sync,
                "start": starts[place],
                "end": ends[place],
                "size": sizes.get(place),
                "clean": _clean_object(clean[partition.number]) if partition.number in clean else None,
            }
            for place, partition in zip(places, topic.partitions, strict=True)
        ],
        "configs": [_config(config) for config in configs if all_configs or config.source != "DEFAULT_CONFIG"],
    }


def _print_described(described: dict[str, Any]) -> None:
    partitions = described["partitions"]
    print(f"{printable(described['topic'])}  id {described['id']}  {counted(len(partitions), 'partition')}")
    columns = ["partition", "leader", "replicas", "in sync", "start", "end", "size"]
    rows = [[_joined(partition[column.replace(" ", "_")]) for column in columns] for partition in partitions]
    if any(partition["clean"] for partition in partitions):
        columns += CLEAN_COLUMNS
        rows = [row + _clean_cells(partition["clean"]) for row, partition in zip(rows, partitions, strict=True)]
    print_table(columns, rows)
    if described["configs"]:
        print()
        print_table(
            ["config", "value", "source"],
            [[config["name"], config["value"], config["source"]] for config in described["configs"]],
        )


def _compacts(configs: list[Config]) -> bool:
    return any(config.name == "cleanup.policy" and "compact" in (config.value or "") for config in configs)


# --- compaction


def _compaction_row(done: Compaction) -> list[Any]:
    counts = [done.records_before, done.records_after, done.bytes_before, done.bytes_after]
    return [done.now.partition, *counts, done.now.end, *_clean_cells(_clean_object(done.now))]


def _clean_cells(clean: dict[str, Any]) -> list[Any]:
    until = "now" if clean["time"] is None else as_time(clean["time"])
    return [clean["offset"], until, open_text(clean["held_by"])]


def _clean_object(clean: Cleanness) -> dict[str, Any]:
    held_by = None if clean.held_by is None else open_object(clean.held_by)
    return {"offset": clean.offset, "time": clean.time, "held_by": held_by}


def _compaction_object(done: Compaction) -> dict[str, Any]:
    return {
        "partition": done.now.partition,
        "records_before": done.records_before,
        "records_after": done.records_after,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
        "end": done.now.end,
        "clean": _clean_object(done.now),
    }


# --- topics


def _summary(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": topic.id,
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replicas": _replicas(topic),
    }


def _replicas(topic: Topic) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


def _config(config: Config) -> dict[str, Any]:
    return {"name": config.name, "value": config.value, "source": config.source.lower()}


def _joined(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, tuple) else value
