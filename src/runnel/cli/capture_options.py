"""What people may type behind `runnel capture`, as typer's declarations: a name for each argument and option."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runnel.cli import choices
from runnel.cli.durations import checked_duration
from runnel.cli.options import checked_number

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the capture.")]
Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The database: postgresql://USER@HOST:PORT/DATABASE, mariadb://USER@HOST:PORT/DATABASE, sqlite:PATH, "
        "or the path of a file of SQLite's.",
    ),
]
UrlToLookAt = Annotated[
    str | None, typer.Argument(metavar="URL", help="The database, to see what is not captured yet.")
]
Force = Annotated[bool, typer.Option("--force", help="Also if the database does not know the capture.")]

# --- what leaves

Tables = Annotated[
    list[str], typer.Option("--tables", metavar="TABLE", help="A table, or an expression for several; repeatable.")
]
WithoutTables = Annotated[
    list[str], typer.Option("--without-tables", metavar="TABLE", help="Leave these out; repeatable.")
]
Add = Annotated[
    list[str], typer.Option("--add", metavar="TABLE", help="Capture it, or all that an expression fits; repeatable.")
]
Remove = Annotated[list[str], typer.Option("--remove", metavar="TABLE", help="Capture it no more; repeatable.")]
Columns = Annotated[
    list[str], typer.Option("--columns", metavar="COLUMN", help="Only these, as TABLE.COLUMN; repeatable.")
]
WithoutColumns = Annotated[
    list[str], typer.Option("--without-columns", metavar="COLUMN", help="Leave out, as TABLE.COLUMN; repeatable.")
]
Mask = Annotated[
    list[str],
    typer.Option(
        "--mask",
        metavar="COLUMN",
        callback=choices.checked_masks,
        help="Show *** instead, as TABLE.COLUMN or TABLE.COLUMN:LENGTH; repeatable.",
    ),
]
Hashes = Annotated[
    list[str], typer.Option("--hash", metavar="COLUMN", help="Show a salted SHA-256 instead; repeatable.")
]
SaltEnv = Annotated[
    str | None,
    typer.Option("--salt-env", metavar="NAME", help="The environment variable that holds the salt of --hash."),
]
Where = Annotated[
    list[str],
    typer.Option(
        "--where",
        metavar="TABLE:CONDITION",
        callback=choices.checked_conditions,
        help="Only these rows, as 'orders:total >= 100 and city = Graz'; repeatable.",
    ),
]
WhereSql = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help="Only rows for which this holds, in the database's SQL.")
]
Key = Annotated[
    list[str],
    typer.Option(
        "--key",
        metavar="TABLE:COLUMNS",
        callback=choices.checked_keys,
        help="The columns of a record's key; repeatable.",
    ),
]

# --- where it goes, and how it is written

Prefix = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="What topics begin with; the name if not given.")
]
Partitions = Annotated[int | None, typer.Option("--partitions", min=1, help="Of topics that are not there yet.")]
Schemas = Annotated[bool, typer.Option("--schemas", help="Write Kafka Connect's schemas beside the values.")]
SchemaChanges = Annotated[
    bool, typer.Option("--schema-changes", help="Write what tables are like to the topic called as the prefix.")
]
OutboxTable = Annotated[
    str | None, typer.Option("--outbox", metavar="TABLE", help="Send the events that are inserted into this table.")
]
OutboxTopic = Annotated[str, typer.Option("--outbox-topic", metavar="PATTERN", help="Where they are sent.")]
Transactions = Annotated[bool, typer.Option("--transactions", help="Write the transaction topic.")]
Heartbeat = Annotated[
    str | None,
    typer.Option(
        "--heartbeat", metavar="DURATION", callback=checked_duration, help="Write a heartbeat so often, as 10s."
    ),
]
BinaryMode = Annotated[
    str,
    typer.Option(
        "--binary", metavar="MODE", callback=choices.checked_binary, help="bytes, base64, base64-url-safe or hex."
    ),
]
DecimalsMode = Annotated[
    str | None,
    typer.Option("--decimals", metavar="MODE", callback=choices.checked_decimals, help="precise, string or double."),
]
TimesMode = Annotated[
    str | None,
    typer.Option(
        "--times",
        metavar="MODE",
        callback=choices.checked_times,
        help="adaptive, adaptive_time_microseconds or connect.",
    ),
]

# --- how tables are read

Snapshot = Annotated[
    str,
    typer.Option("--snapshot", metavar="MODE", callback=choices.checked_mode, help="initial, incremental or none."),
]
Chunk = Annotated[int, typer.Option("--chunk", metavar="ROWS", min=1, help="So many rows at once, beside the changes.")]
SnapshotRate = Annotated[
    float | None,
    typer.Option(
        "--snapshot-rate",
        metavar="ROWS",
        min=0.001,
        callback=checked_number,
        help="At most so many of them a second.",
    ),
]

# --- of PostgreSQL

Slot = Annotated[
    str | None, typer.Option("--slot", metavar="NAME", help="PostgreSQL: the slot that an administrator made.")
]
Publication = Annotated[
    str | None,
    typer.Option("--publication", metavar="NAME", help="PostgreSQL: the publication that an administrator made."),
]
InProgress = Annotated[
    Path | None,
    typer.Option(
        "--in-progress",
        metavar="DIRECTORY",
        exists=True,
        file_okay=False,
        help="PostgreSQL: take large transactions before they are committed, and keep them there.",
    ),
]
RetainedWarning = Annotated[
    int, typer.Option("--retained-warning", metavar="BYTES", min=1, help="Warn when the server keeps more for us.")
]
