"""What stands beside the queries of a run: the watch over them, and the address where it is served."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from runnel.app.watching import Watching
from runnel.graph.alert import AlertRule
from runnel.pipeline.place import Place

logger = logging.getLogger(__name__)


@contextmanager
def observation(
    place: Place,
    outputs: Iterable[str],
    rules: Iterable[AlertRule],
    is_troubled: Callable[[str], bool],
    metrics: str | None = None,
) -> Iterator[Watching]:
    """A watch that is to be started when there are queries, and ends with the block. `metrics` is HOST:PORT."""
    watching = Watching(place, outputs, rules, is_troubled)
    with _served(watching, metrics):
        try:
            yield watching
        finally:
            watching.stop()


@contextmanager
def _served(watching: Watching, metrics: str | None) -> Iterator[None]:
    if metrics is None:
        yield
        return
    from runnel.app.metrics import exposition  # noqa: PLC0415  # who serves none need not wait for it

    def looked() -> float | None:
        return time.monotonic() - watching.looked if watching.is_begun else None

    serving = exposition(metrics, lambda: watching.progress, looked)
    logger.info("metrics on http://%s/metrics", serving.endpoint)
    try:
        yield
    finally:
        serving.close()
