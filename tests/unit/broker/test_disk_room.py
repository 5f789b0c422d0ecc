from runnel.broker.disk_room import BETWEEN_LOOKS, LONGEST_WAIT, MARKS_OF_ROOM, DiskRoom
from runnel.testing import StoppedClock

MARK = 64_000_000


class Disk:
    """As much of a log as is asked for its room."""

    def __init__(self, free: int, mark: int = MARK) -> None:
        self.free = free
        self.low_disk_bytes = mark
        self.looks = 0

    def free_space(self) -> int:
        self.looks += 1
        return self.free


def wait(free: int, mark: int = MARK) -> int:
    return DiskRoom(Disk(free, mark), StoppedClock()).throttle_ms(1000)  # type: ignore[arg-type]


def test_nobody_waits_while_there_is_room():
    assert wait(MARKS_OF_ROOM * MARK) == 0
    assert wait(10**15) == 0


def test_the_wait_grows_with_what_is_missing():
    waits = [wait(free) for free in range(MARKS_OF_ROOM * MARK, MARK - 1, -MARK // 4)]
    assert waits == sorted(waits)
    assert waits[0] == 0
    assert waits[1] > 0
    assert waits[-1] == LONGEST_WAIT


def test_the_wait_is_longest_below_the_mark_and_no_longer():
    assert wait(0) == wait(MARK // 2) == LONGEST_WAIT


def test_without_a_mark_nobody_waits():
    assert wait(0, mark=0) == 0


def test_whoever_wrote_nothing_does_not_wait():
    assert DiskRoom(Disk(0), StoppedClock()).throttle_ms(0) == 0  # type: ignore[arg-type]


def test_the_disk_is_looked_at_once_in_a_while():
    disk, clock = Disk(0), StoppedClock()
    room = DiskRoom(disk, clock)  # type: ignore[arg-type]
    assert [room.throttle_ms(1) for _ in range(100)] == [LONGEST_WAIT] * 100
    assert disk.looks == 1
    disk.free = 10**12
    clock.advance(BETWEEN_LOOKS)
    assert room.throttle_ms(1) == 0
    assert disk.looks == 2
