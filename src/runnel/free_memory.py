"""Gives memory that nobody uses any more back to the system.

C's allocator keeps what was freed for the next who asks for as much. Where later ones are of another size, a process
has both: what it uses, and what it once used.
"""

from __future__ import annotations


def give_back() -> bool:
    """Whether there was any. False where the allocator cannot be asked: only that of glibc can. It takes milliseconds,
    in which other threads go on unless they need memory from the allocator itself.
    """
    import ctypes  # noqa: PLC0415 - few need it, and it takes its time

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return False
    return bool(trim(ctypes.c_size_t(0)))
