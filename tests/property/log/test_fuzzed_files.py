"""Whatever happens to the files of a log, it opens or says why not, and no record is lost or changed in silence.

A small directory is built once for each way to stop. Then files are mutated at random, and all is read again by offset
and by time. What is returned must be what was written; what is missing must have been told: by an error, or, for a tail
that was cut off, by a finding. Afterwards the partitions take writes, and a second start finds the same.

Some losses nobody can notice, because all that could tell of them is gone too. They are excluded, and only they:

- a tail that ends with a whole batch, if the synced offsets were damaged with it, and so was the recovery point or it
  was further back anyway: nothing on the disk knows that there was more;
- the first record at a time, if the time index was damaged and times are out of order: an index has no checksum. With
  times in order a lookup notices that entries are missing;
- a piece cut out from inside one batch's offset to the same place in another's: the offset then stands before a batch
  that is whole, and no checksum covers an offset;
- the records of another partition in this one's file: a batch does not say where it belongs. So files are swapped
  inside of a folder only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

import pytest

from runnel.errors import DamagedLog, OffsetOutOfRange, RunnelError, UnusableDirectory
from runnel.files import read_file
from runnel.log import Codec, Finding, Log, LogSettings, Partition, Record, TopicSettings, open_log
from runnel.log.checkpoints import RECOVERY_POINTS, START_OFFSETS
from runnel.log.synced import FILE_NAME as SYNCED_OFFSETS
from runnel.records import Producer, batches_of, build_batch, records_of
from runnel.testing import FaultyFiles, StoppedClock

DATA = "/data"
SETTINGS = LogSettings(low_disk_bytes=0, sync_workers=1, open_files=8, tail_cache_bytes=2_000)
TOPIC = TopicSettings(segment_bytes=2_500, index_interval_bytes=200, retention_ms=-1)
TOPICS = ("orders", "notes")
STARTS = {"orders": 45, "notes": 0}  # in the second segment, and at the beginning
DAMAGED_SEGMENT = "notes-0/00000000000000000000.log"
REFUSED_IF_UNREADABLE = {"runnel-log.json", RECOVERY_POINTS, START_OFFSETS}
PATIENCE = 300_000  # file operations; a round needs some thousands


class Hung(BaseException):
    """No end in sight."""


class ImpatientFiles(FaultyFiles):
    """A disk that notices when a program goes round in circles."""

    calls = 0

    def _check_alive(self) -> None:
        self.calls += 1
        if self.calls > PATIENCE:
            raise Hung(f"more than {PATIENCE} file operations")
        super()._check_alive()


# --- the directory before anything happens to it


@dataclass(frozen=True)
class Origin:
    contents: dict[str, bytes]  # by path under DATA
    records: dict[str, dict[int, Record]]
    ordered: bool

    def end(self, topic: str) -> int:
        return max(self.records[topic]) + 1


@cache
def origin(stop: str, ordered: bool) -> Origin:
    chance = random.Random(f"{stop} {ordered}")
    clock = StoppedClock()
    files = FaultyFiles(clock=clock)
    log = opened(files, clock)
    records: dict[str, dict[int, Record]] = {topic: {} for topic in TOPICS}
    for number in range(110):
        topic = TOPICS[0] if number % 4 else TOPICS[1]
        clock.advance(1_000)
        write(log.partition(topic, 0, TOPIC), number, clock.now(), ordered, chance, records[topic])
        if number == 60:
            log.partition("orders").delete_before(STARTS["orders"])
        if number == 90:
            log.checkpoint()
    damage_a_segment(log, files)
    if stop == "clean":
        log.close()
    elif stop == "torn":
        active = sorted(name for name in files.list(f"{DATA}/orders-0") if name.endswith(".log"))[-1]
        file = files.open(f"{DATA}/orders-0/{active}")
        file.write([build_batch([Record(b"torn" * 50)], base_offset=10**6)[:130]], file.size())
    return Origin(contents_of(files.kill()), records, ordered)


def write(
    partition: Partition, number: int, now: int, ordered: bool, chance: random.Random, written: dict[int, Record]
) -> None:
    base = partition.end_offset
    times = [now + step if ordered else now + chance.randrange(-9_000, 9_000) for step in range(chance.randrange(1, 4))]
    records = [Record(chance.randbytes(chance.choice([0, 20, 90])), b"k", time) for time in times]
    producer = Producer(5, 0, base) if partition.id.topic == "notes" else Producer()
    partition.append_batch(build_batch(records, codec=list(Codec)[number % len(Codec)], producer=producer))
    written |= {base + step: record._replace(offset=base + step) for step, record in enumerate(records)}


def damage_a_segment(log: Log, files: FaultyFiles) -> None:
    """One segment of `notes` is damaged and known to be, so that there is a `.damage` file to mutate."""
    notes = log.partition("notes")
    file = files.open(f"{DATA}/{DAMAGED_SEGMENT}")
    positions = [position for position, _ in batches_of(file.read(file.size(), 0))]
    file.write([b"\xff\xff"], positions[4] + 70)
    with pytest.raises(DamagedLog):
        list(notes.records())


def opened(files: FaultyFiles, clock: StoppedClock) -> Log:
    return open_log(DATA, settings=SETTINGS, files=files, clock=clock, chance=random.Random(1), background=False)


def contents_of(files: FaultyFiles, folder: str = DATA) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for name in sorted(files.list(folder)):
        path = f"{folder}/{name}"
        try:
            contents[path.removeprefix(DATA + "/")] = read_file(files, path)
        except IsADirectoryError:
            contents |= contents_of(files, path)
    return contents


def disk_with(contents: dict[str, bytes], clock: StoppedClock) -> ImpatientFiles:
    files = ImpatientFiles(clock=clock)
    for folder in [DATA, *(f"{DATA}/{topic}-0" for topic in TOPICS)]:
        files.make_directory(folder)
    for path, content in contents.items():
        files.open(f"{DATA}/{path}", create=True).write([content], 0)
    return files


# --- mutations


def flip_bits(content: bytes, chance: random.Random) -> bytes:
    mutated = bytearray(content or b"\x00")
    for _ in range(chance.choice([1, 1, 3])):
        mutated[chance.randrange(len(mutated))] ^= 1 << chance.randrange(8)
    return bytes(mutated)


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.choice([0, chance.randint(0, len(content)), max(0, len(content) - chance.randint(1, 40))])]


def cut_between(content: bytes, chance: random.Random) -> bytes:
    """Cut where a batch, an entry or a line ends."""
    try:
        ends = [position for position, _ in batches_of(content)]
    except RunnelError:
        ends = [
            *range(0, len(content), chance.choice([8, 12])),
            *(found.end() for found in re.finditer(b"\n", content)),
        ]
    return content[: chance.choice(ends or [0])]


def append_garbage(content: bytes, chance: random.Random) -> bytes:
    size = chance.choice([1, 12, 100, 5_000])
    return content + chance.choice([chance.randbytes(size), bytes(size), b"\x02" * size, content[:size], b"9" * size])


def overwrite_a_range(content: bytes, chance: random.Random) -> bytes:
    start = chance.randint(0, len(content))
    size = chance.choice([1, 8, 61, 400])
    filling = chance.choice([bytes(size), chance.randbytes(size), b"\x02" * size, content[:size]])
    return content[:start] + filling[: len(content) - start] + content[start + size :]


def remove_a_range(content: bytes, chance: random.Random) -> bytes:
    start = chance.randint(0, len(content))
    end = start + chance.choice([1, 8, 12, 61, 300])
    return content[:start] + content[end + is_splice(content, start, end) :]


def is_splice(content: bytes, start: int, end: int) -> bool:
    """Whether cutting this out puts one batch's offset before another batch."""
    try:
        batches = [position for position, _ in batches_of(content)]
    except RunnelError:
        return False
    return any(start - batch in range(16) and end - (start - batch) in batches for batch in batches)


