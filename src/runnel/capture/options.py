r"""All that a capture is asked for, as one value, by the command line or by an app.

    Options("shop", "sqlite:shop.sqlite", Selection(tables=[r"main\.orders"]), transactions=True)

It is light: who declares a capture need not wait for what writes to topics (see `at_work`). Nothing of it shows the
address's password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from runnel.capture.choice import Choice
from runnel.capture.forms import Binary, Decimals
from runnel.capture.names import check_name
from runnel.capture.outbox import Outbox
from runnel.capture.selection import Selection

INITIAL: Final = "initial"

# What people may say where there are several ways, by the name of the option.
WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "snapshot": (INITIAL, "incremental", "none"),
    "binary": tuple(mode.value for mode in Binary),
    "decimals": tuple(mode.value for mode in Decimals),
    "times": ("adaptive", "adaptive_time_microseconds", "connect"),
}


@dataclass(frozen=True)
class Options:
    """`prefix` is what topics begin with, the name if it is empty. `partitions` are of topics that are not there yet.
    `heartbeat` is in seconds, 0 for none. `own` are options that not every kind of database has (see `opening`), as
    people type them. None is what is usual.
    """

    name: str
    url: str = field(repr=False)
    selection: Selection = field(default_factory=Selection)
    prefix: str = ""
    partitions: int | None = None
    schemas: bool = False
    schema_changes: bool = False
    outbox: Outbox | None = None
    transactions: bool = False
    heartbeat: float = 0.0
    binary: Binary = Binary.BYTES
    snapshot: str = INITIAL
    chunk: int | None = None
    snapshot_rate: float | None = None
    own: Mapping[str, str] = field(default_factory=dict)
    retained_warning: int | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_name("prefix", self.topic_prefix)

    @cached_property
    def choice(self) -> Choice:
        """The one that the source and the envelope of this capture ask."""
        return Choice(self.selection)

    @property
    def topic_prefix(self) -> str:
        return self.prefix or self.name
