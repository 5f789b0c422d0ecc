"""A log: all the partitions in one data directory, owned by one process."""

from __future__ import annotations

import logging
import os
import random
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType

from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.errors import Closed, FileInTheWay, InvalidSetting, PartitionUnopened, UnusableDirectory, remedy
from runnel.files import DISK, Files
from runnel.log.checkpoints import TopicPartition
from runnel.log.compaction.background import BackgroundCompaction
from runnel.log.directory import DELETED_SUFFIX, DataDirectory, remove_folder
from runnel.log.group_commit import GroupCommit
from runnel.log.loop_rounds import Loop
from runnel.log.opening import Finding, open_partition
from runnel.log.partition import Partition
from runnel.settings import INT32_MAX, LogSettings, TopicSettings

TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
LONGEST_FILE_NAME = 255  # of every usual file system

logger = logging.getLogger(__name__)


class Log:
    """Use `open_log`. After a clean stop a partition is opened when it is first asked for; after a crash, all are."""

    def __init__(self, home: DataDirectory, *, background: bool) -> None:
        self._home = home
        self._commits = GroupCommit(home.clock, home.settings.sync_workers, background=background)
        self._partitions: dict[TopicPartition, Partition] = {}
        self._known_synced: dict[str, int] = {}  # what the last process knew of partitions that are not open yet
        self._asked_for: set[TopicPartition] = set()  # the others' settings are not known
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._checkpointed = self._retained = home.clock.elapsed()
        self._compaction = BackgroundCompaction(home, self._compacted_partitions, background=background)
        self._open()
        self._thread = threading.Thread(target=self._care, name="runnel-maintenance", daemon=True)
        if background:
            self._thread.start()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        return self._home.path

    @property
    def is_new(self) -> bool:
        """Whether it was made when it was opened."""
        return self._home.is_new

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was a clean one. That of a new log, which had none, is."""
        return self._home.was_clean

    @property
    def epoch(self) -> int:
        """The leader epoch of a partition that is opened now; one that was opened before may have a smaller one."""
        return self._home.epoch

    @property
    def findings(self) -> list[Finding]:
        """What opening the partitions has cut off or found damaged."""
        return [finding for partition in self._open_partitions() for finding in partition.findings]

    @property
    def low_disk_bytes(self) -> int:
        """With less than this free, appends are refused; 0 is no limit."""
        return self._home.settings.low_disk_bytes

    def free_space(self) -> int | None:
        """The bytes that are free on its disk; None if the disk does not tell."""
        return self._home.free_space()

    def follow(self, settings: LogSettings) -> None:
        """Take on what can change while it is open: how producers are forgotten, and how it is compacted."""
        self._home.settings = replace(
            self._home.settings,
            producer_expiration_ms=settings.producer_expiration_ms,
            cleaner_backoff_ms=settings.cleaner_backoff_ms,
            cleaner_dedupe_buffer_bytes=settings.cleaner_dedupe_buffer_bytes,
        )

    def partitions(self) -> list[TopicPartition]:
        return self._home.partitions()

    def partition(self, topic: str, number: int = 0, settings: TopicSettings | None = None) -> Partition:
        """The partition, made if it does not exist. Settings are not stored: give them whenever you open it.

        After PartitionUnopened it can be asked for again.
        """
        name = _partition_name(topic, number)
        with self._lock:
            if self._closed.is_set():
                raise Closed(f"log {self.path}")
            known = self._partitions.get(name)
            if known is None:
                known = self._partitions[name] = self._open_or_create(name, settings or TopicSettings())
            elif settings is not None:
                known.settings = settings
            self._asked_for.add(name)
            return known

    def delete(self, topic: str, number: int = 0) -> None:
        """Delete a partition with all its records. After an OSError it can be asked for again.

        It need not be open, nor one that can be opened. If its files cannot be removed in the end, they are at the next
        start: nobody meets them any more.
        """
        name = _partition_name(topic, number)
        files, path = self._home.files, self.path
        mark = f".{self._home.chance.getrandbits(64):016x}{DELETED_SUFFIX}"
        gone = f"{path}/{str(name)[: LONGEST_FILE_NAME - len(mark)]}{mark}"
        # The turn first: an event loop that asks for a partition waits for the lock, and may have the turn.
        with self._home.swapping, self._commits.exclusive(), self._lock:
            if self._closed.is_set():
                raise Closed(f"log {self.path}")
            if name in self._partitions:
                self._partitions[name].refuse_writes()
            if files.exists(f"{path}/{name}"):  # else only what is told of it is left
                files.rename(f"{path}/{name}", gone)
            # Before anything else can fail: the next one of this name is another one.
            self._home.open_files.forget_folder(f"{path}/{name}")
            self._partitions.pop(name, None)
            self._asked_for.discard(name)
            self._known_synced.pop(str(name), None)
            files.sync_directory(path)
            self._home.forget_partition(name)
            self._home.synced.start(self._synced_offsets())
        try:
            if files.exists(gone):
                remove_folder(files, gone)
        except OSError as error:
            logger.warning("%s could not be removed, it is at the next start: %s", gone, error)

    def commit_on(self, loop: Loop, together: Callable[[], AbstractContextManager[object]]) -> None:
        """Let the event loop of this thread commit what its callbacks submit, where files can be synced so.

        `together` is a context in which the answers of a round are given. From now on the loop's own thread must not
        wait for an answer to `submit`: it would wait for itself. `Log.close` ends it.
        """
        syncs = self._home.files.syncs()
        if syncs is not None:
            self._commits.run_on(loop, syncs, together)

    def commit(self) -> None:
        """Run one round of the group commit: for those who submit without a background."""
        self._commits.round()

    def maintain(self) -> None:
        """What the background does once a second: heal, roll, and, each in its time, retention, checkpoints and
        compaction. With a checkpoint, memory that is free goes back to the system.

        Only partitions that were asked for are rolled and retained: of the others no settings are known.
        """
        settings, now = self._home.settings, self._home.clock.elapsed()
        for partition in self._open_partitions():
            if partition.failed:
                partition.heal()
            if partition.id in self._asked_for:
                partition.roll_if_due()
        if now - self._retained >= settings.retention_check_ms:
            self._retained = now
            for partition in self._open_partitions():
                if partition.id in self._asked_for:
                    self._retain(partition)
                partition.expire_producers()
        if now - self._checkpointed >= settings.checkpoint_ms:
            self._checkpointed = now
            self.checkpoint()
            self._home.tails.give_back()
        self._compaction.care()

    def _retain(self, partition: Partition) -> None:
        try:
            partition.apply_retention()
        except OSError as error:  # the others are looked at all the same
            logger.warning("retention of partition %s left files, it tries again later: %s", partition.id, error)

    def checkpoint(self) -> None:
        """Make the next start after a crash short."""
        for partition in self._open_partitions():
            partition.checkpoint()
        self._home.write_recovery_points()

    def close(self) -> None:
        """Commit what waits, and stop cleanly: the next start has nothing to check."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._commits.finish()  # those who are waited for here may wait for their turn
        self._compaction.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._commits.close()
        try:
            with self._home.swapping, self._commits.exclusive():
                self._close_partitions()
        finally:
            self._home.release()

    # --- parts

    def _open(self) -> None:
        try:
            self._home.open()
            self._home.remove_deleted()
            names = self.partitions()
            known = self._home.synced.load()
            self._known_synced = {str(name): known[str(name)] for name in names if str(name) in known}
            if not self._home.was_clean:
                for name in names:
                    self._partitions[name] = self._opened(name, TopicSettings())
            self._home.start(self._synced_offsets())
        except OSError as error:
            self._home.release()
            if isinstance(error, NotADirectoryError) and error.filename == self.path:
                raise FileInTheWay(self.path, "it is a file") from None
            hint = f"{remedy(error)}; what is there is left as it is"
            raise UnusableDirectory(self.path, f"it cannot be opened: {error}", hint=hint) from error
        except BaseException:
            self._home.release()
            raise

    def _open_or_create(self, name: TopicPartition, settings: TopicSettings) -> Partition:
        directory = f"{self.path}/{name}"
        try:
            if not self._home.files.exists(directory):
                self._home.files.make_directory(directory)
                self._home.files.sync_directory(self.path)
            return self._opened(name, settings)
        except OSError as error:
            raise PartitionUnopened(str(name), error) from error

    def _opened(self, name: TopicPartition, settings: TopicSettings) -> Partition:
        synced_offset = self._known_synced.get(str(name), 0)
        state = open_partition(self._home, name, settings, synced_offset, trust=self._home.was_clean)
        return Partition(self._home, self._commits, name, settings, state)

    def _synced_offsets(self) -> dict[str, int]:
        """What is known to be synced: a clean stop said it, or the partition is open and says it itself."""
        known = dict(self._known_synced)
        for name, offset in self._home.recovery_points.items():
            known[str(name)] = max(offset, known.get(str(name), 0))
        return known | {str(name): partition.synced_offset for name, partition in self._partitions.items()}

    def _compacted_partitions(self) -> list[Partition]:
        return [p for p in self._open_partitions() if p.id in self._asked_for and p.settings.compacts]

    def _open_partitions(self) -> list[Partition]:
        with self._lock:
            return list(self._partitions.values())

    def _close_partitions(self) -> None:
        clean = True
        for partition in self._open_partitions():
            try:
                partition.close()
            except OSError as error:
                clean = False
                logger.error("partition %s could not be closed cleanly: %s", partition.id, error)
            clean = clean and not partition.failed
        if clean:
            self._home.stop_clean()

    def _care(self) -> None:
        while not self._closed.wait(1):
            try:
                self.maintain()
            except Exception:  # a defect or an ill disk must not end all care
                logger.exception("maintenance of %s failed and will be tried again", self.path)


def open_log(
    path: str | os.PathLike[str],
    *,
    settings: LogSettings | None = None,
    files: Files = DISK,
    clock: Clock = SYSTEM_CLOCK,
    chance: random.Random | None = None,
    background: bool = True,
) -> Log:
    """Open a data directory, or make it. Only one process can have it open.

    Without `background` nothing happens but in calls: no retention, no checkpoints, no commits of `submit`.
    """
    home = DataDirectory(os.path.abspath(path), files, clock, chance or random.Random(), settings or LogSettings())
    return Log(home, background=background)


def _partition_name(topic: str, number: int) -> TopicPartition:
    if not TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        raise InvalidSetting("topic", topic, "1 to 249 letters, digits, dots, dashes and underscores")
    if not 0 <= number <= INT32_MAX:
        raise InvalidSetting("partition", number, f"0 to {INT32_MAX:,}")
    return TopicPartition(topic, number)
