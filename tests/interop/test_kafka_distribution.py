"""The judge of our files must be able to say no: it sees every kind of damage, and none where none is."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

from tests.interop.kafka_distribution import (
    PARTS,
    VERSION,
    Dump,
    KafkaUnavailable,
    class_archive,
    compiled,
    dump_segments,
    java_command,
    kafka_classpath,
)

BASE = 40
RECORDS = 3
FIRST_OFFSETS = (40, 43, 46)
TIME = 1_700_000_000_000
MAGIC_AT = 16
VALUE_AT = 80
LAST_OFFSET_OF_BASE_AT = 7

Files = dict[str, bytes]
Damage = Callable[[bytes], bytes]


def batch(first_offset: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=first_offset - BASE,
        batch_size=1 << 16,
    )
    for number in range(RECORDS):
        builder.append(number, TIME + first_offset + number, b"key", b"a value of some length", [])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, first_offset)
    return bytes(built)


def snapshot(tail: bytes = b"") -> bytes:
    last = FIRST_OFFSETS[-1] + RECORDS - 1
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 0, last - BASE, last, RECORDS - 1, TIME + last, -1, -1)
    return struct.pack(">hI", 1, crc32c(body + tail)) + body + tail


def good_files() -> Files:
    log = index = times = b""
    for first in FIRST_OFFSETS:
        last = first + RECORDS - 1
        if first != BASE:
            index += struct.pack(">ii", last - BASE, len(log))
        times += struct.pack(">qi", TIME + last, last - BASE)
        log += batch(first)
    aborted = struct.pack(">hqqqq", 0, 7, 41, 45, 46)
    return {".log": log, ".index": index, ".timeindex": times, ".txnindex": aborted, ".snapshot": snapshot()}


def write(directory: Path, files: Files, base: int = BASE) -> list[Path]:
    paths = []
    for suffix, content in files.items():
        path = directory / f"{base:020}{suffix}"
        path.write_bytes(content)
        paths.append(path)
    return paths


def flip(position: int) -> Damage:
    def damage(content: bytes) -> bytes:
        damaged = bytearray(content)
        damaged[position] ^= 1
        return bytes(damaged)

    return damage


def cut(length: int) -> Damage:
    return lambda content: content[:-length]


def extend(tail: bytes) -> Damage:
    return lambda content: content + tail


def swap(size: int) -> Damage:
    return lambda content: content[size : 2 * size] + content[:size] + content[2 * size :]


@pytest.mark.servers
def test_nothing_is_wrong_with_good_files(tmp_path):
    assert dump_segments(write(tmp_path, good_files())).problems == []


@pytest.mark.servers
def test_every_batch_and_record_of_a_good_log_is_read(tmp_path):
    log = write(tmp_path, good_files())[0]
    lines = dump_segments([log]).lines_of(log)
    assert sum(line.startswith("baseOffset: ") for line in lines) == len(FIRST_OFFSETS)
    assert sum(line.startswith("| offset: ") for line in lines) == len(FIRST_OFFSETS) * RECORDS


@pytest.mark.servers
def test_nothing_is_wrong_with_a_segment_that_holds_nothing(tmp_path):
    nobody = struct.pack(">hIi", 1, crc32c(bytes(4)), 0)
    files = {".log": b"", ".index": b"", ".timeindex": b"", ".snapshot": nobody}
    assert dump_segments(write(tmp_path, files)).problems == []


@pytest.mark.servers
def test_a_snapshot_may_carry_more_bytes_after_its_producers_if_the_checksum_covers_them(tmp_path):
    assert dump_segments(write(tmp_path, {".snapshot": snapshot(tail=b"more")})).problems == []


@pytest.mark.servers
@pytest.mark.parametrize(
    ("suffix", "damage", "told"),
    [
        pytest.param(".log", flip(VALUE_AT), "isvalid: false", id="log, bit of a value"),
        pytest.param(".log", flip(MAGIC_AT), "magic: 3", id="log, bit of the format's version"),
        pytest.param(".log", flip(LAST_OFFSET_OF_BASE_AT), "is followed by", id="log, bit of a base offset"),
        pytest.param(".log", cut(10), "invalid bytes at the end", id="log, torn batch"),
        pytest.param(".log", extend(b"abc"), "3 invalid bytes at the end", id="log, garbage at the end"),
        pytest.param(".log", extend(bytes(64)), "CorruptRecordException", id="log, zeros at the end"),
        pytest.param(".index", flip(3), "Index offset: 44, log offset: 45", id="index, bit of an offset"),
        pytest.param(".index", flip(7), "Exception", id="index, bit of a position"),
        pytest.param(".index", swap(8), "follows offset", id="index, entries out of order"),
        pytest.param(".index", extend(bytes(8)), "only 16 are entries", id="index, zeros at the end"),
        pytest.param(".index", extend(b"abc"), "only 16 are entries", id="index, torn entry"),
        pytest.param(".timeindex", flip(7), "timestamp mismatch", id="time index, bit of a timestamp"),
        pytest.param(".timeindex", flip(11), "Indexed offset", id="time index, bit of an offset"),
        pytest.param(".timeindex", swap(12), "out of order timestamp", id="time index, entries out of order"),
        pytest.param(".timeindex", extend(bytes(12)), "only 36 are entries", id="time index, zeros at end"),
        pytest.param(".timeindex", cut(5), "only 24 are entries", id="time index, torn entry"),
        pytest.param(".txnindex", flip(0), "Exception", id="transaction index, bit of the version"),
        pytest.param(".txnindex", extend(b"abc"), "only 34 are entries", id="transaction index, torn entry"),
        pytest.param(".snapshot", flip(20), "CRC is no longer valid", id="snapshot, bit of a producer"),
        pytest.param(".snapshot", flip(3), "CRC is no longer valid", id="snapshot, bit of the checksum"),
        pytest.param(".snapshot", flip(0), "failed schema validation", id="snapshot, bit of the version"),
        pytest.param(".snapshot", cut(1), "failed schema validation", id="snapshot, torn"),
        pytest.param(".snapshot", extend(b"more"), "CRC is no longer valid", id="snapshot, uncovered tail"),
    ],
)
def test_damage_is_told(tmp_path, suffix, damage, told):
    files = good_files()
    files[suffix] = damage(files[suffix])
    problems = dump_segments(write(tmp_path, files)).problems
    assert any(told in problem for problem in problems), problems


@pytest.mark.servers
def test_a_gap_between_batches_is_told_unless_gaps_are_allowed(tmp_path):
    paths = write(tmp_path, {".log": batch(40) + batch(46)})
    assert dump_segments(paths).problems == [f"{paths[0]}: 42 is followed by 46"]
    assert dump_segments(paths, gaps_allowed=True).problems == []


@pytest.mark.servers
def test_a_log_that_begins_after_its_name_has_a_gap(tmp_path):
    paths = write(tmp_path, {".log": batch(43)})
    assert dump_segments(paths).problems == [f"{paths[0]}: -1 is followed by 43"]


@pytest.mark.servers
def test_offsets_that_go_back_are_told_even_if_gaps_are_allowed(tmp_path):
    paths = write(tmp_path, {".log": batch(43) + batch(40)})
    assert dump_segments(paths, gaps_allowed=True).problems == [f"{paths[0]}: 45 is followed by 40"]


def test_a_run_that_failed_without_a_word_is_a_problem():
    assert Dump(sizes={}, exit_code=1, output="", errors="").problems == ["DumpLogSegments ended with 1"]


def test_a_line_that_nobody_expects_is_a_problem():
    dump = Dump({Path("/a/0.log"): 0}, exit_code=0, output="Dumping /a/0.log\nOh no\n", errors="Oh dear\n")
    assert dump.problems == ["Oh dear", "/a/0.log: Oh no"]


def test_a_file_of_another_kind_is_refused(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.touch()
    with pytest.raises(ValueError, match=r"does not read .*notes\.txt"):
        dump_segments([notes])


# What Maven does with its goal, as a script.
FETCH = 'for word; do case $word in -DoutputDirectory=*) jars=${word#*=};; esac; done; /bin/mkdir "$jars"'


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A path with no programs but those that a test writes into it, and an empty cache."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("RUNNEL_CACHE", str(tmp_path / "cache"))
    return directory


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_missing_java_is_named(programs):
    with pytest.raises(KafkaUnavailable, match="Java is missing"):
        kafka_classpath()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_java_that_is_too_old_is_named(programs, version):
    write_program(programs / "java", f"""echo 'openjdk version "{version}"' >&2""")
    with pytest.raises(KafkaUnavailable, match=f"17 or newer is needed.*{version}"):
        kafka_classpath()


def test_missing_maven_is_named(programs):
    write_program(programs / "java", """echo 'openjdk version "17.0.15"' >&2""")
    with pytest.raises(KafkaUnavailable, match="Maven is missing"):
        kafka_classpath()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_fetched_by_its_own_list_and_in_the_one_version(programs, tmp_path, part):
    write_program(programs / "java", """echo 'openjdk version "17.0.15"' >&2""")
    write_program(programs / "mvn", f'echo "$@" > {tmp_path}/asked; {FETCH}')
    assert kafka_classpath(part) == str(tmp_path / "cache" / f"{PARTS[part]}-{VERSION}" / "*")
    pom = Path(__file__).parent / part / "pom.xml"
    assert f"-f {pom} " in (tmp_path / "asked").read_text()
    assert f"<kafka.version>{VERSION}</kafka.version>" in pom.read_text()


def test_an_archive_of_classes_is_used_when_it_is_there_and_of_the_same_java(programs, tmp_path):
    write_program(programs / "java", """echo 'openjdk version "17.0.15"' >&2""")
    write_program(programs / "mvn", FETCH)
    archive = class_archive()
    option = f"-XX:SharedArchiveFile={archive}"
    assert option not in java_command("Tool")
    archive.touch()
    assert option in java_command("Tool")
    assert option not in java_command("Program", classpath="of its own")
    (tmp_path / "other").mkdir()
    write_program(tmp_path / "other" / "java", """echo 'openjdk version "21"' >&2""")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path / 'other'}:{programs}")
        assert class_archive() != archive
        assert not any("SharedArchiveFile" in option for option in java_command("Tool"))


def test_a_java_that_cannot_compile_is_named(programs, tmp_path):
    told = "Module jdk.compiler not found"
    write_program(
        programs / "java", f"""case $1 in -version) echo 'version "17"' >&2;; *) echo {told}; exit 1;; esac"""
    )
    write_program(programs / "mvn", FETCH)
    with pytest.raises(KafkaUnavailable, match=r"cannot compile: install a JDK, 17 or newer, for .*Some\.java"):
        compiled(tmp_path / "Some.java", tmp_path / "classes")


def test_a_mistake_in_a_program_is_told(programs, tmp_path):
    write_program(programs / "java", """case $1 in -version) echo 'version "17"' >&2;; *) echo oh no; exit 1;; esac""")
    write_program(programs / "mvn", FETCH)
    with pytest.raises(AssertionError, match="was not compiled:\noh no"):
        compiled(tmp_path / "Some.java", tmp_path / "classes")


def test_an_interrupted_download_is_not_taken_for_a_whole_one(programs, tmp_path):
    write_program(programs / "java", """echo 'openjdk version "21"' >&2""")
    write_program(programs / "mvn", f"{FETCH}; echo no route; exit 1")
    with pytest.raises(KafkaUnavailable, match="no route"):
        kafka_classpath()
    assert list((tmp_path / "cache").iterdir()) == []
    write_program(programs / "mvn", FETCH)
    assert kafka_classpath() == str(tmp_path / "cache" / "kafka-4.3.0" / "*")
