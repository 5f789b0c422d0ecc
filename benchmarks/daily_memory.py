"""The memory of a tree of processes over time, from /proc, and how it grows.

A page that several processes of the tree share is counted once. That of a file, such as a library, is counted whole
even if other programs have it mapped as well: by its share (PSS), it would seem to grow when such a program ends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

MEGABYTE = 1_000_000
PROC = Path("/proc")
BROKER, DRIVER, JAVA, WORKERS = "broker", "driver", "Java", "Python workers"
ROLES = (BROKER, DRIVER, JAVA, WORKERS)


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    name: str


Part = tuple[str, str, str]
"""A mapped part of a file: its device, its inode and where it begins."""


@dataclass(frozen=True)
class Mapped:
    """Bytes of one process. What it shares with those it was forked from or has forked counts by its share."""

    anonymous: int = 0
    files: dict[Part, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Size:
    pid: int
    role: str
    megabytes: float


def processes() -> list[Process]:
    """All that run now."""
    found = []
    for place in PROC.glob("[0-9]*"):
        try:
            found.append(process_of((place / "stat").read_text()))
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
    return found


def process_of(stat: str) -> Process:
    """The process's name stands in parentheses and may hold spaces and more parentheses."""
    before, _, after = stat.rpartition(")")
    pid, _, name = before.partition(" (")
    return Process(int(pid), int(after.split()[1]), name)


def roles(broker: int, driver: int, running: Sequence[Process]) -> dict[int, str]:
    """What each process of the two trees is. Java is the driver's child, and so is whoever forks the Python workers.
    What Java or the driver start for a moment, such as a `chmod`, is gone before it is looked at, or counts with them.
    """
    java = {each.pid for each in running if each.name == "java"}
    found = {broker: BROKER, driver: DRIVER}
    waiting = [*found]
    while waiting:
        parent = waiting.pop()
        for each in running:
            if each.parent == parent and each.pid not in found:
                found[each.pid] = _role(found[parent], is_java=each.pid in java)
                waiting.append(each.pid)
    return found


def _role(parent: str, *, is_java: bool) -> str:
    if parent == BROKER:
        return BROKER
    return JAVA if is_java else WORKERS


def program(pid: int) -> str:
    """The name of the file that it runs; empty if it has ended."""
    try:
        return (PROC / str(pid) / "exe").readlink().name
    except OSError:
        return ""


def with_own_memory(found: Mapping[int, str], program: Callable[[int], str] = program) -> dict[int, str]:
    """Without what Java has started this very moment: until it runs another program, its memory is Java's own, all of
    which would be counted a second time.
    """
    return {pid: role for pid, role in found.items() if role != WORKERS or program(pid) != "java"}


def proportional(pid: int) -> int:
    """Bytes; 0 if it has ended."""
    try:
        return _bytes("Pss", (PROC / str(pid) / "smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def mapped(pid: int) -> Mapped:
    """Nothing if it has ended."""
    try:
        rollup = (PROC / str(pid) / "smaps_rollup").read_text()
        return Mapped(_bytes("Pss_Anon", rollup), resident_files((PROC / str(pid) / "smaps").read_text()))
    except (FileNotFoundError, ProcessLookupError):
        return Mapped()


def _bytes(name: str, lines: str) -> int:
    return sum(int(line.split()[1]) * 1024 for line in lines.splitlines() if line.startswith(f"{name}:"))


def resident_files(smaps: str) -> dict[Part, int]:
    """Without pages that the process has changed for itself: they are anonymous."""
    found: dict[Part, int] = {}
    part: Part | None = None
    for line in smaps.splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            _, offset, device, inode, *_ = values
            part = (device, inode, offset) if inode != "0" else None
        elif part is not None and name in ("Rss:", "Anonymous:"):
            sign = 1 if name == "Rss:" else -1
            found[part] = found.get(part, 0) + sign * int(values[0]) * 1024
    return found


def sizes(broker: int, driver: int) -> list[Size]:
    """Of all processes of both trees."""
    found = with_own_memory(roles(broker, driver, processes()))
    return counted_once({pid: (role, mapped(pid)) for pid, role in found.items()})


def counted_once(found: Mapping[int, tuple[str, Mapped]]) -> list[Size]:
    """A part of a file is as large as in the process that has most of it; the first that has it is charged with it."""
    counted: dict[Part, int] = {}
    sizes = []
    for pid, (role, memory) in sorted(found.items(), key=lambda each: (ROLES.index(each[1][0]), each[0])):
        new = {part: size for part, size in memory.files.items() if size > counted.get(part, 0)}
        own = memory.anonymous + sum(size - counted.get(part, 0) for part, size in new.items())
        counted |= new
        sizes.append(Size(pid, role, own / MEGABYTE))
    return sizes


def by_role(found: Iterable[Size]) -> dict[str, float]:
    """In megabytes."""
    sums = dict.fromkeys(ROLES, 0.0)
    for each in found:
        sums[each.role] += each.megabytes
    return sums


def name_of(pid: int) -> str:
    """As the kernel shows it, which tells what a Python worker is for; empty if it has ended."""
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def per_minute(samples: Sequence[tuple[float, float]]) -> float:
    """The slope of the line that fits the samples best; each is seconds and a size."""
    seconds, values = zip(*samples, strict=True)
    return linear_regression([each / 60 for each in seconds], values).slope
