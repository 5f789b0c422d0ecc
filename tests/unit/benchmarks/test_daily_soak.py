"""Memory of a tree of processes: which belong to it, what they have, and how it grows."""

import os

import pytest

from benchmarks import daily_memory as memory
from benchmarks.daily_memory import BROKER, DRIVER, JAVA, ROLES, WORKERS, Mapped, Process, Size
from benchmarks.daily_soak import ALL, figures
from benchmarks.harness import Verdict


def test_processes_of_both_trees_have_a_role_and_others_none():
    running = [
        Process(1, 0, "init"),
        Process(2, 1, "runnel"),
        Process(3, 2, "cleaner"),
        Process(4, 1, "runnel"),
        Process(5, 4, "java"),
        Process(6, 5, "python"),
        Process(7, 6, "python"),
        Process(8, 1, "java"),
    ]
    expected = {2: BROKER, 3: BROKER, 4: DRIVER, 5: JAVA, 6: WORKERS, 7: WORKERS}
    assert memory.roles(2, 4, running) == expected


def test_a_process_that_java_is_about_to_start_has_no_memory_of_its_own():
    found = {1: BROKER, 2: DRIVER, 3: JAVA, 4: WORKERS, 5: WORKERS}
    programs = {3: "java", 4: "java", 5: "python3.11"}
    assert memory.with_own_memory(found, programs.__getitem__) == {1: BROKER, 2: DRIVER, 3: JAVA, 5: WORKERS}


def test_a_process_runs_a_program_until_it_has_ended():
    assert memory.program(os.getpid()).startswith("python")
    assert memory.program(2**30) == ""


def test_a_process_has_its_parent_whatever_its_name():
    assert memory.process_of("42 (a) (b c)) S 7 1 1 0") == Process(42, 7, "a) (b c)")


def test_this_process_is_found_and_has_memory():
    found = {each.pid: each for each in memory.processes()}
    assert found[os.getpid()].parent == os.getppid()
    assert memory.proportional(os.getpid()) > 1_000_000
    mapped = memory.mapped(os.getpid())
    assert mapped.anonymous > 1_000_000
    assert sum(mapped.files.values()) > 1_000_000


def test_one_that_has_ended_has_none():
    assert memory.proportional(2**30) == 0
    assert memory.mapped(2**30) == Mapped()
    assert memory.name_of(2**30) == ""


def test_sizes_are_those_of_this_process_and_its_like():
    here, other = os.getpid(), os.getppid()
    found = {each.pid: each for each in memory.sizes(here, other)}
    assert found[here].role == BROKER
    assert memory.by_role(found.values())[BROKER] >= found[here].megabytes > 1


SMAPS = """\
7f00-7f10 r-xp 00001000 fe:00 42                         /usr/lib/lib jvm.so (deleted)
Size:               1000 kB
Rss:                 300 kB
Pss:                 100 kB
Anonymous:            20 kB
VmFlags: rd ex mr mw me
7f20-7f30 rw-p 00000000 00:00 0                          [heap]
Rss:                 900 kB
Anonymous:           900 kB
7f40-7f50 r--p 00008000 fe:00 42                         /usr/lib/lib jvm.so (deleted)
Rss:                   8 kB
Anonymous:             0 kB
"""


def test_files_are_resident_as_far_as_they_are_in_memory_unchanged_whoever_shares_them():
    assert memory.resident_files(SMAPS) == {("fe:00", "42", "00001000"): 280 * 1024, ("fe:00", "42", "00008000"): 8192}


def test_a_part_of_a_file_is_counted_once():
    code, data = ("fe:00", "42", "00000000"), ("fe:00", "42", "00001000")
    found = {
        7: (WORKERS, Mapped(1_000_000, {code: 5_000_000, data: 1_000_000})),
        8: (BROKER, Mapped(2_000_000, {code: 3_000_000})),
        6: (WORKERS, Mapped(0, {code: 4_000_000})),
    }
    assert memory.counted_once(found) == [Size(8, BROKER, 5.0), Size(6, WORKERS, 1.0), Size(7, WORKERS, 3.0)]


def test_a_slope_is_that_of_the_line_that_fits_best():
    assert memory.per_minute([(0.0, 10.0), (30.0, 11.0), (60.0, 12.0)]) == pytest.approx(2.0)
    assert memory.per_minute([(0.0, 10.0), (30.0, 13.0), (60.0, 10.0)]) == pytest.approx(0.0)


def soak(java_per_minute):
    """Ten minutes. In the first two everything grows fast."""
    looks = []
    for at in range(0, 601, 5):
        start = min(at, 120)
        found = [Size(number, role, 10.0 + start) for number, role in enumerate(ROLES)]
        found.append(Size(9, JAVA, java_per_minute * at / 60))
        looks.append((float(at), found))
    return {each.name.partition(":")[0]: each for each in figures(looks, 600) if each.unit == "MB/min"}


def test_growth_is_that_of_the_last_eight_minutes():
    found = soak(java_per_minute=0.9)
    assert found[ALL].ours == (pytest.approx(0.9),)
    assert found[ALL].verdict is Verdict.MET
    assert found[BROKER].ours == (0.001,)


def test_more_than_a_megabyte_a_minute_misses_the_target():
    assert soak(java_per_minute=1.5)[ALL].verdict is Verdict.MISSED
