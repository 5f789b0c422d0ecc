"""What is known of the outputs that a view reads: other views of its store, and derived streams of a Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runnel.forking import OwnLock
from runnel.views.errors import UnknownView
from runnel.views.store import Progress, Store
from runnel.views.waiting import VIEW, Positions

if TYPE_CHECKING:
    from runnel.views.upstream import Streams

HINT = "see whether the app runs and how far behind it is, or give it more time"
HINT_WITHOUT_KAFKA = (
    f"{HINT}; if it comes through a derived stream, say where Kafka is: runnel.views(..., bootstrap='HOST:PORT')"
)


class Known:
    """`bootstrap` is where Kafka is, if its streams count."""

    def __init__(self, store: Store, bootstrap: str | None, settings: Mapping[str, str]) -> None:
        self._store = store
        self._bootstrap = bootstrap
        self._settings = settings
        self._lock = OwnLock()
        self._streams: Streams | None = None

    @property
    def hint(self) -> str:
        """For who has waited in vain."""
        return HINT if self._bootstrap else HINT_WITHOUT_KAFKA

    def look(self) -> None:
        if self._bootstrap is None:
            return
        with self._lock:
            if self._streams is None:
                from runnel.views.upstream import Streams  # noqa: PLC0415  # it needs librdkafka, and few wait for it

                self._streams = Streams(self._bootstrap, self._settings)
            self._streams.look()

    def read_by_writers_of(self, name: str) -> list[Positions | None]:
        if name.startswith(VIEW):
            progress = self._progress(name.removeprefix(VIEW))
            return [progress.marker.positions if progress and progress.marker else None]
        return self._streams.read_by_writers_of(name) if self._streams else []

    def ends(self, name: str) -> Mapping[str, int]:
        if name.startswith(VIEW):
            progress = self._progress(name.removeprefix(VIEW))
            return {"0": progress.next_position + 1 if progress else 0}  # an offset is a position, plus one
        assert self._streams is not None, "who knows its writers has looked"
        return self._streams.ends(name)

    def close(self) -> None:
        with self._lock:
            if self._streams is not None:
                self._streams.close()

    def _progress(self, view: str) -> Progress | None:
        try:
            with self._store.reader(view) as reader:
                return reader.progress()
        except UnknownView:
            return None
