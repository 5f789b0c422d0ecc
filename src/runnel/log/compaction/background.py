"""Compaction by the clock: every so often the dirtiest partition that is due, one after the other.

A round can take hours at a quarter of a core, so it has a thread of its own, which waits for the worker most of the
time. A partition whose round fails waits for twice as long each time, and an hour at most.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from runnel.errors import Closed, RunnelError
from runnel.log.checkpoints import TopicPartition
from runnel.log.directory import DataDirectory
from runnel.log.partition import Partition
from runnel.settings import MINUTE, SECOND

LONGEST_WAIT = 60 * MINUTE
SHORTEST_WAIT = SECOND

logger = logging.getLogger(__name__)


class BackgroundCompaction:
    """`partitions` answers with those that are to be compacted. Without `background` the work is done in `care`."""

    def __init__(self, home: DataDirectory, partitions: Callable[[], list[Partition]], *, background: bool) -> None:
        self._home = home
        self._partitions = partitions
        self._background = background
        self._thread: threading.Thread | None = None
        self._looked_at = home.clock.elapsed()
        self._failed: dict[TopicPartition, tuple[int, int]] = {}  # how long it waits, and until when

    def care(self) -> None:
        """Begin with the dirtiest partition if it is time to look; nothing while one is under way."""
        now = self._home.clock.elapsed()
        under_way = self._thread is not None and self._thread.is_alive()
        if under_way or now - self._looked_at < self._home.settings.cleaner_backoff_ms:
            return
        self._looked_at = now
        partition = self._dirtiest(now)
        if partition is None:
            return
        if not self._background:
            self._compact(partition)
            return
        self._thread = threading.Thread(target=self._compact, args=[partition], name="runnel-compaction", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End what is under way, without waiting for its work."""
        self._home.workers.stop()
        if self._thread is not None:
            self._thread.join()

    def _dirtiest(self, now: int) -> Partition | None:
        found: list[tuple[float, Partition]] = []
        for partition in self._partitions():
            _, until = self._failed.get(partition.id, (0, 0))
            if now < until or partition.failed or partition.closed:
                continue
            plan = partition.compaction_plan()
            if partition.compaction_is_due(plan):
                found.append((plan.dirty_ratio, partition))
        return max(found, key=lambda due: due[0])[1] if found else None

    def _compact(self, partition: Partition) -> None:
        try:
            done = partition.compact(roll=False)
        except Closed:
            return
        except (RunnelError, OSError) as error:
            self._wait_longer(partition.id)
            logger.warning("%s", error)
        except Exception:  # a defect must not end all compaction
            self._wait_longer(partition.id)
            logger.exception("compaction of partition %s failed", partition.id)
        else:
            self._failed.pop(partition.id, None)
            logger.info(
                "compacted %s up to offset %d: %d of %d records, %d of %d bytes are left",
                partition.id, done.end_offset, done.records_after, done.records_before,
                done.bytes_after, done.bytes_before,
            )  # fmt: skip

    def _wait_longer(self, partition: TopicPartition) -> None:
        waited, _ = self._failed.get(partition, (self._home.settings.cleaner_backoff_ms // 2, 0))
        wait = min(LONGEST_WAIT, max(SHORTEST_WAIT, 2 * waited))
        self._failed[partition] = (wait, self._home.clock.elapsed() + wait)
