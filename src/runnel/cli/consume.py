"""`runnel consume`: the records of a topic, of any Kafka."""

from __future__ import annotations

import json
import signal
from typing import Annotated, Any

import typer

from runnel.cli.ending import stopped_by_signals
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from runnel.cli.starts import START_HELP, checked_start, parse_start
from runnel.cli.values import json_value, printable_text
from runnel.client import Consumer, Received
from runnel.client.texts import is_name

consume = noun()


@consume.command("consume")
def print_records(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")],
    start: Annotated[
        str, typer.Option("--from", metavar="START", callback=checked_start, help=f"Where to start: {START_HELP}")
    ] = "earliest",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many records.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Read as a member of this group, and commit what was printed.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Read this partition; can be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per record, for programs.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the values of a topic, one per line, up to the end that was there when it began."""
    if group is not None and partition:
        raise typer.BadParameter("a group chooses the partitions of its members: leave one of them out.")
    if group is not None and (not group or not is_name(group)):
        raise typer.BadParameter("a group has a name, which is text.", param_hint="'--group'")
    # What is done must be out of our hands, and who follows wants to see it now.
    at_once = follow or group is not None
    with (
        Consumer(
            bootstrap, topic, start=parse_start(start), partitions=partition or None, group=group, follow=follow
        ) as consumer,
        stopped_by_signals(consumer) as caught,
    ):
        for record in consumer.records(limit):
            print(json.dumps(as_object(record)) if as_json else _line(record), flush=at_once)
    if signal.SIGINT in caught:
        raise KeyboardInterrupt


def as_object(record: Received) -> dict[str, Any]:
    """The form that `runnel produce --json` reads."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_value(record.key),
        "value": json_value(record.value),
        "headers": [[name, json_value(value)] for name, value in record.headers],
    }


def _line(record: Received) -> str:
    if record.value is None:
        return "none"
    text = printable_text(record.value)
    return text if text is not None else f"hex {record.value.hex()}"
