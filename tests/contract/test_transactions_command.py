"""`runnel transactions` as its users see it, and what `runnel groups describe` tells of one that holds readers back."""

from __future__ import annotations

import json
import re

import pytest

from runnel.client import Consumer, Transactions

HANGING_PRODUCER = 987_655
NO_SUCH = "`runnel transactions list` shows those that are there"
DURATION = r"\d+ (?:ms|s|min)(?: \d+ s)?"


def error(what: str, hint: str) -> tuple[int, str, str]:
    return 1, "", f"error: {what}\nhint: {hint}\n"


def rows(text: str) -> list[list[str]]:
    """The cells of a table, which are at least two spaces apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def row_of(text: str, first: str) -> list[str]:
    return next(row for row in rows(text) if row[0] == first)


# --- list and describe


def test_transactions_are_listed(runnel, admin, wide, open_transaction):
    begun = open_transaction(wide, 0, 1)
    result = runnel("transactions", "list")
    assert (result.code, result.err) == (0, "")
    assert rows(result.out)[0] == ["transaction", "state", "producer", "epoch", "partitions", "open for"]
    known = Transactions(admin).describe(begun.id)
    *row, open_for = row_of(result.out, begun.id)
    assert row == [begun.id, "ongoing", str(known.producer_id), str(known.epoch), "2"]
    assert re.fullmatch(DURATION, open_for)


def test_transactions_are_listed_as_json(runnel, admin, wide, open_transaction):
    begun = open_transaction(wide, 1, timeout=31_000)
    known = Transactions(admin).describe(begun.id)
    (listed,) = [each for each in json.loads(runnel("transactions", "list", "--json").out)
                 if each["transaction"] == begun.id]  # fmt: skip
    assert listed.pop("open_ms") >= 0
    assert listed == {
        "transaction": begun.id, "state": "ongoing", "producer_id": known.producer_id, "epoch": known.epoch,
        "timeout_ms": 31_000, "started": known.started, "partitions": [{"topic": wide, "partition": 1}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "is_listed"),
    [
        ("--state ongoing", True),
        ("--state ongoing --state empty", True),
        ("--state empty", False),
        ("--open-longer-than 0s", True),
        ("--open-longer-than 0s --state ongoing", True),
        ("--open-longer-than 1d", False),
        ("--open-longer-than 0s --state complete-commit", False),
    ],
)
def test_transactions_are_listed_by_state_and_by_how_long_they_are_open(
    runnel, topic, open_transaction, options, is_listed
):
    begun = open_transaction(topic, 0)
    listed = json.loads(runnel("transactions", "list", *options.split(), "--json").out)
    assert (begun.id in [each["transaction"] for each in listed]) is is_listed


def test_one_that_is_committed_is_not_open_however_long_ago_it_began(runnel, topic, open_transaction):
    begun = open_transaction(topic, 0)
    begun.client.commit_transaction(60)
    listed = json.loads(runnel("transactions", "list", "--state", "complete-commit", "--json").out)
    while begun.id not in [each["transaction"] for each in listed]:  # its markers are on their way
        listed = json.loads(runnel("transactions", "list", "--state", "complete-commit", "--json").out)
    (own,) = [each for each in listed if each["transaction"] == begun.id]
    assert (own["started"], own["open_ms"], own["partitions"]) == (None, None, [])
    result = runnel("transactions", "list", "--open-longer-than", "0s")
    assert begun.id not in result.out


def test_a_transaction_is_described(runnel, admin, wide, open_transaction):
    begun = open_transaction(wide, 2, 0, timeout=90_000)
    known = Transactions(admin).describe(begun.id)
    result = runnel("transactions", "describe", begun.id)
    assert (result.code, result.err) == (0, "")
    head, *table = rows(result.out)
    assert head[:4] == [
        begun.id, "ongoing", f"producer {known.producer_id} epoch {known.epoch}", "time-out 1 min 30 s",
    ]  # fmt: skip
    assert re.fullmatch(rf"open since \d{{4}}-\d\d-\d\dT[0-9:.]+Z \({DURATION}\)", head[4])
    assert table == [["topic", "partition"], [wide, "0"], [wide, "2"]]
    (described,) = json.loads(runnel("transactions", "describe", begun.id, "--json").out)
    assert (described["transaction"], described["timeout_ms"]) == (begun.id, 90_000)


def test_an_unknown_transaction_is_told(runnel, name):
    told = error(f'there is no transactional id "{name}"', NO_SUCH)
    assert runnel("transactions", "describe", name) == told
    assert runnel("transactions", "abort", name) == told


# --- producers


def test_the_producers_of_a_topic_are_shown_with_their_open_transactions(
    runnel, admin, producer, wide, open_transaction
):
    producer.produce(wide, b"before", partition=1)
    begun = open_transaction(wide, 1)
    known = Transactions(admin).describe(begun.id)
    result = runnel("transactions", "producers", wide)
    assert (result.code, result.err) == (0, "")
    assert rows(result.out)[0] == [
        "partition", "producer", "epoch", "last sequence", "last write", "open from", "transaction", "open for",
    ]  # fmt: skip
    (writing,) = [row for row in rows(result.out) if begun.id in row]
    assert (writing[0], writing[1], writing[3], writing[5]) == ("1", str(known.producer_id), "0", "1")
    (plain,) = [row for row in rows(result.out)[1:] if begun.id not in row]
    assert plain[5:] == ["-", "-", "-"]
    assert runnel("transactions", "producers", wide, "--partition", 0) == (0, "no producers\n", "")


def test_producers_are_shown_as_json(runnel, admin, topic, open_transaction):
    begun = open_transaction(topic, 0)
    known = Transactions(admin).describe(begun.id)
    (told,) = json.loads(runnel("transactions", "producers", topic, "--json").out)
    assert told.pop("last_timestamp") == told["open"].pop("last_timestamp") > 0
    assert told.pop("coordinator_epoch") == -1
    assert told == {
        "topic": topic, "partition": 0, "producer_id": known.producer_id, "epoch": known.epoch, "last_sequence": 0,
        "open": {
            "topic": topic, "partition": 0, "offset": 0, "producer_id": known.producer_id, "epoch": known.epoch,
            "transaction": begun.id, "since": known.started, "listed": True,
        },
    }  # fmt: skip


def test_a_partition_that_is_not_there_is_told(runnel, wide):
    told = error(f'topic "{wide}" has no partition 3', "its partitions are 0 to 2")
    assert runnel("transactions", "producers", wide, "--partition", 3) == told
    assert runnel("transactions", "hanging", "--topic", wide, "--partition", 3) == told
    assert runnel("transactions", "abort", "--topic", wide, "--partition", 3, "--offset", 0) == told


# --- abort


def test_an_open_transaction_is_aborted_by_its_id(runnel, admin, wide, open_transaction):
    begun = open_transaction(wide, 0, 1)
    assert runnel("transactions", "abort", begun.id) == (
        0, f'aborted transaction "{begun.id}" in 2 partitions; its producer is fenced\n', "",
    )  # fmt: skip
    again = runnel("transactions", "abort", begun.id)
    state = Transactions(admin).describe(begun.id).state
    assert again == error(
        f'"{begun.id}" has no open transaction that can be aborted: its state is {state}',
        "what is being committed or aborted already ends by itself; nothing else has to be ended",
    )


def test_an_abort_is_told_as_json(runnel, topic, open_transaction):
    begun = open_transaction(topic, 0)
    told = json.loads(runnel("transactions", "abort", begun.id, "--json").out)
    assert (told["transaction"], told["partitions"]) == (begun.id, [{"topic": topic, "partition": 0}])


@pytest.mark.parametrize(
    "arguments",
    ["", "x --topic y", "x --offset 1", "--topic y", "--partition 0 --offset 0", "--topic y --partition 0",
     "--topic y --partition 0 --offset 0 --producer 0", "--topic y --partition 0 --offset -1"],
)  # fmt: skip
def test_an_abort_of_nothing_in_particular_is_wrong_usage(runnel, arguments):
    result = runnel("transactions", "abort", *arguments.split())
    assert (result.code, result.out) == (2, "")
    assert "\nTry 'runnel transactions abort --help' for help.\n" in result.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            "list --state done",
            "'--state': 'done' is no state of a transaction: expected empty, ongoing, prepare-commit",
        ),
        ("list --open-longer-than soon", "'--open-longer-than': 'soon' is no duration: expected one such as 90s"),
        ("hanging --partition 0", "'--partition': a partition is one of a topic: give one --topic."),
        ("hanging --partition 0 --topic a --topic b", "'--partition': a partition is one of a topic"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(runnel, arguments, told):
    result = runnel("transactions", *arguments.split())
    assert (result.code, result.out) == (2, "")
    assert f"\nError: Invalid value for {told}" in result.err


# --- hanging


def test_hanging_transactions_are_found_and_ended(runnel, producer, topic, hang):
    producer.produce(topic, b"before")
    hang(topic, 0, HANGING_PRODUCER)
    result = runnel("transactions", "hanging", "--topic", topic)
    head, row = rows(result.out)
    assert head == ["topic", "partition", "offset", "producer", "epoch", "last write", "transaction"]
    assert row[:5] + row[6:] == [topic, "0", "1", str(HANGING_PRODUCER), "0", "-"]
    everywhere = json.loads(runnel("transactions", "hanging", "--json").out)
    (found,) = [each for each in everywhere if each["topic"] == topic]
    assert (found["offset"], found["transaction"], found["since"], found["listed"]) == (1, None, None, False)
    end = ("abort", "--topic", topic, "--partition", 0, "--offset", 1)
    assert runnel("transactions", *end) == (
        0, f"aborted the hanging transaction of producer {HANGING_PRODUCER} from offset 1 in {topic}-0\n", "",
    )  # fmt: skip
    assert runnel("transactions", "hanging", "--topic", topic) == (0, "no hanging transactions\n", "")
    assert runnel("transactions", *end) == error(
        f"{topic}-0 has no open transaction that begins at offset 1",
        "`runnel transactions producers TOPIC` shows those that are open",
    )


def test_a_transaction_that_does_not_hang_is_not_ended_by_its_place(runnel, admin, topic, open_transaction):
    begun = open_transaction(topic, 0)
    number = Transactions(admin).describe(begun.id).producer_id
    assert runnel("transactions", "abort", "--topic", topic, "--partition", 0, "--producer", number) == error(
        f'the transaction of producer {number} does not hang: it is that of "{begun.id}", '
        "and its coordinator knows that it is open",
        "end it in all its partitions with `runnel transactions abort ID`",
    )


# --- what holds a group back


@pytest.fixture
def reading(bootstrap, producer, topic, name):
    """A group that has read one record."""
    producer.produce(topic, b"before")
    with Consumer(bootstrap, topic, group=name) as consumer:
        assert len(list(consumer)) == 1
    return name


def test_a_group_is_shown_with_the_transaction_that_holds_it_back(
    runnel, admin, producer, topic, reading, open_transaction
):
    begun = open_transaction(topic, 0)
    producer.produce(topic, b"after")
    known = Transactions(admin).describe(begun.id)
    result = runnel("groups", "describe", reading)
    assert (result.code, result.err) == (0, "")
    _, _, lag, empty, head, row = rows(result.out)
    assert (lag[5], lag[6], empty) == ("2", "0%", [""])
    assert head == ["topic", "partition", "stable", "held back", "transaction", "producer", "open for"]
    assert row[:6] == [topic, "0", "1", "2", begun.id, str(known.producer_id)]
    assert re.fullmatch(DURATION, row[6])
    (described,) = json.loads(runnel("groups", "describe", reading, "--json").out)
    (partition,) = described["partitions"]
    assert (partition["stable"], partition["held"], partition["end"]) == (1, 2, 3)
    assert partition["held_by"]["transaction"] == begun.id
    assert partition["held_by"]["since"] == known.started


def test_a_group_is_shown_with_the_first_of_several_transactions(runnel, topic, reading, open_transaction):
    first = open_transaction(topic, 0)
    open_transaction(topic, 0)
    (described,) = json.loads(runnel("groups", "describe", reading, "--json").out)
    assert described["partitions"][0]["held_by"]["transaction"] == first.id


def test_a_group_that_a_hanging_transaction_holds_back_is_told_so(runnel, topic, reading, hang):
    hang(topic, 0, HANGING_PRODUCER)
    *_, row = rows(runnel("groups", "describe", reading).out)
    assert row == [topic, "0", "1", "1", "-", str(HANGING_PRODUCER), "hangs"]


def test_a_group_is_free_again_when_the_transaction_has_ended(runnel, topic, reading, open_transaction):
    begun = open_transaction(topic, 0)
    runnel("transactions", "abort", begun.id)
    (described,) = json.loads(runnel("groups", "describe", reading, "--json").out)
    (partition,) = described["partitions"]
    assert (partition["stable"], partition["held"], partition["held_by"]) == (None, 0, None)
    assert "held back" not in runnel("groups", "describe", reading).out
