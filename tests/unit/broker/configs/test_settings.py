from dataclasses import fields
from typing import Any

import pytest

from runnel.broker.configs.catalogue import BROKER, Treatment, configs
from runnel.broker.configs.listeners import Listener
from runnel.broker.configs.settings import BrokerSettings
from runnel.errors import InvalidSetting
from runnel.settings import DAY, MINUTE, LogSettings

OWN_NAMES = [field.name.replace("_", ".") for field in fields(BrokerSettings) if field.name != "changes"]


def test_the_settings_are_what_the_catalogue_says_is_honoured() -> None:
    honoured = {name for name, config in configs(BROKER).items() if config.treatment is Treatment.HONOURED}

    assert honoured == {*OWN_NAMES, "broker.id"}


@pytest.mark.parametrize("name", OWN_NAMES)
def test_a_default_is_the_one_that_the_catalogue_shows(name: str) -> None:
    shown, told = BrokerSettings().shown(name) or None, configs(BROKER)[name].default or None

    if name == "listener.security.protocol.map":  # their order means nothing
        shown, told = ",".join(sorted((shown or "").split(","))), ",".join(sorted((told or "").split(",")))
    assert shown == told


def test_what_the_log_is_opened_with_has_its_defaults() -> None:
    assert BrokerSettings().log == LogSettings()


def test_names_are_read_and_what_is_ignored_is_told() -> None:
    settings, notices = BrokerSettings.from_names(
        {
            "num.partitions": "3",
            "auto.create.topics.enable": "FALSE",
            "log.cleanup.policy": "compact, delete",
            "runnel.low.disk.bytes": 5,
            "num.io.threads": "16",
            "offsets.topic.replication.factor": "1",
        }
    )

    assert (settings.num_partitions, settings.auto_create_topics_enable) == (3, False)
    assert (settings.log_cleanup_policy, settings.log.low_disk_bytes) == (("compact", "delete"), 5)
    assert notices == [
        "setting num.io.threads is ignored: one event loop serves all connections",
        "setting offsets.topic.replication.factor is ignored: there is one broker, and one replica of each partition",
    ]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            {"num.partition": "3"},
            "setting num.partition = '3' (expected a broker configuration that Kafka knows, such as num.partitions)",
        ),
        ({"qwertyuiop": "3"}, "setting qwertyuiop = '3' (expected a broker configuration that Kafka knows)"),
        ({"num.partitions": "0"}, "setting num.partitions = 0 (expected a whole number of at least 1)"),
        ({"num.partitions": "3.5"}, "setting num.partitions = '3.5' (expected a whole number)"),
        (
            {"num.partitions": "3000000000"},
            "setting num.partitions = 3000000000 (expected a whole number of at least 1)",
        ),
        ({"runnel.sync.workers": "65"}, "setting runnel.sync.workers = 65 (expected a whole number from 1 to 64)"),
        ({"delete.topic.enable": "maybe"}, "setting delete.topic.enable = 'maybe' (expected true or false)"),
        ({"num.io.threads": "none"}, "setting num.io.threads = 'none' (expected a whole number of at least 1)"),
        (
            {"log.message.timestamp.type": "Never"},
            "setting log.message.timestamp.type = 'Never' (expected one of CreateTime, LogAppendTime)",
        ),
        ({"log.cleanup.policy": "shred"}, "setting log.cleanup.policy = 'shred' (expected one of compact, delete)"),
        (
            {"authorizer.class.name": "acl"},
            "setting authorizer.class.name = 'acl' (expected it to be left out: there is no access control yet)",
        ),
        (
            {"listener.name.internal.ssl.keystore.location": "a"},
            "setting listener.name.internal.ssl.keystore.location = 'a' (expected it to be left out: "
            "there is no authentication and no encryption yet)",
        ),
        (
            {"listener.name.internal.max.connections": "5"},
            "setting listener.name.internal.max.connections = '5' (expected it to be left out: "
            "max.connections is the same for all listeners)",
        ),
        (
            {"process.roles": "controller"},
            "setting process.roles = 'controller' (expected broker: a controller alone is of no use here)",
        ),
        (
            {"compression.type": "pigeon"},
            "setting compression.type = 'pigeon' (expected one of producer, uncompressed, gzip, snappy, lz4, zstd)",
        ),
        (
            {"default.replication.factor": "3"},
            "setting default.replication.factor = 3 (expected 1: there is one broker; or set "
            "runnel.replication.factor.lenient=true to make such topics with 1)",
        ),
        (
            {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "9"},
            "setting group.min.session.timeout.ms = 10 (expected at most group.max.session.timeout.ms, which is 9)",
        ),
        (
            {"queued.max.request.bytes": "9"},
            "setting queued.max.request.bytes = 9 (expected -1, or at least socket.request.max.bytes, "
            "which is 104,857,600)",
        ),
        ({"log.retention.hours": "0"}, "setting log.retention.hours = 0 (expected -1 for ever, or at least 1)"),
        ({"num.partitions": "1_0"}, "setting num.partitions = '1_0' (expected a whole number)"),
        ({"broker.id": "3", "node.id": "4"}, "setting broker.id = '3' (expected the same as node.id, which is 4)"),
    ],
)
def test_what_cannot_be_is_refused(names: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        BrokerSettings.from_names(names)
    assert str(refused.value) == says


def test_what_is_refused_may_have_its_default() -> None:
    _, notices = BrokerSettings.from_names({"ssl.client.auth": "none", "authorizer.class.name": ""})

    assert notices == [
        "setting ssl.client.auth is ignored: there is no authentication and no encryption yet",
        "setting authorizer.class.name is ignored: there is no access control yet",
    ]


def test_a_password_does_not_stand_in_the_refusal() -> None:
    with pytest.raises(InvalidSetting) as refused:
        BrokerSettings.from_names({"ssl.key.password": "topsecret"})
    assert "topsecret" not in str(refused.value)


def test_the_older_name_of_the_id_counts() -> None:
    assert BrokerSettings.from_names({"broker.id": "3"})[0].node_id == 3
    assert BrokerSettings.from_names({"broker.id": "-1", "node.id": "4"})[0].node_id == 4


def test_several_replicas_by_default_are_fine_when_that_is_taken_lightly() -> None:
    names = {"default.replication.factor": "3", "runnel.replication.factor.lenient": "true"}

    assert BrokerSettings.from_names(names)[0].default_replication_factor == 3


# --- of several names the one with the finest unit counts


@pytest.mark.parametrize(
    ("names", "retention_ms"),
    [
        ({}, 7 * DAY),
        ({"log.retention.hours": "1"}, 60 * MINUTE),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 2 * MINUTE),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1", "log.retention.minutes": "2"}, -1),
    ],
)
def test_retention_by_time(names: dict[str, str], retention_ms: int) -> None:
    assert BrokerSettings.from_names(names)[0].retention_ms == retention_ms


