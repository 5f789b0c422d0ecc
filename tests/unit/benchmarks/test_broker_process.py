"""What /proc tells of a process."""

import os

from benchmarks import broker_process


def test_the_processor_time_is_that_of_user_and_kernel_mode_whatever_the_name():
    fields = ["S", *(["0"] * 10), "250", "50", *(["0"] * 30)]
    line = f"42 (a) b (c)) {' '.join(fields)}"
    assert broker_process.cpu_of_stat(line) == 300 / broker_process.TICKS


def test_this_process_has_used_memory_and_some_processor_time():
    assert broker_process.cpu_seconds(os.getpid()) > 0
    assert broker_process.resident(os.getpid()) > 1_000_000
    assert broker_process.read_from_disk(os.getpid()) >= 0


def test_the_peak_of_memory_is_that_since_it_was_reset():
    pid, size = os.getpid(), 64_000_000
    taken = bytes(range(256)) * (size // 256)
    grown = broker_process.peak(pid)
    assert grown > len(taken)
    del taken
    broker_process.reset_peak(pid)
    assert broker_process.peak(pid) < grown
