"""`runnel log` as its users see it: what is printed where, and the exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runnel.records import TRANSACTIONAL, Codec, Producer, Record, build_batch, with_append_time
from tests.unit.log.data_directory import AUDIT, ORDERS, clean_directory, cut, filled, flip, segments_of

KINDS = ".log, .index, .timeindex, .txnindex, .snapshot, -offset-checkpoint, leader-epoch-checkpoint, synced-offsets"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return clean_directory(tmp_path / "data")


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Three batches: text of a producer, bytes in a transaction, and the log's own time."""
    path = tmp_path / "00000000000000000010.log"
    text = [Record("grüner Tee\n".encode(), b"k", 1_700_000_000_123), Record(None, headers=(("h", b"1"), ("n", None)))]
    raw = [Record(b"\xff\x00", b"\x1b[31m", 0)]
    batches = [
        build_batch(text, base_offset=10, leader_epoch=2, producer=Producer(7, 1, 5)),
        build_batch(raw, base_offset=12, leader_epoch=2, codec=Codec.ZSTD, attributes=TRANSACTIONAL),
        with_append_time(build_batch([Record(b"")], base_offset=13, leader_epoch=3), 1_700_000_000_000),
    ]
    path.write_bytes(b"".join(batches))
    return path


# --- verify


def test_verify_says_that_all_is_well(runnel, directory):
    sizes = sum(path.stat().st_size for path in directory.rglob("*.log"))
    segments = len(list(directory.rglob("*.log")))
    assert runnel("log", "verify", directory) == (
        0,
        f"no problems in 2 partitions, {segments} segments, 36 batches, 66 records, {sizes:,} bytes of {directory}\n",
        "",
    )


def test_verify_shows_each_problem_on_one_line_with_file_position_and_offset(runnel, directory):
    segment = segments_of(directory / ORDERS)[0]
    flip(segment, 15)
    (directory / "runnel-log.json.tmp").touch()
    result = runnel("log", "verify", directory)
    header, note, problem, empty, summary = (line.rstrip() for line in result.out.splitlines())
    assert header.split() == ["severity", "file", "position", "offset", "what"]
    assert note.split(maxsplit=2) == [
        "note", "runnel-log.json.tmp", "left over from an interrupted write; it is harmless",
    ]  # fmt: skip
    assert problem.split(maxsplit=4) == [
        "problem", f"{ORDERS}/{segment.name}", "0", "0",
        "batch with leader epoch 1, but leader-epoch-checkpoint says 0",
    ]  # fmt: skip
    assert empty == ""
    assert summary.startswith("1 problem, 1 note in 2 partitions, ")
    assert (result.code, result.err) == (1, "")


def test_notes_alone_are_no_failure(runnel, directory):
    (directory / "runnel-log.json.tmp").touch()
    result = runnel("log", "verify", directory)
    assert result.code == 0
    assert result.out.splitlines()[-1].startswith("no problems, 1 note in 2 partitions, ")


def test_verify_prints_json_for_programs(runnel, directory):
    flip(directory / AUDIT / "00000000000000000006.snapshot", 30)
    result = runnel("log", "verify", directory, "--json")
    report = json.loads(result.out)
    assert (result.code, result.err) == (1, "")
    assert report["is_well"] is False
    assert report["path"] == str(directory)
    assert report["totals"]["records"] == 66
    assert report["problems"] == [
        {
            "severity": "problem",
            "path": str(directory / AUDIT / "00000000000000000006.snapshot"),
            "position": 0,
            "offset": 6,
            "what": "producer snapshot of version 1 with a wrong checksum",
        }
    ]


def test_verify_refuses_a_directory_in_use_unless_it_is_forced(runnel, tmp_path):
    with filled(tmp_path / "data"):
        assert runnel("log", "verify", tmp_path / "data") == (
            1,
            "",
            f"error: data directory {tmp_path / 'data'} is in use by process {os.getpid()}\n"
            "hint: stop that process, or use another directory\n",
        )
        forced = runnel("log", "verify", tmp_path / "data", "--force")
    assert forced.code == 0
    assert f"is in use by process {os.getpid()}: what changed meanwhile may be told as a problem" in forced.out


def test_verify_of_a_missing_directory_says_what_to_name(runnel, tmp_path):
    assert runnel("log", "verify", tmp_path / "gone") == (
        1,
        "",
        f"error: {tmp_path / 'gone'} cannot be used as a data directory: No such file or directory\n"
        "hint: name a data directory, or the folder of a partition\n",
    )


def test_a_file_name_cannot_command_the_terminal(runnel, directory):
    (directory / "\x1b[2J").touch()
    result = runnel("log", "verify", directory)
    assert "\\x1b[2J" in result.out
    assert "\x1b" not in result.out


# --- dump


