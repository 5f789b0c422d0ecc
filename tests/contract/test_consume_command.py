"""`runnel consume` as its users see it: what is printed, what is committed, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from runnel.client import Groups

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
RUNNEL = [sys.executable, "-c", "from runnel.cli import main; main()"]


@pytest.fixture
def five(producer, kept):
    for number in range(5):
        producer.send(kept, b"%d" % number, timestamp=1_700_000_000_000 + number * 1_000)
    producer.flush()
    return kept


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ("", "01234"),
        ("--from earliest", "01234"),
        ("--from latest", ""),
        ("--from 3", "34"),
        ("--from 5", ""),
        ("--from 2023-11-14T22:13:22Z", "234"),
        ("--from 2023-11-14T23:13:22+01:00", "234"),
        ("--from 2023-11-14T22:13:22.5", "34"),
        ("--from 1h", ""),
        ("--limit 2", "01"),
        ("--limit 2 --from 3", "34"),
        (f"--limit {2**64}", "01234"),
        ("--follow --limit 5", "01234"),
        ("--partition 0", "01234"),
    ],
)
def test_it_prints_values_from_where_it_is_told_to(runnel, five, arguments, printed):
    assert runnel("consume", five, *arguments.split()) == (0, "".join(f"{value}\n" for value in printed), "")


def test_what_is_no_text_is_shown_in_hexadecimal(runnel, producer, topic):
    for value in (b"gr\xc3\xbcn", b"\xff\x00", b"\x1b[2J", None, b""):
        producer.produce(topic, value)
    assert runnel("consume", topic).out == "grün\nhex ff00\nhex 1b5b324a\nnone\n\n"


def test_json_has_all_of_a_record(runnel, producer, kept):
    producer.produce(kept, b"\xff", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp=1_700_000_000_000)
    assert json.loads(runnel("consume", kept, "--json").out) == {
        "topic": kept,
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["h", "1"], ["n", None]],
    }


def test_a_group_prints_each_record_once(runnel, admin, five, name):
    assert runnel("consume", five, "--group", name, "--limit", 2).out == "0\n1\n"
    assert runnel("consume", five, "--group", name).out == "2\n3\n4\n"
    assert runnel("consume", five, "--group", name) == (0, "", "")
    assert Groups(admin).committed(name) == {(five, 0): 5}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_ctrl_c_and_sigterm_end_it_with_what_was_printed_committed(bootstrap, admin, five, name, number, code):
    command = [*RUNNEL, "consume", five, "--group", name, "--follow", "--bootstrap", bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=BUFFERED)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(5)] == [b"0\n", b"1\n", b"2\n", b"3\n", b"4\n"]
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (code, b"", b"")
    assert Groups(admin).committed(name) == {(five, 0): 5}
    assert Groups(admin).describe(name).members == ()


def test_a_reader_that_has_had_enough_is_no_error(bootstrap, five):
    command = [*RUNNEL, "consume", five, "--follow", "--bootstrap", bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    process.send_signal(signal.SIGINT)  # it waits for records, and has not noticed yet
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in (1, 130)


def test_an_unknown_topic_is_told_and_not_created(runnel, admin, name):
    assert runnel("consume", name) == (
        1,
        "",
        f'error: there is no topic "{name}"\n'
        "hint: `runnel topics list` shows those that are there, `runnel topics create` makes one\n",
    )
    assert name not in [topic.name for topic in admin.topics()]


def test_an_unknown_partition_is_told(runnel, topic):
    assert runnel("consume", topic, "--partition", 1) == (
        1,
        "",
        f'error: topic "{topic}" has no partition 1\nhint: its partitions are 0 to 0\n',
    )


def test_an_offset_that_is_not_there_is_told(runnel, admin, five):
    admin.delete_records(five, {0: 2})
    assert runnel("consume", five, "--from", 1) == (
        1,
        "",
        f"error: offset 1 of partition {five}-0 is outside of 2..5\n"
        "hint: records before 2 were deleted by retention or on request; the next one gets 5\n",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--from yesterday", "Invalid value for '--from': \"yesterday\" is no place to start from: expected earliest,"),
        ("--limit 0", "Invalid value for '--limit': "),
        ("--group g --partition 0", "a group chooses the partitions of its members: leave one of them out."),
        ("--group=", "Invalid value for '--group': a group has a name, which is text."),
        ("--group \udcff", "Invalid value for '--group': a group has a name, which is text."),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(runnel, topic, arguments, text):
    result = runnel("consume", topic, *arguments.split(" "))
    assert (result.code, result.out) == (2, "")
    assert text in result.err
