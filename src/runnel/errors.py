"""Every error that Runnel raises on purpose.

An error says what is wrong and where, keeps its values as attributes, and carries a hint: what to do next.
Its class says whether trying again can help.

    RunnelError
    ├── Transient                 the same call may succeed later
    │   ├── DirectoryOwned        another process has the data directory open
    │   ├── AddressInUse          another process listens on the port
    │   ├── DiskLow               free space is below the low-disk mark
    │   ├── PartitionUnopened     a partition's files cannot be opened or made
    │   ├── CompactionFailed      the process that compacts a partition did not come to its end
    │   └── PartitionFailed       a write or a sync failed; the partition refuses writes until the disk is well
    └── Permanent                 the same call will fail again
        ├── UnknownTopic          there is no topic of that name
        ├── TopicExists           there is one already
        ├── InvalidSetting        a setting has an unknown name or a value outside of its range
        ├── InvalidBatch          bytes that are no acceptable record batch
        │   ├── CorruptBatch      its checksum, lengths or counts do not fit each other
        │   ├── InvalidTimestamp  it has a time that only the log can give it
        │   └── BatchTooLarge     it is larger than the topic or a segment allows
        ├── OffsetOutOfRange      the offset is before the start or after the end of the partition
        ├── SequenceError         an idempotent producer's batch does not follow the last one
        │   ├── OutOfOrderSequence
        │   └── StaleProducerEpoch
        ├── InvalidTransactionState  a batch does not fit what its producer's transaction is in
        ├── CoordinatorFenced     a transaction's marker is by the word of a coordinator that was replaced
        ├── DamagedLog            bytes that were synced are not what was written
        ├── UnreadableRecords     a batch is as its producer sent it, but its records cannot be unpacked
        ├── AddressUnusable       the broker cannot listen there
        ├── MalformedRequest      bytes on a connection that are no request of Kafka's protocol
        ├── UnusableDirectory     not a data directory of ours, or of a newer format
        │   └── FileInTheWay      there is a file where a directory is wanted
        ├── ReplayFailed          a state that lives in a log could not be rebuilt
        └── Closed                the log, or a client, was closed
"""

from __future__ import annotations

import errno


class RunnelError(Exception):
    """What went wrong, and a hint what to do next."""

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what} ({self.hint})" if self.hint else self.what


class Transient(RunnelError):
    """The same call may succeed later."""


class Permanent(RunnelError):
    """The same call will fail again."""


class DirectoryOwned(Transient):
    def __init__(self, path: str, pid: int | None) -> None:
        owner = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"data directory {path} is in use by {owner}",
            hint="stop that process, or use another directory",
        )
        self.path = path
        self.pid = pid


class AddressInUse(Transient):
    def __init__(self, address: str) -> None:
        super().__init__(
            f"cannot listen on {address}: another process does already",
            hint="stop that process, or name another port; port 0 picks a free one",
        )
        self.address = address


class DiskLow(Transient):
    def __init__(self, path: str, free: int, mark: int) -> None:
        super().__init__(
            f"the disk of {path} has {free:,} bytes free, below the low-disk mark of {mark:,}",
            hint="free some space or lower the retention; writes go on by themselves afterwards",
        )
        self.path = path
        self.free = free
        self.mark = mark


class PartitionUnopened(Transient):
    def __init__(self, partition: str, cause: OSError) -> None:
        super().__init__(
            f"partition {partition} cannot be opened: {cause}",
            hint=f"{remedy(cause)}; it is opened when it is asked for again",
        )
        self.partition = partition
        self.cause = cause


class CompactionFailed(Transient):
    def __init__(self, partition: str, reason: str) -> None:
        super().__init__(
            f"compaction of partition {partition} failed: {reason}", hint="nothing has changed; it will be tried again"
        )
        self.partition = partition
        self.reason = reason


class PartitionFailed(Transient):
    def __init__(self, partition: str, doing: str, cause: BaseException) -> None:
        super().__init__(
            f"partition {partition} refuses writes: {doing} failed: {str(cause) or type(cause).__name__}",
            hint="records that were acknowledged are safe and can be read; "
            "writes go on by themselves when the disk is well again",
        )
        self.partition = partition
        self.doing = doing
        self.cause = cause


class UnknownTopic(Permanent):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no topic {name!r}", hint="create it first, or see to the name")
        self.name = name


class TopicExists(Permanent):
    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name!r} exists already", hint="use it as it is, or delete it first")
        self.name = name


class InvalidSetting(Permanent):
    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"setting {name} = {value!r}", hint=f"expected {expected}")
        self.name = name
        self.value = value
        self.expected = expected