def change_a_number(content: bytes, chance: random.Random) -> bytes:
    """Of a text file: one that still looks right."""
    numbers = list(re.finditer(rb"\d+", content))
    if not numbers:
        return flip_bits(content, chance)
    found = chance.choice(numbers)
    number = chance.choice([0, 1, int(found[0][:18]) + 1, int(found[0][:18]) // 2, 77, 10**9, 2**63, 10**40])
    return content[: found.start()] + b"%d" % number + content[found.end() :]


CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    flip_bits, flip_bits, cut, cut_between, append_garbage, overwrite_a_range, overwrite_a_range, remove_a_range,
]  # fmt: skip


@dataclass
class Mutated:
    contents: dict[str, bytes]
    story: list[str] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)

    def touches(self, part: str) -> bool:
        return any(part in path for path in self.touched)


def mutate(origin: Origin, chance: random.Random) -> Mutated:
    mutated = Mutated(dict(origin.contents))
    for _ in range(chance.choice([1, 1, 2, 3])):
        mutate_once(mutated, chance)
    return mutated


def mutate_once(mutated: Mutated, chance: random.Random) -> None:
    contents = mutated.contents
    path = pick(contents, chance)
    mutated.touched.add(path)
    what = chance.random()
    if what < 0.1:
        del contents[path]
        mutated.story.append(f"delete {path}")
    elif what < 0.2:
        other = chance.choice([known for known in contents if folder_of(known) == folder_of(path)])
        contents[path], contents[other] = contents[other], contents[path]
        mutated.touched.add(other)
        mutated.story.append(f"swap {path} and {other}")
    elif what < 0.23:
        mutated.touched.add(".clean")
        if contents.pop(".clean", None) is None:
            contents[".clean"] = b""
        mutated.story.append("make or remove .clean")
    else:
        change = chance.choice(CHANGES)
        if is_text(path) and chance.random() < 0.4:
            change = change_a_number
        contents[path] = change(contents[path], chance)
        mutated.story.append(f"{change.__name__} in {path}")


