"""`runnel groups` as its users see it: lag, resets, and the alert before records are lost."""

from __future__ import annotations

import json

import pytest

from runnel.cli import groups as command
from runnel.client import Consumer, Groups

NO_SUCH = "`runnel groups list` shows those that are there"


@pytest.fixture
def behind(bootstrap, producer, topic, name):
    """A group that has read four of ten records."""
    for _ in range(10):
        producer.send(topic, bytes(1_000))
    producer.flush()
    with Consumer(bootstrap, topic, group=name) as consumer:
        list(consumer.records(4))
    return name


@pytest.fixture
def by_bytes(admin, topic):
    """Sets a retention by bytes, of which a share is unread."""

    def of(share: float) -> None:
        (size,) = admin.sizes([(topic, 0)]).values()
        limit = round(size * 6 / 10 / share)
        admin.alter(topic, configs={"retention.ms": "-1", "retention.bytes": str(limit)})

    return of


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_groups_are_listed(runnel, behind):
    result = runnel("groups", "list")
    assert rows(result.out)[0] == ["group", "state", "kind"]
    assert [behind, "empty", "classic"] in rows(result.out)
    assert {"group": behind, "state": "empty", "kind": "classic"} in json.loads(runnel("groups", "list", "--json").out)


def test_a_group_is_described_with_its_lag(runnel, admin, behind, topic):
    admin.alter(topic, configs={"retention.ms": "-1"})
    result = runnel("groups", "describe", behind)
    assert (result.code, result.err) == (0, "")
    assert rows(result.out) == [
        [behind, "empty", "0", "members", "lag", "6"],
        ["topic", "partition", "committed", "start", "end", "lag", "used", "member", "alert"],
        [topic, "0", "4", "0", "10", "6", "-", "-"],
    ]


def test_a_member_is_named_even_where_nothing_is_committed(runnel, bootstrap, producer, topic, name):
    producer.produce(topic, b"")
    with Consumer(bootstrap, topic, group=name, follow=True) as consumer:
        next(iter(consumer))
        assert rows(runnel("groups", "describe", name).out)[0::2] == [
            [name, "stable", "1", "member", "lag", "0"],
            [topic, "0", "-", "-", "-", "-", "-", "runnel"],
        ]


def test_a_group_near_to_loss_is_marked(runnel, behind, topic, by_bytes):
    by_bytes(0.6)
    assert rows(runnel("groups", "describe", behind).out)[2] == [
        topic, "0", "4", "0", "10", "6", "60%", "-", "near", "loss",
    ]  # fmt: skip
    assert rows(runnel("groups", "describe", behind, "--alert", 0.7).out)[2] == [
        topic, "0", "4", "0", "10", "6", "60%", "-",
    ]  # fmt: skip


def test_a_group_that_has_lost_records_is_marked(runnel, admin, behind, topic):
    admin.delete_records(topic, {0: 7})
    assert rows(runnel("groups", "describe", behind).out)[2][-2:] == ["lost", "3"]


def test_a_group_is_described_as_json(runnel, admin, behind, topic, by_bytes):
    by_bytes(0.6)
    (described,) = json.loads(runnel("groups", "describe", behind, "--json").out)
    (partition,) = described.pop("partitions")
    assert described == {"group": behind, "state": "empty", "assignor": "", "members": [], "lag": 6}
    assert partition.pop("used_bytes") == pytest.approx(0.6, abs=0.01)
    assert partition == {
        "group": behind, "topic": topic, "partition": 0, "committed": 4, "start": 0, "end": 10, "lag": 6, "lost": 0,
        "used_time": None, "near_loss": True, "stable": None, "held": 0, "held_by": None,
    }  # fmt: skip


@pytest.mark.parametrize("arguments", ["describe", "delete", "reset --topic TOPIC --to earliest", "watch"])
def test_an_unknown_group_is_told(runnel, topic, name, arguments):
    verb, *rest = arguments.replace("TOPIC", topic).split()
    result = runnel("groups", verb, f"{name}-none", *rest)
    assert result == (1, "", f'error: there is no group "{name}-none"\nhint: {NO_SUCH}\n')


@pytest.mark.parametrize("arguments", ["describe", "delete", "reset --topic TOPIC --to earliest", "watch"])
def test_what_cannot_be_the_name_of_a_group_is_unknown(runnel, topic, arguments):
    verb, *rest = arguments.replace("TOPIC", topic).split()
    result = runnel("groups", verb, "\udcff", *rest)
    assert (result.code, result.out) == (1, "")
    assert "there is no group" in result.err


# --- reset and delete


@pytest.mark.parametrize(("to", "offset"), [("earliest", 0), ("latest", 10), ("7", 7), ("1d", 0)])
def test_a_group_is_reset(runnel, admin, behind, topic, to, offset):
    result = runnel("groups", "reset", behind, "--topic", topic, "--to", to)
    assert (result.code, result.err) == (0, "")
    assert rows(result.out) == [["topic", "partition", "before", "after"], [topic, "0", "4", str(offset)]]
    assert Groups(admin).committed(behind) == {(topic, 0): offset}


def test_a_reset_is_told_as_json(runnel, behind, topic):
    result = runnel("groups", "reset", behind, "--topic", topic, "--to", "latest", "--json")
    assert json.loads(result.out) == {
        "group": behind, "partitions": [{"topic": topic, "partition": 0, "before": 4, "after": 10}],
    }  # fmt: skip


