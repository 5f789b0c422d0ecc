import inspect
import re

import pytest

from runnel import errors
from runnel.errors import (
    BatchTooLarge,
    Closed,
    DamagedLog,
    DirectoryOwned,
    DiskLow,
    InvalidSetting,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PartitionFailed,
    Permanent,
    RunnelError,
    StaleProducerEpoch,
    Transient,
    UnusableDirectory,
)

EXAMPLES = [
    (
        DirectoryOwned("/data", 12),
        "data directory /data is in use by process 12 (stop that process, or use another directory)",
    ),
    (
        DirectoryOwned("/data", None),
        "data directory /data is in use by another process (stop that process, or use another directory)",
    ),
    (
        DiskLow("/data", 1_000, 64_000),
        "the disk of /data has 1,000 bytes free, below the low-disk mark of 64,000 "
        "(free some space or lower the retention; writes go on by themselves afterwards)",
    ),
    (
        PartitionFailed("orders-0", "a sync", OSError(5, "Input/output error")),
        "partition orders-0 refuses writes: a sync failed: [Errno 5] Input/output error "
        "(records that were acknowledged are safe and can be read; "
        "writes go on by themselves when the disk is well again)",
    ),
    (
        InvalidSetting("segment.bytes", 5, "at least 1,024"),
        "setting segment.bytes = 5 (expected at least 1,024)",
    ),
    (
        BatchTooLarge(2_000, 1_000, "max.message.bytes"),
        "record batch of 2,000 bytes is over max.message.bytes = 1,000 "
        "(send smaller batches or raise max.message.bytes)",
    ),
    (
        OffsetOutOfRange("orders-0", 3, 10, 20),
        "offset 3 of partition orders-0 is outside of 10..20 "
        "(records before 10 were deleted by retention or on request; the next one gets 20)",
    ),
    (
        OutOfOrderSequence(7, 0, 9, 5),
        "producer 7 epoch 0 sent sequence 9, expected 5 "
        "(a batch before it was lost or is older than the five that are remembered)",
    ),
    (
        StaleProducerEpoch(7, 1, 2),
        "producer 7 wrote with epoch 1, but epoch 2 is in force (a newer copy of this producer has taken over)",
    ),
    (
        DamagedLog("x.log", 1_234, 5, 9, "no batch stands there"),
        "x.log is damaged at position 1,234: no batch stands there; records from offset 5 before offset 9 "
        "cannot be read (restore the file from a backup, or read on from offset 9)",
    ),
    (
        DamagedLog("x.log", 1_234, 5, None, "no batch stands there"),
        "x.log is damaged at position 1,234: no batch stands there; records from offset 5 to the end of the segment "
        "cannot be read (restore the file from a backup, or read another segment)",
    ),
    (
        UnusableDirectory("/data", "it has format 2", hint="use a newer version"),
        "/data cannot be used as a data directory: it has format 2 (use a newer version)",
    ),
    (Closed("log /data"), "log /data is closed (open it again)"),
]
CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize(("error", "text"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_error_says_what_where_and_what_next(error: RunnelError, text: str) -> None:
    assert str(error) == text


def test_an_error_without_a_hint_is_what_is_wrong() -> None:
    assert str(RunnelError("the tea is cold")) == "the tea is cold"


def test_what_is_wrong_and_the_hint_can_be_told_apart() -> None:
    error = Closed("log /data")

    assert (error.what, error.hint) == ("log /data is closed", "open it again")


def test_a_failure_keeps_its_cause() -> None:
    cause = OSError(5, "Input/output error")
    error = PartitionFailed("orders-0", "a sync", cause)

    assert (error.partition, error.doing, error.cause) == ("orders-0", "a sync", cause)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_tells_by_its_class_whether_to_try_again(kind: type[RunnelError]) -> None:
    assert kind is RunnelError or issubclass(kind, Transient) != issubclass(kind, Permanent)


def test_the_tree_in_the_docstring_shows_every_error_under_its_parent() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line)
        if found:
            del above[len(found[1]) // 4 :]
            drawn[found[2]] = above[-1] if above else "Exception"
            above.append(found[2])

    assert drawn == {kind.__name__: kind.__mro__[1].__name__ for kind in CLASSES}
