"""`runnel topics` as its users see it: what is printed where, and the exit code."""

from __future__ import annotations

import json
import re
import time

import pytest

NO_SUCH = "`runnel topics list` shows those that are there, `runnel topics create` makes one"
ALL_CONFIGS = "`runnel topics describe TOPIC --all` shows every config of a topic with its value"
# What a broker says of a config that cannot be.
REASONS = {
    "kafka": {
        "retention.msx=1": "Unknown topic config name: retention.msx",
        "retention.ms=soon": "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        "retention.ms=-2": "Invalid value -2 for configuration retention.ms: Value must be at least -1",
    },
    "runnel": {
        "retention.msx=1": "setting retention.msx = '1' "
        "(expected a topic configuration that Kafka knows, such as retention.ms)",
        "retention.ms=soon": "setting retention.ms = 'soon' (expected a whole number of at least -1)",
        "retention.ms=-2": "setting retention.ms = '-2' (expected a whole number of at least -1)",
    },
}


def error(what: str, hint: str) -> tuple[int, str, str]:
    return 1, "", f"error: {what}\nhint: {hint}\n"


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def own_configs(admin, topic: str) -> dict[str, str | None]:
    return {config.name: config.value for config in admin.configs([topic])[topic] if config.is_of_topic}


def test_topics_are_listed_by_name(runnel, topic, wide):
    result = runnel("topics", "list")
    assert (result.code, result.err) == (0, "")
    rows = table(result.out)
    assert rows[0] == ["topic", "partitions", "replicas"]
    assert [topic, "1", "1"] in rows
    assert [wide, "3", "1"] in rows
    assert rows[1:] == sorted(rows[1:])


def test_topics_are_listed_as_json(runnel, admin, wide):
    listed = json.loads(runnel("topics", "list", "--json").out)
    assert {
        "topic": wide, "id": admin.topic(wide).id, "internal": False, "partitions": 3, "replicas": 1,
    } in listed  # fmt: skip


def test_a_topic_is_created(runnel, admin, name):
    create = ("topics", "create", name, "--partitions", 2, "--replication-factor", 1, "--config", "retention.ms=1000")
    assert runnel(*create) == (0, f'created topic "{name}"\n', "")
    assert len(admin.topic(name).partitions) == 2
    assert [config.value for config in admin.configs([name])[name] if config.is_of_topic] == ["1000"]
    admin.delete(name)


def test_a_topic_is_created_for_a_program(runnel, admin, name):
    result = runnel("topics", "create", name, "--json")
    assert json.loads(result.out) == {"topic": name, "partitions": None, "configs": {}}
    admin.delete(name)


def test_a_topic_that_is_there_cannot_be_created(runnel, topic):
    assert runnel("topics", "create", topic) == error(
        f'topic "{topic}" is there already',
        "`runnel topics describe` shows it, `runnel topics alter` changes it",
    )


def test_a_name_that_cannot_be_one_is_refused(runnel):
    assert runnel("topics", "create", "a b") == error(
        '"a b" cannot be the name of a topic',
        "a name has 1 to 249 letters, digits, dots, underscores and hyphens, and is neither . nor ..",
    )


@pytest.mark.parametrize("count", [0, -1, 100_001])
def test_a_count_of_partitions_that_cannot_be_is_wrong_usage(runnel, name, count):
    result = runnel("topics", "create", name, "--partitions", count)
    assert (result.code, result.out) == (2, "")
    told = f"a topic cannot have {count} partitions: expected 1 to 100,000."
    assert result.err.endswith(f"\nError: Invalid value for '--partitions': {told}\n")


@pytest.mark.parametrize("config", ["retention.msx=1", "retention.ms=soon", "retention.ms=-2"])
def test_a_config_that_cannot_be_is_refused_with_the_brokers_reason(runnel, server, topic, name, config):
    reason = REASONS[server.name][config]
    for arguments, of in [(("create", f"{name}-new"), f"{name}-new"), (("alter", topic), topic)]:
        assert runnel("topics", *arguments, "--config", config) == error(
            f'the broker refuses a config of topic "{of}": {reason}', ALL_CONFIGS
        )


@pytest.mark.parametrize("config", ["retention.ms", "=1"])
def test_a_config_without_a_value_is_wrong_usage(runnel, topic, config):
    result = runnel("topics", "alter", topic, "--config", config)
    assert (result.code, result.out) == (2, "")
    assert f"Error: Invalid value for '--config': '{config}' is not of the form NAME=VALUE." in result.err


# --- describe


def test_a_topic_is_described_with_its_partitions_and_its_configs(runnel, admin, producer, wide):
    for _ in range(3):
        producer.produce(wide, b"x", partition=1)
    admin.delete_records(wide, {1: 1})
    admin.alter(wide, configs={"retention.ms": "1000000000"})
    result = runnel("topics", "describe", wide)
    assert (result.code, result.err) == (0, "")
    size = admin.sizes([(wide, 1)])[wide, 1]
    rows = table(result.out)
    assert rows[:5] == [
        [wide, "id", admin.topic(wide).id, "3", "partitions"],
        ["partition", "leader", "replicas", "in", "sync", "start", "end", "size"],
        ["0", "1", "1", "1", "0", "0", "0"],
        ["1", "1", "1", "1", "1", "3", str(size)],
        ["2", "1", "1", "1", "0", "0", "0"],
    ]
    assert rows[5:7] == [[], ["config", "value", "source"]]
    assert ["retention.ms", "1000000000", "dynamic_topic_config"] in rows