def test_a_group_at_work_is_neither_reset_nor_deleted(runnel, bootstrap, admin, behind, topic):
    told = (1, "", f'error: group "{behind}" has 1 member at work\nhint: stop its consumers, then try again\n')
    with Consumer(bootstrap, topic, group=behind, follow=True) as consumer:
        next(iter(consumer))
        assert runnel("groups", "reset", behind, "--topic", topic, "--to", "earliest") == told
        assert runnel("groups", "delete", behind) == told
    assert Groups(admin).committed(behind) == {(topic, 0): 4}


def test_a_reset_to_what_is_not_there_is_refused(runnel, admin, behind, topic):
    assert runnel("groups", "reset", behind, "--topic", topic, "--to", 11) == (
        1,
        "",
        f"error: offset 11 of partition {topic}-0 is outside of 0..10\n"
        "hint: records before 0 were deleted by retention or on request; the next one gets 10\n",
    )
    unknown = runnel("groups", "reset", behind, "--topic", f"{topic}-none", "--to", "earliest")
    assert unknown.err.startswith(f'error: there is no topic "{topic}-none"\n')
    wrong = runnel("groups", "reset", behind, "--topic", topic, "--to", "soon")
    assert wrong.code == 2
    assert "Invalid value for '--to': \"soon\" is no place to start from" in wrong.err


def test_a_group_that_is_named_twice_is_deleted_once(runnel, behind):
    assert runnel("groups", "delete", behind, behind) == (0, f'deleted group "{behind}"\n', "")


def test_a_group_is_deleted(runnel, admin, behind):
    assert runnel("groups", "delete", behind) == (0, f'deleted group "{behind}"\n', "")
    assert behind not in [group.name for group in Groups(admin).list()]


# --- watch


@pytest.fixture
def looks(monkeypatch):
    """What happens between two looks, in order; then the user presses Ctrl-C."""
    events = []

    def wait(seconds):
        if not events:
            raise KeyboardInterrupt
        events.pop(0)()

    monkeypatch.setattr(command, "wait", wait)
    return events


def near(group, topic, used):
    return (
        f'group "{group}" is near to losing records: topic "{topic}" partition 0, lag 6, {used} of the retention used\n'
    )


def test_watch_ends_with_3_when_a_group_comes_near_to_loss(runnel, behind, topic, by_bytes, looks):
    by_bytes(0.1)
    looks += [lambda: None, lambda: by_bytes(0.6)]
    assert runnel("groups", "watch", behind) == (3, near(behind, topic, "60%"), "")
    assert looks == []


def test_watch_goes_on_while_all_is_well(runnel, behind, by_bytes, looks):
    by_bytes(0.1)
    assert runnel("groups", "watch", behind) == (130, "", "")


def test_watch_watches_all_groups_if_none_is_named(runnel, behind, topic, by_bytes, looks):
    by_bytes(0.95)
    result = runnel("groups", "watch", "--alert", 0.9)
    assert result.code == 3
    assert near(behind, topic, "95%") in result.out


def test_watch_tells_programs_in_json(runnel, behind, topic, by_bytes, looks):
    by_bytes(0.6)
    result = runnel("groups", "watch", behind, "--json")
    told = json.loads(result.out)
    assert (told["group"], told["topic"], told["lag"], told["near_loss"]) == (behind, topic, 6, True)
    assert result.code == 3


def test_watch_calls_a_command_once_each_time_it_happens(runnel, behind, topic, by_bytes, looks, tmp_path):
    calls = tmp_path / "calls"
    by_bytes(0.6)
    looks += [lambda: None, lambda: by_bytes(0.1), lambda: by_bytes(0.7)]
    run = f'echo "$RUNNEL_GROUP $RUNNEL_TOPIC $RUNNEL_PARTITION $RUNNEL_LAG $RUNNEL_LOST $RUNNEL_USED" >> {calls}'
    result = runnel("groups", "watch", behind, "--run", run)
    assert (result.code, result.err) == (130, "")
    assert result.out == near(behind, topic, "60%") + near(behind, topic, "70%")
    first, second = calls.read_text().splitlines()
    assert first.split()[:5] == second.split()[:5] == [behind, topic, "0", "6", "0"]
    assert float(first.split()[5]) == pytest.approx(0.6, abs=0.01)


def test_watch_tells_of_a_command_that_fails_and_goes_on(runnel, behind, by_bytes, looks):
    by_bytes(0.6)
    result = runnel("groups", "watch", behind, "--run", "exit 7")
    assert result.code == 130
    assert result.err == "error: the command ended with exit code 7: exit 7\n"


INTERVALS = ["--interval 0", "--interval soon", "--interval nan", "--interval inf", "--interval 1e300"]


@pytest.mark.parametrize("arguments", ["--alert 1.5", "--alert -0.1", "--alert nan", *INTERVALS])
def test_options_that_do_not_fit_are_wrong_usage(runnel, arguments):
    result = runnel("groups", "watch", *arguments.split())
    assert (result.code, result.out) == (2, "")
    assert f"\nError: Invalid value for '{arguments.split()[0]}': " in result.err
