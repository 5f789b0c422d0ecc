"""Settings as small values that refuse impossible states. Names and defaults are Kafka's where Kafka has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from runnel.errors import InvalidSetting

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECOND = 1_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")


class TimestampType(StrEnum):
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CompressionType(StrEnum):
    PRODUCER = "producer"  # as it comes
    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class CleanupPolicy(StrEnum):
    DELETE = "delete"
    COMPACT = "compact"


# Each batch asks for these, which are found in a tenth of the time.
_COMPACT = CleanupPolicy.COMPACT
_AS_SENT = CompressionType.PRODUCER
_OF_THE_LOG = TimestampType.LOG_APPEND_TIME


def _setting(name: str, default: int | None, least: int, most: int = INT64_MAX) -> Any:
    return field(default=default, metadata={"name": name, "least": least, "most": most})


def _share(name: str, default: float) -> Any:
    return field(default=default, metadata={"name": name, "share": True})


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How a topic's partitions are kept.

    `flush_messages` and `flush_ms` relax durability: without them, an append is answered after it was synced. With
    either, it is answered after it was written, and synced after so many records or so many milliseconds at the latest;
    readers then see records that a power cut may take back.

    The bounds of timestamps are for whoever takes batches from producers; the log takes any.
    """

    segment_bytes: int = _setting("segment.bytes", GIB, KIB, INT32_MAX)
    segment_ms: int = _setting("segment.ms", 7 * DAY, 1)
    segment_jitter_ms: int = _setting("segment.jitter.ms", 0, 0)
    index_interval_bytes: int = _setting("index.interval.bytes", 4 * KIB, 0)
    retention_ms: int = _setting("retention.ms", 7 * DAY, -1)
    retention_bytes: int = _setting("retention.bytes", -1, -1)
    max_message_bytes: int = _setting("max.message.bytes", MIB + 12, 0, INT32_MAX)
    flush_messages: int | None = _setting("flush.messages", None, 1)
    flush_ms: int | None = _setting("flush.ms", None, 0)
    message_timestamp_before_max_ms: int = _setting("message.timestamp.before.max.ms", INT64_MAX, 0)
    message_timestamp_after_max_ms: int = _setting("message.timestamp.after.max.ms", 60 * MINUTE, 0)
    message_timestamp_type: TimestampType = field(
        default=TimestampType.CREATE_TIME, metadata={"name": "message.timestamp.type"}
    )
    compression_type: CompressionType = field(default=CompressionType.PRODUCER, metadata={"name": "compression.type"})
    cleanup_policy: tuple[CleanupPolicy, ...] = field(
        default=(CleanupPolicy.DELETE,), metadata={"name": "cleanup.policy"}
    )
    min_cleanable_dirty_ratio: float = _share("min.cleanable.dirty.ratio", 0.5)
    min_compaction_lag_ms: int = _setting("min.compaction.lag.ms", 0, 0)
    max_compaction_lag_ms: int = _setting("max.compaction.lag.ms", INT64_MAX, 1)
    delete_retention_ms: int = _setting("delete.retention.ms", DAY, 0)

    def __post_init__(self) -> None:
        for declared in fields(self):
            if "least" in declared.metadata:
                _refuse_outside(declared.metadata, getattr(self, declared.name), declared.default)
            if "share" in declared.metadata:
                _refuse_no_share(declared.metadata["name"], getattr(self, declared.name))
        # Whoever gave plain text means the types.
        kind = _timestamp_type("message.timestamp.type", self.message_timestamp_type)
        object.__setattr__(self, "message_timestamp_type", kind)
        object.__setattr__(self, "compression_type", _compression_type("compression.type", self.compression_type))
        object.__setattr__(self, "cleanup_policy", _cleanup_policy("cleanup.policy", self.cleanup_policy))

    @property
    def compacts(self) -> bool:
        """Whether only the last record of each key is to be kept."""
        return _COMPACT in self.cleanup_policy

    @property
    def keeps_batches(self) -> bool:
        """Whether they are written as they were sent: with their own compression and times."""
        return self.compression_type is _AS_SENT and self.message_timestamp_type is not _OF_THE_LOG

    @property
    def deletes(self) -> bool:
        """Whether retention may delete segments; a topic that is compacted only keeps the last of each key for ever."""
        return CleanupPolicy.DELETE in self.cleanup_policy

    @property
    def durable(self) -> bool:
        """Whether an append is synced before it is answered."""
        relaxed = self.flush_messages is not None or self.flush_ms is not None
        return not relaxed or self.flush_messages == 1 or self.flush_ms == 0

    def by_name(self) -> dict[str, Any]:
        """Every value under Kafka's name."""
        return {declared.metadata["name"]: getattr(self, declared.name) for declared in fields(self)}

    @classmethod
    def from_names(cls, names: Mapping[str, str | int]) -> TopicSettings:
        """From Kafka's names, such as `{"segment.bytes": "1048576"}`."""
        known = {declared.metadata["name"]: declared for declared in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in names.items():
            if name not in known:
                raise InvalidSetting(name, value, f"one of {', '.join(sorted(known))}")
            values[known[name].name] = _parse(known[name].metadata, value)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a data directory is kept.

    `cleaner_cpu_percent` is the share of one core that compaction takes over any ten seconds; 100 is no limit.
    """

    low_disk_bytes: int = _setting("low.disk.bytes", 64 * MIB, 0)
    tail_cache_bytes: int = _setting("tail.cache.bytes", 64 * MIB, 0)
    open_files: int = _setting("open.files", 512, 8)
    sync_workers: int = _setting("sync.workers", 8, 1, 64)
    checkpoint_ms: int = _setting("checkpoint.ms", MINUTE, 1)
    retention_check_ms: int = _setting("retention.check.ms", 5 * MINUTE, 1)
    retry_after_failure_ms: int = _setting("retry.after.failure.ms", SECOND, 0)
    producer_expiration_ms: int = _setting("producer.id.expiration.ms", DAY, 1)
    cleaner_backoff_ms: int = _setting("log.cleaner.backoff.ms", 15 * SECOND, 0)
    cleaner_dedupe_buffer_bytes: int = _setting("log.cleaner.dedupe.buffer.size", 128 * MIB, KIB)
    cleaner_cpu_percent: int = _setting("cleaner.cpu.percent", 25, 1, 100)

    def __post_init__(self) -> None:
        for declared in fields(self):
            _refuse_outside(declared.metadata, getattr(self, declared.name), declared.default)


def _refuse_outside(metadata: Mapping[str, Any], value: object, default: object) -> None:
    least, most = metadata["least"], metadata["most"]
    if value is None and default is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        expected = f"a whole number from {least:,} to {most:,}" if most < INT64_MAX else f"at least {least:,}"
        raise InvalidSetting(metadata["name"], value, expected)


def _refuse_no_share(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidSetting(name, value, "a number from 0 to 1")


def _parse(metadata: Mapping[str, Any], value: str | int) -> object:
    name = metadata["name"]
    if "share" in metadata:
        return _parsed_share(name, value)
    if name == "message.timestamp.type":
        return _timestamp_type(name, value)
    if name == "compression.type":
        return _compression_type(name, value)
    if name == "cleanup.policy":
        return _cleanup_policy(name, value)
    try:
        return whole_number(value) if isinstance(value, str) else int(value)
    except ValueError:
        raise InvalidSetting(name, value, "a whole number") from None


def whole_number(text: str) -> int:
    """ValueError if it is none as Kafka's tools read it, which are shown the text: `int` would take 1_000 for one."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def plain_number(text: str) -> float:
    """The same for one that need not be whole."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def _parsed_share(name: str, value: str | int) -> float:
    try:
        return plain_number(value) if isinstance(value, str) else float(value)
    except ValueError:
        raise InvalidSetting(name, value, "a number from 0 to 1") from None


def _timestamp_type(name: str, value: object) -> TimestampType:
    try:
        return TimestampType(str(value))
    except ValueError:
        raise InvalidSetting(name, value, " or ".join(TimestampType)) from None


def _compression_type(name: str, value: object) -> CompressionType:
    try:
        return CompressionType(str(value))
    except ValueError:
        raise InvalidSetting(name, value, f"one of {', '.join(CompressionType)}") from None


def _cleanup_policy(name: str, value: object) -> tuple[CleanupPolicy, ...]:
    """From `compact,delete`, or from several of them; none keeps everything."""
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    try:
        return tuple(CleanupPolicy(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InvalidSetting(name, value, "delete, compact, or both with a comma between them") from None
