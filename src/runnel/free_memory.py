"""What becomes of memory that was freed: the allocator keeps it for the next who asks, or the system has it back.

C's allocator keeps small blocks. Where later ones are of another size, a process has both: what it uses, and what it
once used. Large blocks go back to the system at once, and whoever needs one again waits until the system has cleared
each of its pages.
"""

from __future__ import annotations

from runnel.settings import MIB

# Names of glibc's settings, see mallopt(3).
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, ARENA_MAX = -1, -2, -3, -8
LARGEST_KEPT = 32 * MIB  # the allocator allows no more
MOST_KEPT = 32 * MIB
KEPT_OF_MORE = 24 * MIB


def give_back() -> bool:
    """Whether there was any. False where the allocator cannot be asked: only that of glibc can. It takes milliseconds,
    in which other threads go on unless they need memory from the allocator itself. What was kept goes, too.
    """
    import ctypes  # noqa: PLC0415 - few need it, and it takes its time

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return False
    return bool(trim(ctypes.c_size_t(0)))


def keep_large_blocks() -> bool:
    """Keep large blocks for the next who asks for one, in this process and from now on: up to 32 MiB together, and of
    what was more 24 MiB.

    One heap for all threads: a block that a thread freed is for any other. False where it cannot be asked for.
    """
    import ctypes  # noqa: PLC0415 - few need it, and it takes its time

    try:
        choose = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    kept = ((MMAP_THRESHOLD, LARGEST_KEPT), (TRIM_THRESHOLD, MOST_KEPT), (TOP_PAD, KEPT_OF_MORE))
    chosen = (*kept, (ARENA_MAX, 1))  # last: without the others it would not help
    return all(choose(name, value) == 1 for name, value in chosen)
