from typing import Any

import pytest

from runnel.errors import InvalidSetting
from runnel.settings import DAY, GIB, MIB, CleanupPolicy, LogSettings, TimestampType, TopicSettings


def test_defaults_are_kafkas() -> None:
    settings = TopicSettings()

    assert (settings.segment_bytes, settings.segment_ms) == (GIB, 7 * DAY)
    assert (settings.retention_ms, settings.retention_bytes) == (7 * DAY, -1)
    assert (settings.max_message_bytes, settings.index_interval_bytes) == (1_048_588, 4_096)
    assert settings.message_timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_bytes", 1_023),
        ("segment_bytes", 2**31),
        ("segment_ms", 0),
        ("segment_jitter_ms", -1),
        ("index_interval_bytes", -1),
        ("retention_ms", -2),
        ("retention_bytes", -2),
        ("max_message_bytes", -1),
        ("max_message_bytes", 2**31),
        ("flush_messages", 0),
        ("flush_ms", -1),
        ("segment_bytes", 2_048.0),
        ("segment_bytes", "2048"),
        ("segment_bytes", None),
        ("segment_ms", True),
        ("message_timestamp_type", "MoonTime"),
        ("message_timestamp_type", None),
    ],
)
def test_a_topic_setting_outside_of_its_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidSetting) as refused:
        TopicSettings(**{name: value})
    assert (refused.value.name, refused.value.value) == (name.replace("_", "."), value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_bytes", 1_024),
        ("segment_bytes", 2**31 - 1),
        ("retention_ms", -1),
        ("retention_bytes", 0),
        ("flush_messages", None),
        ("flush_ms", 0),
        ("max_message_bytes", 0),
    ],
)
def test_the_ends_of_a_range_belong_to_it(name: str, value: int | None) -> None:
    assert getattr(TopicSettings(**{name: value}), name) == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("open_files", 7),
        ("sync_workers", 0),
        ("sync_workers", 65),
        ("checkpoint_ms", 0),
        ("low_disk_bytes", -1),
        ("tail_cache_bytes", -1),
        ("retry_after_failure_ms", -1),
        ("retention_check_ms", 0),
        ("producer_expiration_ms", 0),
        ("open_files", None),
    ],
)
def test_a_log_setting_outside_of_its_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidSetting):
        LogSettings(**{name: value})


def test_a_refusal_names_the_setting_and_its_range() -> None:
    with pytest.raises(InvalidSetting) as refused:
        TopicSettings(segment_bytes=5)
    assert str(refused.value) == "setting segment.bytes = 5 (expected a whole number from 1,024 to 2,147,483,647)"


def test_a_refusal_of_a_setting_without_an_upper_end_names_the_lower_one() -> None:
    with pytest.raises(InvalidSetting) as refused:
        LogSettings(open_files=1)
    assert str(refused.value) == "setting open.files = 1 (expected at least 8)"


@pytest.mark.parametrize(
    ("settings", "durable"),
    [
        ({}, True),
        ({"flush_messages": 1}, True),
        ({"flush_ms": 0}, True),
        ({"flush_messages": 1_000, "flush_ms": 0}, True),
        ({"flush_messages": 2}, False),
        ({"flush_ms": 1}, False),
        ({"flush_messages": 1_000, "flush_ms": 1_000}, False),
    ],
)
def test_a_topic_is_durable_unless_it_says_when_to_flush(settings: dict[str, int], durable: bool) -> None:
    assert TopicSettings(**settings).durable == durable  # type: ignore[arg-type]


def test_the_default_is_durable_and_keeps_a_lot_in_memory() -> None:
    assert TopicSettings().durable
    assert LogSettings().tail_cache_bytes == 64 * MIB


# --- Kafka's names


def test_settings_are_read_by_kafkas_names() -> None:
    names: dict[str, str | int] = {
        "segment.bytes": "1048576",
        "retention.ms": -1,
        "message.timestamp.type": "LogAppendTime",
    }

    assert TopicSettings.from_names(names) == TopicSettings(
        segment_bytes=MIB, retention_ms=-1, message_timestamp_type=TimestampType.LOG_APPEND_TIME
    )


def test_an_unknown_compression_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidSetting, match="expected one of producer, uncompressed, gzip, snappy, lz4, zstd"):
        TopicSettings.from_names({"compression.type": "pigeon"})


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidSetting) as refused:
        TopicSettings.from_names({"segment.bites": 1})
    assert refused.value.expected.startswith("one of cleanup.policy, compression.type, delete.retention.ms")


@pytest.mark.parametrize(
    ("text", "policy", "deletes"),
    [
        ("delete", (CleanupPolicy.DELETE,), True),
        ("compact", (CleanupPolicy.COMPACT,), False),
        ("compact, delete", (CleanupPolicy.COMPACT, CleanupPolicy.DELETE), True),
        ("", (), False),
    ],
)
def test_a_cleanup_policy_is_read_from_its_text(text: str, policy: tuple[CleanupPolicy, ...], deletes: bool) -> None:
    settings = TopicSettings.from_names({"cleanup.policy": text})

    assert (settings.cleanup_policy, settings.deletes) == (policy, deletes)


@pytest.mark.parametrize("policy", ["shred", ("delete", "shred"), 5, None])
def test_an_unknown_cleanup_policy_is_refused(policy: Any) -> None:
    with pytest.raises(InvalidSetting, match="expected delete, compact, or both with a comma between them"):
        TopicSettings(cleanup_policy=policy)


@pytest.mark.parametrize("value", ["many", "", "1.5", "1e6"])
def test_a_value_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(InvalidSetting, match="expected a whole number"):
        TopicSettings.from_names({"segment.bytes": value})


def test_a_value_outside_of_its_range_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidSetting, match=r"setting segment\.ms = 0"):
        TopicSettings.from_names({"segment.ms": "0"})


def test_an_unknown_kind_of_time_is_refused() -> None:
    with pytest.raises(InvalidSetting) as refused:
        TopicSettings.from_names({"message.timestamp.type": "MoonTime"})
    assert refused.value.hint == "expected CreateTime or LogAppendTime"


def test_a_kind_of_time_may_be_given_as_text() -> None:
    settings = TopicSettings(message_timestamp_type="LogAppendTime")  # type: ignore[arg-type]

    assert settings.message_timestamp_type is TimestampType.LOG_APPEND_TIME