def test_dump_shows_batches_and_their_records(runnel, segment):
    result = runnel("log", "dump", segment)
    size, raw = 100, result.out.splitlines()[3].split("  ")[2]
    assert result.out.splitlines() == [
        f"offset 10 to 11  position 0  {size} bytes  2 records  2023-11-14T22:13:20.123Z  leader epoch 2"
        "  producer 7 epoch 1 sequence 5",
        '    10  2023-11-14T22:13:20.123Z  key "k"  value "grüner Tee\\n"',
        '    11  -1  key none  value none  header "h" "1"  header "n" none',
        f"offset 12 to 12  position {size}  {raw}  1 record  1970-01-01T00:00:00.000Z  leader epoch 2"
        "  zstd  transactional",
        "    12  1970-01-01T00:00:00.000Z  key hex 1b5b33316d  value hex ff00",
        f"offset 13 to 13  position {segment.stat().st_size - 68}  68 bytes  1 record"
        "  2023-11-14T22:13:20.000Z (append time)  leader epoch 3",
        '    13  2023-11-14T22:13:20.000Z  key none  value ""',
    ]
    assert (result.code, result.err) == (0, "")


def test_dump_leaves_the_records_out_and_stops_where_it_is_told(runnel, segment):
    lines = runnel("log", "dump", segment, "--no-records", "--offset", 12, "--limit", 1).out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["offset 12 to 12"]
    records = runnel("log", "dump", segment, "--offset", 11, "--limit", 1).out.splitlines()
    assert [line.split()[0] for line in records] == ["offset", "11"]


def test_dump_takes_a_limit_of_any_size(runnel, segment):
    assert runnel("log", "dump", segment, "--limit", 2**64) == runnel("log", "dump", segment)


def test_dump_prints_one_json_object_per_line(runnel, segment):
    result = runnel("log", "dump", segment, "--json")
    first, second, _ = map(json.loads, result.out.splitlines())
    assert first["records"] == [
        {"offset": 10, "timestamp": 1_700_000_000_123, "key": "k", "value": "grüner Tee\n", "headers": []},
        {"offset": 11, "timestamp": -1, "key": None, "value": None, "headers": [["h", "1"], ["n", None]]},
    ]
    assert second["records"][0]["value"] == {"base64": "/wA="}
    del first["records"], first["checksum"], first["size"]
    assert first == {
        "position": 0, "base_offset": 10, "last_offset": 11, "count": 2, "leader_epoch": 2, "codec": "none",
        "timestamp_type": "CreateTime", "base_timestamp": 1_700_000_000_123, "max_timestamp": 1_700_000_000_123,
        "producer_id": 7, "producer_epoch": 1, "base_sequence": 5, "transactional": False, "control": False,
    }  # fmt: skip
    assert "records" not in json.loads(runnel("log", "dump", segment, "--json", "--no-records").out.splitlines()[0])


def test_dump_shows_every_other_kind_of_file(runnel, directory):
    audit = directory / AUDIT
    shown = {
        audit / "00000000000000000000.timeindex": "timestamp 1700000000000  2023-11-14T22:13:20.000Z  offset 0\n",
        audit / "leader-epoch-checkpoint": "epoch 0  from offset 0\n",
        directory / "recovery-point-offset-checkpoint": "audit-0  offset 6\norders-0  offset 60\n",
        directory / "synced-offsets": "orders-0  offset 60\naudit-0  offset 6\n",
        audit / "00000000000000000006.snapshot": "producer 7 epoch 1  2023-11-14T22:13:20.000Z\n"
        + "".join(f"    sequence {number} to {number}  offset {number} to {number}\n" for number in range(1, 6)),
    }
    for path, text in shown.items():
        assert runnel("log", "dump", path) == (0, text, "")
    index = runnel("log", "dump", audit / "00000000000000000000.index", "--json")
    assert json.loads(index.out).keys() == {"position", "offset", "batch_position"}
    producer = json.loads(runnel("log", "dump", audit / "00000000000000000006.snapshot", "--json").out)
    assert producer["batches"][4] == {
        "last_sequence": 5, "last_offset": 5, "offset_delta": 0, "timestamp": 1_700_000_000_000,
    }  # fmt: skip


def test_dump_prints_what_stands_before_the_damage_and_names_it(runnel, segment):
    flip(segment, 100 + 16)
    result = runnel("log", "dump", segment)
    assert len(result.out.splitlines()) == 3
    assert result.err == (
        f"error: {segment} is damaged at position 100: batch of format 3, only format 2 is known\n"
        "hint: what stands before it is whole\n"
    )
    assert result.code == 1


def test_dump_of_a_truncated_file_prints_what_is_whole(runnel, segment):
    cut(segment, -1)
    result = runnel("log", "dump", segment, "--json")
    assert len(result.out.splitlines()) == 2
    assert "bytes in 67 that are left" in result.err
    assert result.code == 1


@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("gone.log", "there is no such file", ""),
        ("folder", "it is a directory", "name one of its files, or check all of them with `runnel log verify`"),
        ("letter.txt", "its name is of no kind that is known", f"files that can be shown end in {KINDS}"),
    ],
)
def test_dump_of_what_is_no_file_of_a_log_says_so(runnel, tmp_path, name, reason, hint):
    (tmp_path / "folder").mkdir()
    (tmp_path / "letter.txt").touch()
    error = f"error: {tmp_path / name} cannot be shown: {reason}\n" + (f"hint: {hint}\n" if hint else "")
    assert runnel("log", "dump", tmp_path / name) == (1, "", error)


def test_dump_begins_at_an_offset_only_where_there_are_some(runnel, directory):
    result = runnel("log", "dump", directory / "synced-offsets", "--offset", 3)
    assert (result.code, result.out) == (2, "")
    assert "Invalid value for --offset: only .log files and indexes have offsets" in result.err
