"""`runnel produce` as its users see it: what is written, what is told, and the exit code."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from runnel.client import Consumer

RUNNEL = [sys.executable, "-c", "from runnel.cli import main; main()"]


def records(bootstrap, topic):
    with Consumer(bootstrap, topic) as consumer:
        return list(consumer)


def pairs(bootstrap, topic):
    return [(record.key, record.value) for record in records(bootstrap, topic)]


def test_each_line_is_a_record_without_its_line_feed(runnel, bootstrap, topic):
    result = runnel("produce", topic, stdin=b"a\n\n  b\r\n\xff\x00\nlast")
    assert result == (0, f'5 records were written to topic "{topic}"\n', "")
    assert pairs(bootstrap, topic) == [
        (None, b"a"),
        (None, b""),
        (None, b"  b\r"),
        (None, b"\xff\x00"),
        (None, b"last"),
    ]


def test_an_empty_input_writes_nothing(runnel, topic):
    assert runnel("produce", topic) == (0, f'0 records were written to topic "{topic}"\n', "")


def test_a_file_is_read(runnel, bootstrap, topic, tmp_path):
    (tmp_path / "lines").write_bytes(b"a\n")
    assert runnel("produce", topic, "--file", tmp_path / "lines").out == f'1 record was written to topic "{topic}"\n'
    assert pairs(bootstrap, topic) == [(None, b"a")]


def test_a_missing_file_is_wrong_usage(runnel, topic, tmp_path):
    result = runnel("produce", topic, "--file", tmp_path / "none")
    assert (result.code, result.out) == (2, "")
    assert "Invalid value for '--file'" in result.err


def test_keys_headers_and_a_partition(runnel, bootstrap, wide):
    given = ("--key", "k", "--header", "a=1", "--header", "b=x=y", "--partition", 2)
    assert runnel("produce", wide, *given, stdin=b"v\n").code == 0
    (record,) = records(bootstrap, wide)
    assert (record.partition, record.key, record.headers) == (2, b"k", (("a", b"1"), ("b", b"x=y")))


def test_a_key_stands_before_the_separator(runnel, bootstrap, topic):
    assert runnel("produce", topic, "--key-separator", "::", stdin=b"k::v::w\n::\n").code == 0
    assert pairs(bootstrap, topic) == [(b"k", b"v::w"), (b"", b"")]


def test_a_compacted_topic_refuses_what_has_no_key_and_it_is_told_how_to_give_one(runnel, topic):
    compacted = f"{topic}-compacted"
    assert runnel("topics", "create", compacted, "--config", "cleanup.policy=compact").code == 0
    result = runnel("produce", compacted, stdin=b"a\nb\n")
    assert (result.code, result.out) == (1, "")
    assert "hint: if the topic is compacted, as that of a table, its records need keys" in result.err
    assert runnel("produce", compacted, "--key-separator", ":", stdin=b"k:a\n").code == 0


def test_a_bad_line_is_told_with_its_number_and_what_was_written(runnel, bootstrap, topic):
    result = runnel("produce", topic, "--key-separator", ":", stdin=b"a:1\nb:2\nc\nd:4\n")
    assert result == (
        1,
        "",
        'error: line 3 is no record: there is no ":" in it, which would end its key; 2 records were written\n'
        "hint: correct it, and write from that line on\n",
    )
    assert pairs(bootstrap, topic) == [(b"a", b"1"), (b"b", b"2")]


def test_a_record_that_is_too_large_is_told_with_what_was_written(runnel, bootstrap, admin, topic):
    result = runnel("produce", topic, stdin=b"a\n" + bytes(2_000_000) + b"\nb\n")
    assert result == (
        1,
        "",
        f'error: a record for topic "{topic}" is too large: Message size too large; 1 record was written\n'
        "hint: send smaller records, or raise the topic's max.message.bytes and the producer's message.max.bytes\n",
    )


@pytest.mark.parametrize(("limit", "size"), [("1048588", 1_048_500), ("3000000", 2_000_000)])
def test_a_record_may_be_as_large_as_the_topic_takes(runnel, bootstrap, admin, topic, limit, size):
    admin.alter(topic, configs={"max.message.bytes": limit})
    result = runnel("produce", topic, stdin=b"a\n" + bytes(size) + b"\nb\n")
    assert result == (0, f'3 records were written to topic "{topic}"\n', "")
    assert [len(record.value) for record in records(bootstrap, topic)] == [1, size, 1]


def test_a_record_that_the_broker_refuses_is_told_with_what_was_written(runnel, admin, topic):
    admin.alter(topic, configs={"max.message.bytes": "1000"})
    result = runnel("produce", topic, stdin=bytes(2_000) + b"\n")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f'error: 1 record was not written: a record for topic "{topic}" is too large: ')
    assert result.err.splitlines()[0].endswith("; 0 records were written")


class Endless(io.RawIOBase):
    """A line that is too large, and then lines for as long as somebody reads them: a minute at most."""

    def __init__(self) -> None:
        self.first = bytes(2_000) + b"\n"
        self.end = time.monotonic() + 60

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        line, self.first = self.first or b"x\n", b""
        if time.monotonic() > self.end:
            return 0
        buffer[: len(line)] = line
        return len(line)


def test_it_stops_at_the_first_record_that_is_refused(runnel, admin, topic):
    admin.alter(topic, configs={"max.message.bytes": "1000"})
    lines = Endless()
    result = runnel("produce", topic, stdin=lines)
    assert result.code == 1
    assert "not written: a record for topic" in result.err
    assert time.monotonic() < lines.end


def test_an_unknown_topic_is_told_and_not_created(runnel, admin, name):
    assert runnel("produce", name, stdin=b"a\n") == (
        1,
        "",
        f'error: there is no topic "{name}"\n'
        "hint: `runnel topics list` shows those that are there, `runnel topics create` makes one\n",
    )
    assert name not in [topic.name for topic in admin.topics()]


def test_an_unknown_partition_is_told(runnel, wide):
    assert runnel("produce", wide, "--partition", 3) == (
        1,
        "",
        f'error: topic "{wide}" has no partition 3\nhint: its partitions are 0 to 2\n',
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--key a --key-separator :", "keys are given by --key or by --key-separator, not by both."),
        ("--json --key a", "lines in JSON have keys and headers of their own."),
        ("--header a", "Invalid value for '--header': 'a' is not of the form NAME=VALUE."),
        ("--header \udcff=b", "Invalid value for '--header': the name of a header is text."),
        ("--partition -1", "Invalid value for '--partition': "),
        ("--key-separator=", "Invalid value for '--key-separator': it cannot be empty."),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(runnel, topic, arguments, text):
    result = runnel("produce", topic, *arguments.split(" "))
    assert (result.code, result.out) == (2, "")
    assert text in result.err


def test_what_consume_prints_as_json_can_be_written_again(runnel, bootstrap, producer, admin, kept, wide):
    admin.alter(wide, configs={"retention.ms": "-1"})
    producer.produce(kept, b"\xff", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp=1_700_000_000_000)
    producer.produce(kept, None, timestamp=1_700_000_000_001)
    lines = runnel("consume", kept, "--json").out
    result = runnel("produce", wide, "--partition", 1, "--json", stdin=lines.encode())
    assert json.loads(result.out) == {
        "topic": wide, "written": 2, "partitions": [{"partition": 1, "last_offset": 1}],
    }  # fmt: skip
    assert [record[2:] for record in records(bootstrap, wide)] == [record[2:] for record in records(bootstrap, kept)]


def test_a_bad_line_of_json_is_told(runnel, topic):
    result = runnel("produce", topic, "--json", stdin=b'{"value": "a"}\n{"vlaue": "b"}\n')
    assert result.err == (
        'error: line 2 is no record: it has a field "vlaue", known are headers, key, offset, partition, timestamp, '
        "topic, value; 1 record was written\nhint: correct it, and write from that line on\n"
    )
    assert result.code == 1


def test_ctrl_c_writes_what_was_read_and_tells_how_much(bootstrap, topic):
    command = [*RUNNEL, "produce", topic, "--bootstrap", bootstrap]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"a\n")
    process.stdin.flush()
    with Consumer(bootstrap, topic, follow=True) as consumer:
        assert next(iter(consumer)).value == b"a"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"stopped: 1 record was written\n")


def test_a_terminal_shows_the_progress(bootstrap, topic, tmp_path):
    (tmp_path / "lines").write_bytes(b"a\n" * 1_000)
    terminal, its_end = pty.openpty()
    command = [*RUNNEL, "produce", topic, "--file", str(tmp_path / "lines"), "--bootstrap", bootstrap]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=its_end, check=False)
    os.close(its_end)
    shown = os.read(terminal, 100_000)
    os.close(terminal)
    assert b"writing" in shown
    assert result.stdout.startswith(b"1,000 records were written")
