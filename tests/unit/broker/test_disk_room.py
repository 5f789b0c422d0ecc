import errno

from runnel import Broker
from runnel.broker.disk_room import BETWEEN_LOOKS, LONGEST_WAIT, MARKS_OF_ROOM, DiskRoom
from runnel.files import DiskFiles
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Record, build_batch
from runnel.testing import StoppedClock
from tests.broker_wire import Wire, produce

MARK = 64_000_000


class Disk:
    """As much of a log as is asked for its room."""

    def __init__(self, free: int | None, mark: int = MARK) -> None:
        self.free = free
        self.low_disk_bytes = mark
        self.looks = 0

    def free_space(self) -> int | None:
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


def test_a_disk_that_does_not_tell_leaves_the_wait_as_it_was():
    disk, clock = Disk(0), StoppedClock()
    room = DiskRoom(disk, clock)  # type: ignore[arg-type]
    assert room.throttle_ms(1) == LONGEST_WAIT
    disk.free = None
    clock.advance(BETWEEN_LOOKS)
    assert room.throttle_ms(1) == LONGEST_WAIT
    assert DiskRoom(Disk(None), clock).throttle_ms(1) == 0  # type: ignore[arg-type]


def test_a_produce_is_answered_while_the_disk_does_not_tell_its_room(monkeypatch):
    def ill(self: DiskFiles, path: str) -> int:
        raise OSError(errno.EIO, "Input/output error", path)

    with Broker() as broker:
        broker.create_topic("orders")
        monkeypatch.setattr(DiskFiles, "free_space", ill)
        with Wire(broker.bootstrap) as wire:
            assert produce(wire, "orders", build_batch([Record(b"tea")]))["error_code"] == ErrorCode.NONE
            (directory,) = wire.ask(Api.DESCRIBE_LOG_DIRS, 4, topics=None)["results"]
    assert (directory["error_code"], directory["usable_bytes"]) == (ErrorCode.NONE, -1)
