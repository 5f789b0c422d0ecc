"""`runnel groups`: consumer groups of any Kafka, their lag, and an alert before records are lost to retention."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated, Any

import typer

from runnel.cli.durations import as_duration
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, checked_number
from runnel.cli.starts import START_HELP, checked_start, parse_start
from runnel.cli.tables import print_json, print_table
from runnel.cli.values import printable
from runnel.cli.watch import Alarm, Watch, as_line, as_object, call
from runnel.client import Admin, Group, Groups, Lag, lag
from runnel.clock import SYSTEM_CLOCK
from runnel.counted import counted
from runnel.errors import Transient

NEAR_LOSS = 3
LONGEST_INTERVAL = 1e9  # seconds; a little more, and the system cannot wait for so long

groups = noun("List, describe, watch, reset and delete consumer groups.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The name of the group.")]
Names = Annotated[list[str], typer.Argument(metavar="GROUP...", help="The names of the groups.")]
Alert = Annotated[
    float,
    typer.Option(
        "--alert",
        min=0.0,
        max=1.0,
        callback=checked_number,
        metavar="SHARE",
        help="The share of the retention that is near to loss.",
    ),
]

wait = time.sleep


@groups.command("list")
def list_groups(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List the groups."""
    found = Groups(Admin(bootstrap)).list()
    if as_json:
        print_json([{"group": each.name, "state": each.state, "kind": each.kind} for each in found])
    elif not found:
        print("no groups")
    else:
        print_table(["group", "state", "kind"], found)


@groups.command()
def describe(
    group: Names, alert: Alert = 0.5, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Show the lag in each partition, mark those that are near to losing records, and tell what holds readers back."""
    admin = Admin(bootstrap)
    described = [(Groups(admin).describe(name), lag(admin, name)) for name in group]
    if as_json:
        print_json([_group_object(each, lags, alert) for each, lags in described])
        return
    for number, (each, lags) in enumerate(described):
        if number:
            print()
        _print_group(each, lags, alert)


@groups.command()
def reset(
    group: Name,
    topic: Annotated[list[str], typer.Option("--topic", help="The topic to reset; can be repeated.")],
    to: Annotated[
        str, typer.Option("--to", metavar="START", callback=checked_start, help=f"Where to go on: {START_HELP}")
    ],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Let a group go on from another place. Refused while it has members."""
    admin = Admin(bootstrap)
    every = Groups(admin)
    places = [(name, partition.number) for name in dict.fromkeys(topic) for partition in admin.topic(name).partitions]
    after = admin.offsets(places, parse_start(to))
    before = every.committed(group)
    every.reset(group, after)
    if as_json:
        rows = [
            {"topic": place[0], "partition": place[1], "before": before.get(place), "after": after[place]}
            for place in places
        ]
        print_json({"group": group, "partitions": rows})
    else:
        rows_shown = [(*place, before.get(place), after[place]) for place in places]
        print_table(["topic", "partition", "before", "after"], rows_shown)


@groups.command()
def delete(group: Names, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Delete groups with the offsets they have committed. Refused while a group has members."""
    every = Groups(Admin(bootstrap))
    names = list(dict.fromkeys(group))  # one that is named twice is there once
    for name in names:
        every.require_quiet(name)
    for name in names:
        every.delete(name)
        if not as_json:
            print(f'deleted group "{name}"')
    if as_json:
        print_json({"deleted": names})


@groups.command()
def watch(
    group: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP...", help="The groups to watch; all if none is named.")
    ] = None,
    alert: Alert = 0.5,
    interval: Annotated[
        float,
        typer.Option(
            "--interval", min=0.1, max=LONGEST_INTERVAL, callback=checked_number, help="Seconds between two looks."
        ),
    ] = 10.0,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="COMMAND", help="Call this for each alert and go on, instead of ending."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per alert, for programs.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Watch groups until one of them is near to losing records: then end with exit code 3, or call a command."""
    admin = Admin(bootstrap)
    for name in group or ():
        Groups(admin).describe(name)  # one that is not there would never be near to anything
    watching = Watch(alert)
    while True:
        alarms = _alarms(admin, group, watching)
        for alarm in alarms:
            told = json.dumps(as_object(alarm.group, alarm.lag, alert)) if as_json else printable(as_line(alarm))
            print(told, flush=True)
            if run is not None:
                _call(run, alarm)
        if alarms and run is None:
            raise typer.Exit(NEAR_LOSS)
        wait(interval)


# --- describe


def _print_group(group: Group, lags: list[Lag], alert: float) -> None:
    total = sum(each.lag for each in lags)
    members = counted(len(group.members), "member")
    print(f"{printable(group.name)}  {group.state}  {members}  lag {total:,}")
    owners = {place: member.client for member in group.members for place in member.partitions}
    rows = [_row(each, alert, owners.pop((each.topic, each.partition), None)) for each in lags]
    # A partition that has an owner and no committed offset: nobody can know its lag.
    rows += [[topic, number, None, None, None, None, None, client, ""] for (topic, number), client in owners.items()]
    if rows:
        columns = ["topic", "partition", "committed", "start", "end", "lag", "used", "member", "alert"]
        print_table(columns, sorted(rows, key=lambda row: (row[0], row[1])), alert=len(columns) - 1)
    held = [each for each in lags if each.stable is not None]
    if held:
        print()
        now = SYSTEM_CLOCK.now()
        columns = ["topic", "partition", "stable", "held back", "transaction", "producer", "open for"]
        print_table(columns, [_held_row(each, now) for each in held])


def _row(lag: Lag, alert: float, member: str | None) -> list[Any]:
    used = None if lag.used is None else f"{lag.used:.0%}"
    mark = f"lost {lag.lost}" if lag.lost else "near loss" if lag.is_near_loss(alert) else ""
    return [lag.topic, lag.partition, lag.committed, lag.start, lag.end, lag.lag, used, member, mark]


def _held_row(lag: Lag, now: int) -> list[Any]:
    """What holds the readers of committed records back. Who reads what is open, too, does not wait for it."""
    row: list[Any] = [lag.topic, lag.partition, lag.stable, lag.held]
    found = lag.held_by
    if found is None:
        return [*row, None, None, None]
    name = found.known.id if found.known is not None else None
    since = as_duration(now - found.since) if found.since is not None else "hangs"
    return [*row, name, found.producer.producer_id, since]


def _group_object(group: Group, lags: list[Lag], alert: float) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "assignor": group.assignor,
        "members": [
            {
                "id": member.id,
                "client": member.client,
                "host": member.host,
                "partitions": [{"topic": topic, "partition": number} for topic, number in member.partitions],
            }
            for member in group.members
        ],
        "lag": sum(each.lag for each in lags),
        "partitions": [as_object(group.name, each, alert) for each in lags],
    }


# --- watch


def _alarms(admin: Admin, names: list[str] | None, watching: Watch) -> list[Alarm]:
    """What is new. A broker that cannot be asked now is told of, and asked again at the next look."""
    try:
        wanted = names or [each.name for each in Groups(admin).list()]
        return [alarm for name in wanted for alarm in watching.look(name, lag(admin, name))]
    except Transient as error:
        print(f"error: {error.what}", file=sys.stderr, flush=True)
        return []


def _call(command: str, alarm: Alarm) -> None:
    code = call(command, alarm)
    if code:
        print(f"error: the command ended with exit code {code}: {printable(command)}", file=sys.stderr, flush=True)