def pick(contents: dict[str, bytes], chance: random.Random) -> str:
    """A file; every kind is as likely as another."""
    kinds: dict[str, list[str]] = {}
    for path in contents:
        if path not in (".lock", ".clean"):
            kinds.setdefault(re.sub(r".*\d{20}", "", path), []).append(path)
    kinds["the last segments"] = [max(path for path in kinds[".log"] if topic in path) for topic in TOPICS]
    return chance.choice(kinds[chance.choice(sorted(kinds))])


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def is_text(path: str) -> bool:
    return path.endswith(("checkpoint", ".json", ".damage"))


# --- what must be true


def check(origin: Origin, mutated: Mutated, chance: random.Random) -> None:
    clock = StoppedClock()
    files = disk_with(mutated.contents, clock)
    try:
        log = opened(files, clock)
    except UnusableDirectory:
        assert mutated.touched & REFUSED_IF_UNREADABLE, "only what cannot be made anew makes a directory unusable"
        return
    usable = [topic for topic in TOPICS if opens(log, topic)]
    if not usable:
        return
    readable = {topic: check_partition(origin, mutated, log, topic, chance) for topic in usable}
    added = {topic: check_that_it_goes_on(log.partition(topic), clock) for topic in usable}
    for stop in (Log.close, lambda _: None):
        stop(log)
        files = disk_with(contents_of(files), clock)
        try:
            log = opened(files, clock)
        except UnusableDirectory:
            assert usable != list(TOPICS), "what opened once opens again"
            return
        for topic in usable:
            told: set[int] = set()
            seen = {record.offset: record for record in walk(log.partition(topic, 0, TOPIC), told)}
            expected = readable[topic] | added[topic]
            assert seen == {offset: expected[offset] for offset in expected if offset not in told}, "another start"


def opens(log: Log, topic: str) -> bool:
    try:
        log.partition(topic, 0, TOPIC)
    except UnusableDirectory:
        return False
    return True


def check_partition(origin: Origin, mutated: Mutated, log: Log, topic: str, chance: random.Random) -> dict[int, Record]:
    """The answer is what can be read."""
    partition = log.partition(topic)
    told: set[int] = set()
    originals = origin.records[topic]
    list(walk(partition, told))  # finds all the damage; a segment remembers it as one, so the next walk may get less
    readable = {record.offset: record for record in walk(partition, told)}
    for offset, record in readable.items():
        assert record == originals.get(offset), f"{topic} {offset} is {record}, not {originals.get(offset)}"
    missing = [offset for offset in originals if offset >= STARTS[topic] and offset not in readable]
    told_of_start = range(partition.start_offset) if START_OFFSETS in mutated.touched else range(0)
    told_of_tail = range(partition.end_offset, origin.end(topic)) if tail_is_told(origin, mutated, log, topic) else ()
    untold = [at for at in missing if at not in told and at not in told_of_start and at not in told_of_tail]
    assert not untold, f"{topic} lost {untold} in silence, findings {log.findings}"
    check_random_reads(partition, readable, originals, chance)
    check_times(origin, mutated, partition, readable, chance)
    return readable


def tail_is_told(origin: Origin, mutated: Mutated, log: Log, topic: str) -> bool:
    partition = log.partition(topic)
    if any(finding.offset == partition.end_offset for finding in partition.findings):
        return True
    if any(finding.damage and not is_old(finding) for finding in partition.findings):
        return True
    # Nothing on the disk knows that there was more: see above.
    points = dict(re.findall(r"(\w+) 0 (\d+)", mutated.contents.get(RECOVERY_POINTS, b"").decode(errors="replace")))
    return SYNCED_OFFSETS in mutated.touched and int(points.get(topic, 0)) <= partition.end_offset