def test_a_topic_is_described_as_json(runnel, admin, topic):
    (described,) = json.loads(runnel("topics", "describe", topic, "--json", "--all").out)
    assert described["id"] == admin.topic(topic).id
    assert described["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [1], "in_sync": [1], "start": 0, "end": 0, "size": 0, "clean": None}
    ]
    assert {"name": "retention.ms", "value": "604800000", "source": "default_config"} in described["configs"]


@pytest.mark.parametrize(
    "arguments", [("describe",), ("alter", "--config", "retention.ms=1"), ("alter", "--partitions", 2), ("delete",)]
)
def test_an_unknown_topic_is_told(runnel, name, arguments):
    verb, *rest = arguments
    assert runnel("topics", verb, f"{name}-none", *rest) == error(f'there is no topic "{name}-none"', NO_SUCH)


# --- alter and delete


def test_configs_and_partitions_are_changed(runnel, admin, topic):
    admin.alter(topic, configs={"retention.bytes": "5"})
    change = ("--config", "retention.ms=7", "--unset", "retention.bytes", "--partitions", 2)
    assert runnel("topics", "alter", topic, *change) == (
        0,
        f'topic "{topic}" has 2 partitions now\nchanged 2 configs of topic "{topic}"\n',
        "",
    )
    deadline = time.monotonic() + 60
    while (own := own_configs(admin, topic)) != {"retention.ms": "7"} and time.monotonic() < deadline:
        pass  # Apache Kafka answers a change before it tells of it
    assert own == {"retention.ms": "7"}
    result = runnel("topics", "alter", topic, "--unset", "retention.ms", "--json")
    assert json.loads(result.out) == {"topic": topic, "partitions": None, "configs": {}, "unset": ["retention.ms"]}


def test_partitions_are_not_removed(runnel, wide):
    assert runnel("topics", "alter", wide, "--partitions", 2) == error(
        f'topic "{wide}" has 3 partitions, asked for 2',
        "partitions can be added, never removed: ask for more, or create another topic",
    )


def test_a_config_that_nobody_knows_cannot_be_unset(runnel, admin, topic):
    admin.alter(topic, configs={"retention.ms": "7"})
    assert runnel("topics", "alter", topic, "--unset", "retention.ms", "--unset", "retention.mss") == error(
        f'the broker refuses a config of topic "{topic}": there is no config retention.mss', ALL_CONFIGS
    )
    assert [each.value for each in admin.configs([topic])[topic] if each.name == "retention.ms"] == ["7"]


def test_a_config_that_is_unset_twice_is_unset_once(runnel, admin, topic):
    admin.alter(topic, configs={"retention.ms": "7"})
    result = runnel("topics", "alter", topic, "--unset", "retention.ms", "--unset", "retention.ms")
    assert result == (0, f'changed 1 config of topic "{topic}"\n', "")
    admin.alter(topic, configs={"retention.ms": "7"})
    admin.alter(topic, unset=["retention.ms", "retention.ms"])


def test_a_change_of_nothing_is_wrong_usage(runnel, topic):
    result = runnel("topics", "alter", topic)
    assert (result.code, result.out) == (2, "")
    assert "give at least one of --config, --unset and --partitions." in result.err
    both = runnel("topics", "alter", topic, "--config", "retention.ms=1", "--unset", "retention.ms")
    assert (both.code, both.out) == (2, "")
    assert "Invalid value for '--unset': 'retention.ms' is both set and unset." in both.err


def test_a_topic_that_is_named_twice_is_deleted_once(runnel, admin, name):
    admin.create(name, partitions=1)
    assert runnel("topics", "delete", name, name) == (0, f'deleted topic "{name}"\n', "")


def test_topics_are_deleted_all_or_none(runnel, admin, name):
    admin.create(name)
    assert runnel("topics", "delete", name, f"{name}-none") == error(f'there is no topic "{name}-none"', NO_SUCH)
    assert admin.topic(name)
    assert runnel("topics", "delete", name) == (0, f'deleted topic "{name}"\n', "")
    admin.create(name)
    assert json.loads(runnel("topics", "delete", name, "--json").out) == {"deleted": [name]}


# --- every command


@pytest.mark.parametrize(
    "command",
    [
        "topics list", "topics create x", "topics describe x", "topics alter x --partitions 2", "topics delete x",
        "topics compact x",
        "produce x", "consume x", "groups list", "groups describe x", "groups reset x --topic y --to earliest",
        "groups delete x", "groups watch x", "transactions list", "transactions describe x", "transactions hanging",
        "transactions producers x", "transactions abort x", "transactions abort --topic x --partition 0 --offset 0",
    ],
)  # fmt: skip
def test_a_broker_that_is_not_there_is_told_with_its_address(runnel, command):
    assert runnel(*command.split(), "--bootstrap", "127.0.0.1:1") == error(
        "no broker answers at 127.0.0.1:1: connection refused",
        "start one with `runnel broker start`, or give the address of another",
    )


def test_an_address_that_is_none_is_wrong_usage(runnel):
    result = runnel("topics", "list", "--bootstrap", "there:or:here")
    assert (result.code, result.out) == (2, "")
    assert re.search(r"Invalid value for '--bootstrap'.*\"there:or:here\" is no address of a broker", result.err)
