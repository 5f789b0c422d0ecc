import os
import platform
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