class InvalidBatch(Permanent):
    """Bytes that are no acceptable record batch."""


class CorruptBatch(InvalidBatch):
    """A batch whose checksum, lengths or counts do not fit each other."""


class InvalidTimestamp(InvalidBatch):
    """A batch that claims the log's own time, which only the log can give it."""


class BatchTooLarge(InvalidBatch):
    def __init__(self, size: int, limit: int, setting: str) -> None:
        super().__init__(
            f"record batch of {size:,} bytes is over {setting} = {limit:,}",
            hint=f"send smaller batches or raise {setting}",
        )
        self.size = size
        self.limit = limit
        self.setting = setting


class OffsetOutOfRange(Permanent):
    def __init__(self, partition: str, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"offset {offset} of partition {partition} is outside of {start}..{end}",
            hint=f"records before {start} were deleted by retention or on request; the next one gets {end}",
        )
        self.partition = partition
        self.offset = offset
        self.start = start
        self.end = end


class SequenceError(Permanent):
    """An idempotent producer's batch does not follow the last one."""


class OutOfOrderSequence(SequenceError):
    def __init__(self, producer_id: int, epoch: int, sequence: int, expected: int) -> None:
        super().__init__(
            f"producer {producer_id} epoch {epoch} sent sequence {sequence}, expected {expected}",
            hint="a batch before it was lost or is older than the five that are remembered",
        )
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = sequence
        self.expected = expected


class StaleProducerEpoch(SequenceError):
    def __init__(self, producer_id: int, epoch: int, current: int) -> None:
        super().__init__(
            f"producer {producer_id} wrote with epoch {epoch}, but epoch {current} is in force",
            hint="a newer copy of this producer has taken over",
        )
        self.producer_id = producer_id
        self.epoch = epoch
        self.current = current


class InvalidTransactionState(Permanent):
    """A batch does not fit the state of its producer's transaction."""


class CoordinatorFenced(Permanent):
    def __init__(self, producer_id: int, epoch: int, current: int) -> None:
        super().__init__(
            f"a marker for producer {producer_id} came from coordinator epoch {epoch}, but {current} is in force",
            hint="a newer coordinator has taken over, and ends the transaction",
        )
        self.producer_id = producer_id
        self.epoch = epoch
        self.current = current


class DamagedLog(Permanent):
    """Bytes that were synced are not what was written: the disk, or somebody, changed them."""

    def __init__(self, path: str, position: int, first_offset: int, next_offset: int | None, reason: str) -> None:
        until = f"before offset {next_offset}" if next_offset is not None else "to the end of the segment"
        resume = f"read on from offset {next_offset}" if next_offset is not None else "read another segment"
        super().__init__(
            f"{path} is damaged at position {position:,}: {reason}; "
            f"records from offset {first_offset} {until} cannot be read",
            hint=f"restore the file from a backup, or {resume}",
        )
        self.path = path
        self.position = position
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.reason = reason


class UnreadableRecords(Permanent):
    """A batch is as its producer sent it, checksum and all, but its records cannot be unpacked."""

    def __init__(self, first_offset: int, next_offset: int, reason: str) -> None:
        super().__init__(
            f"the batch with offsets {first_offset} to {next_offset - 1} was written as its producer sent it, "
            f"but its records cannot be unpacked: {reason}",
            hint=f"see to the producer, and read on from offset {next_offset}",
        )
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.reason = reason


class AddressUnusable(Permanent):
    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"cannot listen on {address}: {reason}",
            hint="name an address of this machine; 0.0.0.0 stands for all of them, and ports below 1024 need rights",
        )
        self.address = address
        self.reason = reason


class MalformedRequest(Permanent):
    """Bytes on a connection that are no request of Kafka's protocol."""


class UnusableDirectory(Permanent):
    def __init__(self, path: str, reason: str, *, hint: str) -> None:
        super().__init__(f"{path} cannot be used as a data directory: {reason}", hint=hint)
        self.path = path
        self.reason = reason


class FileInTheWay(UnusableDirectory):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason, hint="name another one, or move the file away")


class ReplayFailed(Permanent):
    """A state that lives in a log could not be rebuilt."""


class Closed(Permanent):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is closed", hint="open it again")
        self.name = name


def remedy(error: OSError) -> str:
    """What helps where a file of a data directory cannot be used."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "give the user that runs this process access to it"
    if error.errno == errno.EROFS:
        return "see to the disk, which can only be read"
    return "free some space or see to the disk"
