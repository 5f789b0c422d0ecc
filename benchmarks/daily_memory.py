"""The memory of a tree of processes over time, from /proc, and how it grows.

A page that several processes share is counted for each of them by its share (PSS), so that a sum counts it once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def sizes(broker: int, driver: int) -> list[Size]:
    """Of all processes of both trees."""
    found = with_own_memory(roles(broker, driver, processes()))
    return [Size(pid, role, proportional(pid) / MEGABYTE) for pid, role in found.items()]


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
