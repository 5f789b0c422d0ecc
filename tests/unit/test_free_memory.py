import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.free_memory import give_back

MEGABYTE = 1_000_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator cannot be asked")
def test_memory_between_blocks_that_are_in_use_goes_back_to_the_system() -> None:
    blocks = [bytes([1]) * 56_000 for _ in range(1_000)]
    kept = blocks[::10]
    del blocks
    before = resident()

    assert give_back()

    assert before - resident() > 30 * MEGABYTE
    assert len(kept) == 100


def test_asking_again_does_no_harm() -> None:
    give_back()
    give_back()


READS_AGAIN_AND_AGAIN = """
import resource, threading
from runnel.free_memory import keep_large_blocks

def read():
    for _ in range(20):
        [bytes(1_000_000) for _ in range(10)]

assert keep_large_blocks()
threads = [threading.Thread(target=read) for _ in range(3)]
read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator cannot be asked")
def test_a_large_block_is_used_again_by_all_threads() -> None:
    run = subprocess.run([sys.executable, "-c", READS_AGAIN_AND_AGAIN], check=True, capture_output=True, text=True)

    pages_of_the_blocks = 3 * 20 * 10 * 1_000_000 // 4096
    assert int(run.stdout) < pages_of_the_blocks / 10
