"""Where an app runs: its name, its Kafka, its directory, and the store of its views."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runnel.graph.names import MARKER
from runnel.pipeline.checkpoint_path import checkpoint_in
from runnel.pipeline.kafka import Kafka
from runnel.views.opening import open_store
from runnel.views.store import Store

PARALLEL_FROM = 50_000


@dataclass(frozen=True)
class Place:
    """`views` is the address of the store, which tasks open, too. A batch with `parallel_from` records or more is
    written by Spark's tasks, a smaller one by the driver, which is quicker for few. With `skip_gone`, records that were
    deleted before they were read do not stop a query. `held` is the directory of a test that holds the app. `follow` is
    a file with the positions beyond which nothing is read, and `suffix` tells what runs there apart from the app: both
    are for what is made beside the app, as a copy of a view. `start` is where streams begin, whatever was declared.
    """

    app: str
    kafka: Kafka
    directory: Path
    views: str
    parallel_from: int = PARALLEL_FROM
    skip_gone: bool = False
    held: str = ""
    follow: str = ""
    suffix: str = ""
    start: str = ""

    def store(self) -> Store:
        """Another one each time: every query has a connection of its own."""
        return open_store(self.views)

    def marks_of(self, output: str) -> str:
        """The topic of its markers. It has one of its own: the open transaction of another would hide its last one."""
        return MARKER.format(app=self.app, output=f"{output}{self.suffix}")

    def directory_of(self, output: str) -> Path:
        return self.directory / "queries" / output

    def checkpoint_of(self, output: str) -> Path:
        return checkpoint_in(self.directory_of(output))

    def id_of(self, output: str) -> str:
        """For transactions, and for what must be unique in the whole Kafka."""
        return f"runnel.{self.app}.{output}{self.suffix}"
