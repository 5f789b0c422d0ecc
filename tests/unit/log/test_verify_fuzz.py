"""Whatever stands in the files, `verify` answers with a report, and calls nothing well that is read wrongly."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runnel.errors import RunnelError
from runnel.log import Log, LogSettings, Record, open_log
from runnel.log.dump import rows_of
from runnel.log.read_only import READ_ONLY_DISK
from runnel.log.verify import verify
from runnel.records import parse_header
from runnel.testing import Crashed, FaultyFiles, StoppedClock
from tests.unit.log.data_directory import (
    ORDERS,
    SETTINGS,
    clean_directory,
    files_of,
    killed_directory,
    opened,
    rechecked,
    segments_of,
)

ROUNDS_PER_ROUND = 2
SHOWN = (".log", ".index", ".timeindex", ".snapshot", "checkpoint", "synced-offsets")

# --- mutations of one file's content


def flip_bits(content: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice([1, 1, 2, 8])):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def overwrite(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    size = chance.randrange(1, 80)
    content[start : start + size] = chance.choice([bytes(size), b"\xff" * size, chance.randbytes(size)])


def truncate(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def extend(content: bytearray, chance: random.Random) -> None:
    size = chance.randrange(1, 200)
    content += chance.choice([bytes(size), chance.randbytes(size), bytes(content[:size])])


def insert(content: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(content))
    content[place:place] = chance.randbytes(chance.randrange(1, 20))


def remove(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    del content[start : start + chance.randrange(1, 100)]


def repeat(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    content[start:start] = content[start : start + chance.randrange(1, 300)]


MUTATIONS: list[Callable[[bytearray, random.Random], None]] = [
    flip_bits, overwrite, truncate, extend, insert, remove, repeat,
]  # fmt: skip


def mutate(directory: Path, chance: random.Random) -> str:
    """Harm one file, or two inside of one folder; the answer says how."""
    names = sorted(name for name in files_of(directory) if name != ".lock")
    name = chance.choice(names)
    path = directory / name
    kind = chance.randrange(10)
    if kind == 0:
        path.unlink()
        return f"{name} is gone"
    if kind == 1:
        other = chance.choice([file for file in path.parent.iterdir() if file.is_file() and file.name != ".lock"])
        content, other_content = path.read_bytes(), other.read_bytes()
        path.write_bytes(other_content)
        other.write_bytes(content)
        return f"{name} is exchanged with {other.name}"
    content = bytearray(path.read_bytes() or b"\x00")
    mutation = chance.choice(MUTATIONS)
    mutation(content, chance)
    path.write_bytes(content)
    return f"{mutation.__name__} in {name}"


# --- what can be read


def all_records(log: Log) -> dict[str, list[Record]]:
    return {topic: list(log.partition(topic).records()) for topic in ("orders", "audit")}


def all_times(log: Log, times: list[int]) -> list[Record | None]:
    return [log.partition("orders").find_time(time) for time in times]


@pytest.mark.parametrize("make", [clean_directory, killed_directory])
def test_what_is_called_well_is_read_as_it_was_written(make, tmp_path, seed, rounds):
    origin = make(tmp_path / "origin")
    with opened(Path(shutil.copytree(origin, tmp_path / "whole"))) as log:
        records = all_records(log)
        times = sorted({record.timestamp + step for record in records["orders"] for step in (0, 1)})
        first_at = all_times(log, times)
    called_well = 0
    for number in range(rounds * ROUNDS_PER_ROUND):
        chance = random.Random(f"{seed} {number}")
        copy = Path(shutil.copytree(origin, tmp_path / "copy"))
        story = mutate(copy, chance)
        try:
            well = verify(copy).is_well
        except RunnelError:
            well = False
        if well:
            called_well += 1
            with opened(copy) as log:
                assert all_records(log) == records, f"round {number}: {story}"
                assert all_times(log, times) == first_at, f"round {number}: {story}"
        shutil.rmtree(copy)
    assert called_well < rounds * ROUNDS_PER_ROUND / 2


def test_batches_with_a_right_checksum_and_wrong_content_raise_nothing_else(tmp_path, seed, rounds):
    directory = clean_directory(tmp_path / "data")
    segment = segments_of(directory / ORDERS)[0]
    content = segment.read_bytes()
    for number in range(rounds * ROUNDS_PER_ROUND):
        chance = random.Random(f"{seed} {number}")
        position = 0
        for _ in range(chance.randrange(5)):
            position += parse_header(content, position).size
        size = parse_header(content, position).size
        batch = bytearray(content[position : position + size])
        batch[chance.randrange(21, size)] = chance.randrange(256)
        if chance.random() < 0.5:
            flip_bits(batch, chance)
        segment.write_bytes(content[:position] + rechecked(bytes(batch)) + content[position + size :])
        verify(directory)


def test_rows_of_mutated_files_end_in_an_error_of_ours_or_not_at_all(tmp_path, seed, rounds):
    origin = clean_directory(tmp_path / "data")
    contents = files_of(origin)
    names = [name for name in contents if name.endswith(SHOWN)]
    for number in range(rounds * ROUNDS_PER_ROUND):
        chance = random.Random(f"{seed} {number}")
        name = chance.choice(names)
        content = bytearray(contents[name])
        chance.choice(MUTATIONS)(content, chance)
        (origin / name).write_bytes(content)
        end = end_of_rows(str(origin / name))
        assert end is None or end.startswith(f"{origin / name} is damaged at position ")


def end_of_rows(path: str) -> str | None:
    try:
        list(rows_of(READ_ONLY_DISK, path))
    except RunnelError as error:
        return error.what
    return None


# --- what a crash leaves is no problem


def test_no_power_cut_leaves_a_problem(seed, rounds):
    for number in range(rounds):
        chance = random.Random(f"{seed} {number}")
        files = history_until_a_power_cut(chance)
        if files.exists("/data/runnel-log.json"):
            report = verify("/data", files=files)
            assert report.is_well, f"round {number}: {report.problems}"


def history_until_a_power_cut(chance: random.Random) -> FaultyFiles:
    files = FaultyFiles(chance=chance, crash_at=chance.randrange(1, 400))
    with contextlib.suppress(Crashed):
        while True:
            live_a_while(files, chance)
    return files.crash(chance)


def live_a_while(files: FaultyFiles, chance: random.Random) -> None:
    settings, clock = LogSettings(low_disk_bytes=0, sync_workers=1), StoppedClock()
    log = open_log("/data", settings=settings, files=files, clock=clock, chance=chance, background=False)
    orders = log.partition("orders", 0, SETTINGS)
    for _ in range(chance.randrange(20)):
        clock.advance(chance.randrange(1_000))
        action = chance.randrange(10)
        if action < 7:
            time = clock.now() + chance.randrange(-5_000, 5_000)
            orders.append([Record(chance.randbytes(chance.randrange(200)), None, time)] * chance.randrange(1, 4))
        elif action == 7:
            orders.roll()
        elif action == 8:
            log.checkpoint()
        else:
            orders.delete_before(chance.randrange(orders.start_offset, orders.end_offset + 1))
    log.close()
