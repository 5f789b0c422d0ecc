"""The broker's settings as one value, under Kafka's names.

`BrokerSettings` refuses impossible values. `from_names` takes names and texts as they stand in a configuration file:
each name is honoured, or ignored with a notice, or refused with a reason; see `catalogue.py`.

The defaults are Kafka's, with one exception: without `listeners` the broker listens on the loopback interface only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any

from runnel.broker.configs.catalogue import treat
from runnel.broker.configs.listeners import EVERYWHERE, PROTOCOLS, Listener, Protocol, parse_listeners, parse_protocols
from runnel.broker.configs.values import as_text, check_fields, flag, number, parsed, share, text, words
from runnel.errors import InvalidSetting
from runnel.settings import DAY, GIB, INT32_MAX, INT64_MAX, KIB, MIB, MINUTE, SECOND, CompressionType, LogSettings

HOUR = 60 * MINUTE
DEFAULT_LISTENER = Listener("PLAINTEXT", "127.0.0.1", 9092)
MIGRATION_POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")
DEFAULT_PROTOCOLS = tuple(Protocol(name, name) for name in PROTOCOLS)


def _migration_policy(name: str, value: Any) -> str:
    policy: str = str(value).lower()
    if policy not in MIGRATION_POLICIES:
        raise InvalidSetting(name, value, f"one of {', '.join(MIGRATION_POLICIES)}")
    return policy


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Every setting that the broker honours; an attribute is Kafka's name with underscores."""

    node_id: int = number(1, 0, INT32_MAX)

    # where it listens
    listeners: tuple[Listener, ...] = parsed((DEFAULT_LISTENER,), parse_listeners)
    advertised_listeners: tuple[Listener, ...] = parsed((), parse_listeners)
    listener_security_protocol_map: tuple[Protocol, ...] = parsed(DEFAULT_PROTOCOLS, parse_protocols)
    controller_listener_names: tuple[str, ...] = words(())
    broker_rack: str | None = text(None)

    # topics
    num_partitions: int = number(1, 1, INT32_MAX)
    default_replication_factor: int = number(1, 1, INT32_MAX)
    auto_create_topics_enable: bool = flag(True)
    delete_topic_enable: bool = flag(True)

    # limits
    message_max_bytes: int = number(MIB + 12, 0, INT32_MAX)
    socket_request_max_bytes: int = number(100 * MIB, 1, INT32_MAX)
    fetch_max_bytes: int = number(55 * MIB, KIB, INT32_MAX)
    max_request_partition_size_limit: int = number(2000, 1, INT32_MAX)
    max_connections: int = number(INT32_MAX, 0, INT32_MAX)
    max_connections_per_ip: int = number(INT32_MAX, 0, INT32_MAX)
    connections_max_idle_ms: int = number(10 * MINUTE, -1)
    queued_max_request_bytes: int = number(-1, -1)
    socket_listen_backlog_size: int = number(50, 1, INT32_MAX)
    quota_window_num: int = number(11, 1, INT32_MAX)
    quota_window_size_seconds: int = number(1, 1, INT32_MAX)

    # groups
    group_initial_rebalance_delay_ms: int = number(3 * SECOND, 0, INT32_MAX)
    group_min_session_timeout_ms: int = number(6 * SECOND, 0, INT32_MAX)
    group_max_session_timeout_ms: int = number(30 * MINUTE, 0, INT32_MAX)
    group_max_size: int = number(INT32_MAX, 1, INT32_MAX)
    group_coordinator_rebalance_protocols: tuple[str, ...] = words(
        ("classic", "consumer"), ("classic", "consumer", "share", "streams")
    )
    group_consumer_session_timeout_ms: int = number(45 * SECOND, 1, INT32_MAX)
    group_consumer_min_session_timeout_ms: int = number(45 * SECOND, 1, INT32_MAX)
    group_consumer_max_session_timeout_ms: int = number(MINUTE, 1, INT32_MAX)
    group_consumer_heartbeat_interval_ms: int = number(5 * SECOND, 1, INT32_MAX)
    group_consumer_min_heartbeat_interval_ms: int = number(5 * SECOND, 1, INT32_MAX)
    group_consumer_max_heartbeat_interval_ms: int = number(15 * SECOND, 1, INT32_MAX)
    group_consumer_assignment_interval_ms: int = number(SECOND, 0, INT32_MAX)
    group_consumer_min_assignment_interval_ms: int = number(0, 0, INT32_MAX)
    group_consumer_max_assignment_interval_ms: int = number(15 * SECOND, 0, INT32_MAX)
    group_consumer_max_size: int = number(INT32_MAX, 1, INT32_MAX)
    group_consumer_assignors: tuple[str, ...] = words(("uniform", "range"), ("uniform", "range"))
    group_consumer_migration_policy: str = parsed("bidirectional", _migration_policy)
    group_consumer_regex_refresh_interval_ms: int = number(10 * MINUTE, 10 * SECOND, INT32_MAX)
    offset_metadata_max_bytes: int = number(4 * KIB, 0, INT32_MAX)
    offsets_retention_minutes: int = number(10080, 1, INT32_MAX)
    offsets_retention_check_interval_ms: int = number(10 * MINUTE, 1)

    # transactions
    transaction_max_timeout_ms: int = number(15 * MINUTE, 1, INT32_MAX)
    transactional_id_expiration_ms: int = number(7 * DAY, 1, INT32_MAX)
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = number(10 * SECOND, 1, INT32_MAX)
    transaction_remove_expired_transaction_cleanup_interval_ms: int = number(HOUR, 1, INT32_MAX)

    # what a topic gets that does not say otherwise
    log_segment_bytes: int = number(GIB, MIB, INT32_MAX)
    log_roll_ms: int | None = number(None, 1)
    log_roll_hours: int = number(168, 1, INT32_MAX)
    log_roll_jitter_ms: int | None = number(None, 0)
    log_roll_jitter_hours: int = number(0, 0, INT32_MAX)
    log_index_interval_bytes: int = number(4 * KIB, 0, INT32_MAX)
    log_retention_ms: int | None = number(None, -1)
    log_retention_minutes: int | None = number(None, -1, INT32_MAX)
    log_retention_hours: int = number(168, -1, INT32_MAX)
    log_retention_bytes: int = number(-1)
    log_flush_interval_messages: int = number(INT64_MAX, 1)
    log_flush_interval_ms: int | None = number(None, 0)
    log_flush_scheduler_interval_ms: int = number(INT64_MAX, 0)
    log_message_timestamp_type: str = text("CreateTime", ("CreateTime", "LogAppendTime"))
    log_message_timestamp_before_max_ms: int = number(INT64_MAX, 0)
    log_message_timestamp_after_max_ms: int = number(HOUR, 0)
    log_cleanup_policy: tuple[str, ...] = words(("delete",), ("compact", "delete"))
    log_cleaner_min_cleanable_ratio: float = share(0.5)
    log_cleaner_min_compaction_lag_ms: int = number(0, 0)
    log_cleaner_max_compaction_lag_ms: int = number(INT64_MAX, 1)
    log_cleaner_delete_retention_ms: int = number(DAY, 0)
    compression_type: str = text("producer", tuple(CompressionType))

    # care of the log
    log_retention_check_interval_ms: int = number(5 * MINUTE, 1)
    log_flush_offset_checkpoint_interval_ms: int = number(MINUTE, 1, INT32_MAX)
    producer_id_expiration_ms: int = number(DAY, 1, INT32_MAX)
    log_cleaner_backoff_ms: int = number(15 * SECOND, 0)
    log_cleaner_dedupe_buffer_size: int = number(128 * MIB, KIB)

    # our own
    runnel_replication_factor_lenient: bool = flag(False)
    runnel_low_disk_bytes: int = number(64 * MIB, 0)
    runnel_tail_cache_bytes: int = number(64 * MIB, 0)
    runnel_open_files: int = number(512, 8)
    runnel_sync_workers: int = number(8, 1, 64)
    runnel_retry_after_failure_ms: int = number(SECOND, 0)
    runnel_cleaner_cpu_percent: int = number(25, 1, 100)

    # what was changed at run time and is in the above already: by broker id, and under "" for all brokers
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self, settings_fields())
        for broken in self._contradictions():
            raise broken

    @property
    def id(self) -> int:
        """Of this broker."""
        return self.node_id

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners without those of a controller: we need none, but a file that was made for Kafka names one."""
        return tuple(listener for listener in self.listeners if listener.name not in self._controllers)

    @property
    def _controllers(self) -> set[str]:
        return {name.upper() for name in self.controller_listener_names}

    @property
    def retention_ms(self) -> int:
        """How long a topic keeps its records: of three names the one with the finest unit counts."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return _scaled(self.log_retention_minutes, MINUTE)
        return _scaled(self.log_retention_hours, HOUR)

    @property
    def segment_ms(self) -> int:
        return self.log_roll_ms if self.log_roll_ms is not None else self.log_roll_hours * HOUR

    @property
    def segment_jitter_ms(self) -> int:
        return self.log_roll_jitter_ms if self.log_roll_jitter_ms is not None else self.log_roll_jitter_hours * HOUR

    @property
    def flush_ms(self) -> int:
        given = self.log_flush_interval_ms
        return given if given is not None else self.log_flush_scheduler_interval_ms

    @property
    def log(self) -> LogSettings:
        """What the log itself is opened with."""
        return LogSettings(
            low_disk_bytes=self.runnel_low_disk_bytes,
            tail_cache_bytes=self.runnel_tail_cache_bytes,
            open_files=self.runnel_open_files,
            sync_workers=self.runnel_sync_workers,
            checkpoint_ms=self.log_flush_offset_checkpoint_interval_ms,
            retention_check_ms=self.log_retention_check_interval_ms,
            retry_after_failure_ms=self.runnel_retry_after_failure_ms,
            producer_expiration_ms=self.producer_id_expiration_ms,
            cleaner_backoff_ms=self.log_cleaner_backoff_ms,
            cleaner_dedupe_buffer_bytes=self.log_cleaner_dedupe_buffer_size,
            cleaner_cpu_percent=self.runnel_cleaner_cpu_percent,
        )

    def topic_defaults(self) -> dict[str, Any]:
        """What a topic gets that does not say otherwise, for each topic configuration that is honoured."""
        return {
            "cleanup.policy": ",".join(self.log_cleanup_policy),
            "compression.type": self.compression_type,
            "delete.retention.ms": self.log_cleaner_delete_retention_ms,
            "flush.messages": self.log_flush_interval_messages,
            "flush.ms": self.flush_ms,
            "index.interval.bytes": self.log_index_interval_bytes,
            "max.compaction.lag.ms": self.log_cleaner_max_compaction_lag_ms,
            "max.message.bytes": self.message_max_bytes,
            "message.timestamp.after.max.ms": self.log_message_timestamp_after_max_ms,
            "message.timestamp.before.max.ms": self.log_message_timestamp_before_max_ms,
            "message.timestamp.type": self.log_message_timestamp_type,
            "min.cleanable.dirty.ratio": self.log_cleaner_min_cleanable_ratio,
            "min.compaction.lag.ms": self.log_cleaner_min_compaction_lag_ms,
            "retention.bytes": self.log_retention_bytes,
            "retention.ms": self.retention_ms,
            "segment.bytes": self.log_segment_bytes,
            "segment.jitter.ms": self.segment_jitter_ms,
            "segment.ms": self.segment_ms,
        }

    def shown(self, name: str) -> str | None:
        """The value of a setting that is honoured, by Kafka's name and as Kafka's tools show it."""
        return as_text(getattr(self, name.replace(".", "_")))

    @classmethod
    def from_names(cls, names: Mapping[str, Any]) -> tuple[BrokerSettings, list[str]]:
        """From Kafka's names, such as `{"num.partitions": "3"}`; the notices tell what is ignored, one line each."""
        values: dict[str, Any] = {}
        notices: list[str] = []
        for name, value in names.items():
            notice = treat(name, str(value))
            if notice is not None:
                notices.append(notice)
            else:
                values[name.replace(".", "_")] = value
        _take_older_name(values)
        return cls(**values), notices

    # --- what does not go together

    def _contradictions(self) -> Iterable[InvalidSetting]:
        yield from self._listener_contradictions()
        if self.default_replication_factor > 1 and not self.runnel_replication_factor_lenient:
            yield InvalidSetting(
                "default.replication.factor",
                self.default_replication_factor,
                "1: there is one broker; or set runnel.replication.factor.lenient=true to make such topics with 1",
            )
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            yield InvalidSetting(
                "group.min.session.timeout.ms",
                self.group_min_session_timeout_ms,
                f"at most group.max.session.timeout.ms, which is {self.group_max_session_timeout_ms:,}",
            )
        yield from self._group_contradictions()
        if self.queued_max_request_bytes > 0 and self.queued_max_request_bytes < self.socket_request_max_bytes:
            yield InvalidSetting(
                "queued.max.request.bytes",
                self.queued_max_request_bytes,
                f"-1, or at least socket.request.max.bytes, which is {self.socket_request_max_bytes:,}",
            )
        for name in ("log_retention_ms", "log_retention_minutes", "log_retention_hours"):
            if getattr(self, name) == 0:
                yield InvalidSetting(name.replace("_", "."), 0, "-1 for ever, or at least 1")

    def _group_contradictions(self) -> Iterable[InvalidSetting]:
        for what in ("session_timeout", "heartbeat_interval", "assignment_interval"):
            least = getattr(self, f"group_consumer_min_{what}_ms")
            most = getattr(self, f"group_consumer_max_{what}_ms")
            value = getattr(self, f"group_consumer_{what}_ms")
            name = f"group.consumer.{what.replace('_', '.')}.ms"
            if least > most:
                lowest = name.replace("consumer.", "consumer.min.")
                yield InvalidSetting(lowest, least, f"at most {name.replace('consumer.', 'consumer.max.')}: {most:,}")
            elif not least <= value <= most:
                yield InvalidSetting(name, value, f"from {least:,} to {most:,}, its min and max")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            yield InvalidSetting(
                "group.consumer.heartbeat.interval.ms",
                self.group_consumer_heartbeat_interval_ms,
                f"less than group.consumer.session.timeout.ms: {self.group_consumer_session_timeout_ms:,}",
            )
        if not self.group_consumer_assignors:
            yield InvalidSetting("group.consumer.assignors", "", "at least one of uniform and range")
        if "classic" not in self.group_coordinator_rebalance_protocols:
            yield InvalidSetting(
                "group.coordinator.rebalance.protocols",
                ",".join(self.group_coordinator_rebalance_protocols),
                "classic among them",
            )

    def _listener_contradictions(self) -> Iterable[InvalidSetting]:
        names = [listener.name for listener in self.client_listeners]
        if not names:
            yield InvalidSetting("listeners", as_text(self.listeners), "at least one listener for clients")
        protocols = dict(self.listener_security_protocol_map)
        for listener in self.client_listeners:
            protocol = protocols.get(listener.name)
            if protocol is None:
                mapped = as_text(self.listener_security_protocol_map)
                expected = f"a protocol for the listener {listener.name}, such as {listener.name}:PLAINTEXT"
                yield InvalidSetting("listener.security.protocol.map", mapped, expected)
            elif protocol != "PLAINTEXT":
                expected = f"a listener without security: {protocol} is not supported yet"
                yield InvalidSetting("listeners", str(listener), expected)
        for listener in self.advertised_listeners:
            if listener.name in self._controllers:
                continue
            if listener.name not in names:
                yield InvalidSetting("advertised.listeners", str(listener), f"a name of listeners: {', '.join(names)}")
            if listener.host in EVERYWHERE:
                yield InvalidSetting("advertised.listeners", str(listener), "an address that clients can connect to")


@cache
def settings_fields() -> dict[str, Field[Any]]:
    """The settings by attribute."""
    return {declared.name: declared for declared in fields(BrokerSettings) if declared.name != "changes"}


def check_setting(name: str, value: str) -> None:
    """InvalidSetting if this cannot be, whatever the others are."""
    declared = settings_fields().get(name.replace(".", "_"))
    if treat(name, value) is None and declared is not None:
        declared.metadata["check"](name, value)


def _scaled(value: int, unit: int) -> int:
    return -1 if value < 0 else value * unit


def _take_older_name(values: dict[str, Any]) -> None:
    """`broker.id` is the older name of `node.id`; -1 in it stands for nothing."""
    older = values.pop("broker_id", "-1")
    if str(older) == "-1":
        return
    if str(values.setdefault("node_id", older)) != str(older):
        raise InvalidSetting("broker.id", older, f"the same as node.id, which is {values['node_id']}")