def test_segments_by_time() -> None:
    coarse, _ = BrokerSettings.from_names({"log.roll.hours": "2", "log.roll.jitter.hours": "1"})
    fine, _ = BrokerSettings.from_names(
        {"log.roll.hours": "2", "log.roll.ms": "5", "log.roll.jitter.hours": "1", "log.roll.jitter.ms": "4"}
    )

    assert (coarse.segment_ms, coarse.segment_jitter_ms) == (120 * MINUTE, 60 * MINUTE)
    assert (fine.segment_ms, fine.segment_jitter_ms) == (5, 4)


# --- listeners


def test_listeners_are_read() -> None:
    settings, _ = BrokerSettings.from_names(
        {
            "listeners": "PLAINTEXT://:9092, inside://[::1]:9093,OUTSIDE://0.0.0.0:0",
            "advertised.listeners": "outside://example.org:9094",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
    )

    assert settings.client_listeners == (
        Listener("PLAINTEXT", "", 9092),
        Listener("INSIDE", "::1", 9093),
        Listener("OUTSIDE", "0.0.0.0", 0),
    )
    assert settings.advertised_listeners == (Listener("OUTSIDE", "example.org", 9094),)
    assert settings.shown("listeners") == "PLAINTEXT://:9092,INSIDE://[::1]:9093,OUTSIDE://0.0.0.0:0"


def test_the_settings_that_come_with_kafka_are_taken() -> None:
    names = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "socket.request.max.bytes": "104857600",
        "log.dirs": "/tmp/kraft-combined-logs",
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "2",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
    }

    settings, notices = BrokerSettings.from_names(names)

    assert settings.client_listeners == (Listener("PLAINTEXT", "", 9092),)
    assert "setting log.dirs is ignored: the data directory is named by --data" in notices
    assert len(notices) == 14


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            {"listeners": "localhost"},
            "setting listeners = 'localhost' (expected NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092 or "
            "PLAINTEXT://[::1]:9092)",
        ),
        (
            {"listeners": "PLAINTEXT://a:99999"},
            "setting listeners = 'PLAINTEXT://a:99999' (expected NAME://HOST:PORT, such as "
            "PLAINTEXT://127.0.0.1:9092 or PLAINTEXT://[::1]:9092)",
        ),
        ({"listeners": ""}, "setting listeners = '' (expected at least one listener for clients)"),
        (
            {"listeners": "CONTROLLER://a:1", "controller.listener.names": "CONTROLLER"},
            "setting listeners = 'CONTROLLER://a:1' (expected at least one listener for clients)",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"},
            "setting listeners = 'PLAINTEXT://a:1,PLAINTEXT://b:2' (expected each name once, and PLAINTEXT stands "
            "there twice)",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,SSL://a:1"},
            "setting listeners = 'PLAINTEXT://a:1,SSL://a:1' (expected each address once, and that of "
            "PLAINTEXT://a:1 stands there twice)",
        ),
        (
            {"listeners": "SASL_SSL://a:1"},
            "setting listeners = 'SASL_SSL://a:1' (expected a listener without security: SASL_SSL is not supported "
            "yet)",
        ),
        (
            {"listeners": "INSIDE://a:1"},
            "setting listener.security.protocol.map = "
            "'PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL' "
            "(expected a protocol for the listener INSIDE, such as INSIDE:PLAINTEXT)",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:TELNET"},
            "setting listener.security.protocol.map = 'PLAINTEXT:TELNET' (expected NAME:PROTOCOL with one of "
            "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)",
        ),
        (
            {"advertised.listeners": "OUTSIDE://a:1"},
            "setting advertised.listeners = 'OUTSIDE://a:1' (expected a name of listeners: PLAINTEXT)",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "setting advertised.listeners = 'PLAINTEXT://0.0.0.0:1' (expected an address that clients can connect to)",
        ),
    ],
)
def test_listeners_that_cannot_be_are_refused(names: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        BrokerSettings.from_names(names)
    assert str(refused.value) == says
