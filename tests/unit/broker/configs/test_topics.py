import pytest

from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.configs.topics import check_topic_configs, topic_settings
from runnel.errors import InvalidSetting
from runnel.settings import CleanupPolicy, TimestampType, TopicSettings


def test_a_topic_without_configurations_has_kafkas_defaults() -> None:
    assert topic_settings(BrokerSettings(), {}) == TopicSettings()


def test_a_topic_has_the_brokers_defaults_and_its_own_configurations() -> None:
    broker, _ = BrokerSettings.from_names(
        {
            "log.segment.bytes": "2000000",
            "log.retention.hours": "1",
            "log.retention.bytes": "7",
            "message.max.bytes": "8",
            "log.message.timestamp.type": "LogAppendTime",
            "log.cleanup.policy": "compact",
            "log.flush.scheduler.interval.ms": "9",
        }
    )

    settings = topic_settings(broker, {"retention.bytes": "6", "min.insync.replicas": "2"})

    assert settings == TopicSettings(
        segment_bytes=2_000_000,
        retention_ms=3_600_000,
        retention_bytes=6,
        max_message_bytes=8,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        cleanup_policy=(CleanupPolicy.COMPACT,),
        flush_ms=9,
    )


def test_any_size_below_zero_is_no_limit() -> None:
    broker, _ = BrokerSettings.from_names({"log.retention.bytes": "-7"})

    assert topic_settings(broker, {}).retention_bytes == -1
    assert topic_settings(broker, {"retention.bytes": "-5"}).retention_bytes == -1


def test_kafkas_never_to_flush_leaves_it_to_us_and_we_sync_first() -> None:
    asked = {"flush.messages": "9223372036854775807", "flush.ms": "9223372036854775807"}

    assert topic_settings(BrokerSettings(), asked).durable


def test_a_flush_that_is_asked_for_is_kept() -> None:
    settings = topic_settings(BrokerSettings(), {"flush.messages": "100"})

    assert (settings.flush_messages, settings.flush_ms, settings.durable) == (100, None, False)


def test_tests_may_have_small_segments() -> None:
    configs = {"segment.bytes": "1048576", "internal.segment.bytes": "2048"}
    check_topic_configs(configs)

    assert topic_settings(BrokerSettings(), configs).segment_bytes == 2048


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact,delete"},
        {"cleanup.policy": ""},
        {"compression.type": "producer"},
        {"compression.type": "zstd"},
        {"remote.storage.enable": "false"},
        {"min.cleanable.dirty.ratio": "0.01"},
        {"follower.replication.throttled.replicas": "*"},
        {"leader.replication.throttled.replicas": "0:1, 1:1"},
        {"leader.replication.throttled.replicas": ""},
        {"retention.bytes": "-5"},
        {"compression.gzip.level": "-1"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "6"},
        {"retention.ms": "-1", "retention.bytes": "-1"},
    ],
)
def test_what_kafkas_clients_ask_for_is_taken(configs: dict[str, str]) -> None:
    check_topic_configs(configs)


@pytest.mark.parametrize(
    ("configs", "says"),
    [
        (
            {"segment.bites": "1"},
            "setting segment.bites = '1' (expected a topic configuration that Kafka knows, such as segment.bytes)",
        ),
        (
            {"segment.bytes": "1000"},
            "setting segment.bytes = '1000' (expected a whole number of at least 1,048,576)",
        ),
        (
            {"retention.ms": "1_000"},  # which Python takes for a number, and nobody who is shown it
            "setting retention.ms = '1_000' (expected a whole number of at least -1)",
        ),
        (
            {"min.cleanable.dirty.ratio": "0_0.5"},
            "setting min.cleanable.dirty.ratio = '0_0.5' (expected a number from 0.0 to 1.0)",
        ),
        (
            {"min.cleanable.dirty.ratio": "1.5"},
            "setting min.cleanable.dirty.ratio = '1.5' (expected a number from 0.0 to 1.0)",
        ),
        (
            {"compression.gzip.level": "0"},
            "setting compression.gzip.level = '0' (expected a whole number from 1 to 9, or -1)",
        ),
        (
            {"max.message.bytes": "3000000000"},
            "setting max.message.bytes = '3000000000' (expected a whole number of at least 0)",
        ),
        (
            {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"},
            "setting min.compaction.lag.ms = '6' (expected at most max.compaction.lag.ms, which is 5)",
        ),
        (
            {"leader.replication.throttled.replicas": "0:x"},
            "setting leader.replication.throttled.replicas = '0:x' "
            "(expected PARTITION:BROKER, several with commas between them, or *)",
        ),
        (
            {"cleanup.policy": "compact,compact"},
            "setting cleanup.policy = 'compact,compact' (expected some of compact, delete)",
        ),
        (
            {"cleanup.policy": "compact,"},
            "setting cleanup.policy = 'compact,' (expected some of compact, delete)",
        ),
        (
            {"compression.type": "pigeon"},
            "setting compression.type = 'pigeon' (expected one of uncompressed, zstd, lz4, snappy, gzip, producer)",
        ),
    ],
)
def test_what_cannot_be_is_refused(configs: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        check_topic_configs(configs)
    assert str(refused.value) == says
