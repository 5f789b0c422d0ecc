"""Where an app runs: its name, its Kafka, its directory, and the store of its views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runnel.pipeline.kafka import Kafka
from runnel.views.store import Store

PARALLEL_FROM = 50_000


@dataclass(frozen=True)
class Place:
    """`store` opens the store: every query has a connection of its own. A batch with `parallel_from` records or more is
    written by Spark's tasks, a smaller one by the driver, which is quicker for few.
    """

    app: str
    kafka: Kafka
    directory: Path
    store: Callable[[], Store]
    parallel_from: int = PARALLEL_FROM

    def marks_of(self, output: str) -> str:
        """The topic of its markers. It has one of its own: the open transaction of another would hide its last one."""
        return f"{self.id_of(output)}.marker"

    def directory_of(self, output: str) -> Path:
        return self.directory / "queries" / output

    def id_of(self, output: str) -> str:
        """For transactions, and for what must be unique in the whole Kafka."""
        return f"runnel.{self.app}.{output}"
