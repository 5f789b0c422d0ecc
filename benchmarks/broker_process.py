"""What a broker's process has used, from /proc: processor time, memory, reads of the disk."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Of all its threads, in user and kernel mode."""
    return cpu_of_stat(Path(f"/proc/{pid}/stat").read_text())


def cpu_of_stat(line: str) -> float:
    """The process's name stands in parentheses and may hold spaces and more parentheses."""
    fields = line.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    """Bytes of memory, those it shares with others included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def read_from_disk(pid: int) -> int:
    """Bytes that had to come from the disk, because no memory held them."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes:")))


def peak(pid: int) -> int:
    """Bytes of memory: the most that was resident, since the start or since it was reset."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) * 1024


def reset_peak(pid: int) -> None:
    """From now on, what is resident now counts."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
