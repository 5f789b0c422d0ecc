import pytest

from runnel.broker.cluster import ConfigResource
from runnel.broker.configs.live import changed_settings, live_settings
from runnel.errors import InvalidSetting

ALL, MINE, OTHER = (ConfigResource("broker", name) for name in ("", "7", "8"))
STATIC = {"node.id": "7", "log.retention.ms": "1"}


def test_without_changes_the_settings_are_those_of_the_start() -> None:
    settings = live_settings(STATIC, {})

    assert (settings.node_id, settings.log_retention_ms, settings.changes) == (7, 1, {})


def test_a_change_for_this_broker_wins_over_one_for_all_over_the_start() -> None:
    assert live_settings(STATIC, {ALL: {"log.retention.ms": "2"}}).retention_ms == 2
    both = {MINE: {"log.retention.ms": "3"}, ALL: {"log.retention.ms": "2"}, OTHER: {"log.retention.ms": "4"}}
    assert live_settings(STATIC, both).retention_ms == 3
    assert changed_settings(STATIC, both).retention_ms == 3


def test_the_changes_are_known_by_broker() -> None:
    stored = {MINE: {"log.retention.ms": "3"}, ALL: {"num.io.threads": "2"}}

    expected = {"7": {"log.retention.ms": "3"}, "": {"num.io.threads": "2"}}
    assert live_settings(STATIC, stored).changes == expected
    assert changed_settings(STATIC, stored).changes == expected


def test_a_stored_change_that_no_longer_fits_is_left_out_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    settings = live_settings(STATIC, {MINE: {"log.segment.bytes": "1", "log.retention.ms": "3"}})

    assert (settings.log_segment_bytes, settings.log_retention_ms) == (2**30, 3)
    assert settings.changes == {"7": {"log.retention.ms": "3"}}
    assert caplog.messages == [
        "a configuration that was stored earlier is left out: "
        "setting log.segment.bytes = 1 (expected a whole number of at least 1,048,576)"
    ]


def test_a_change_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"setting log\.segment\.bytes = 1 "):
        changed_settings(STATIC, {MINE: {"log.segment.bytes": "1"}})