def is_old(finding: Finding) -> bool:
    """Whether it is the damage that was there before."""
    return finding.path == f"{DATA}/{DAMAGED_SEGMENT}"


def walk(partition: Partition, told: set[int]) -> Iterator[Record]:
    """Every record that can be read; the offsets that an error names are added to `told`."""
    offset = partition.start_offset
    met: set[tuple[int, int]] = set()
    while offset < partition.end_offset:
        try:
            for record in partition.records(offset):
                assert record.offset == offset, f"offset {offset} is stepped over"
                offset += 1
                yield record
        except DamagedLog as error:
            damage = error
        else:
            continue
        assert damage.first_offset <= offset, f"{offset} cannot be read because of {damage}"
        after = damage.next_offset if damage.next_offset is not None else partition.end_offset
        assert after >= offset, f"{damage} leads back"
        assert (offset, after) not in met, f"{damage} leads nowhere"
        met.add((offset, after))
        told |= set(range(offset, min(after, offset + 10_000)))
        offset = after


def check_random_reads(
    partition: Partition, readable: dict[int, Record], originals: dict[int, Record], chance: random.Random
) -> None:
    for offset in chance.sample(sorted(readable), min(12, len(readable))):
        found = partition.read(offset, max_bytes=chance.choice([1, 300, 10_000]))
        records = records_of(found.data)  # of the first batch; the checksums of those behind it are not checked
        assert records[0].offset <= offset <= records[-1].offset
        assert records == [originals[record.offset] for record in records]
    for offset in (partition.start_offset - 1, partition.end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            partition.read(offset)


def check_times(
    origin: Origin, mutated: Mutated, partition: Partition, readable: dict[int, Record], chance: random.Random
) -> None:
    times = [record.timestamp for record in origin.records[partition.id.topic].values()]
    strict = origin.ordered or not mutated.touches(".timeindex")
    for time in [min(times) - 1, max(times), max(times) + 1, *chance.sample(times, 6)]:
        expected = [record for record in readable.values() if record.timestamp >= time]
        try:
            found = partition.find_time(time)
        except DamagedLog:
            continue
        if strict:
            assert found == (expected[0] if expected else None), f"at time {time}"
        else:
            assert found is None or found in expected, f"at time {time}"
    try:
        largest = partition.find_largest_time()
    except DamagedLog:
        return
    if strict:
        expected = [
            record for record in readable.values() if record.timestamp == max(r.timestamp for r in readable.values())
        ]
        assert largest == (expected[0] if expected else None)


def check_that_it_goes_on(partition: Partition, clock: StoppedClock) -> dict[int, Record]:
    end = partition.end_offset
    appended = partition.append([Record(b"after"), Record(b"all")])
    assert appended.base_offset == end
    records = [record._replace(timestamp=clock.now()) for record in (Record(b"after"), Record(b"all"))]
    added = {end + number: record._replace(offset=end + number) for number, record in enumerate(records)}
    assert {record.offset: record for record in partition.records(end)} == added
    return added


STOPS = pytest.mark.parametrize("stop", ["clean", "killed", "torn"])
ORDERS = pytest.mark.parametrize("ordered", [True, False], ids=["times in order", "times out of order"])


@ORDERS
@STOPS
def test_mutated_files_never_lose_or_change_a_record_in_silence(
    stop: str, ordered: bool, seed: int, rounds: int
) -> None:
    source = origin(stop, ordered)
    for number in range(rounds):
        chance = random.Random(f"{seed} {number} {stop}")
        mutated = mutate(source, chance)
        try:
            check(source, mutated, chance)
        except (Exception, Hung) as error:
            raise AssertionError(f"round {number}: {mutated.story}: {type(error).__name__}: {error}") from error


@pytest.mark.soak
@ORDERS
@STOPS
def test_many_mutated_files_never_lose_or_change_a_record_in_silence(
    stop: str, ordered: bool, seed: int, rounds: int
) -> None:
    test_mutated_files_never_lose_or_change_a_record_in_silence(stop, ordered, seed, rounds)


@STOPS
def test_without_a_mutation_everything_is_found(stop: str) -> None:
    source = origin(stop, True)
    log = opened(disk_with(source.contents, StoppedClock()), StoppedClock())
    expected = list(range(STARTS["orders"], source.end("orders")))
    assert [record.offset for record in log.partition("orders").records()] == expected
