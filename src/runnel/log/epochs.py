"""Leader epochs: which reign of the log wrote which offsets, in the file `leader-epoch-checkpoint`.

A new epoch begins whenever records that somebody may have seen could have been lost. A reader that knows the epoch of
its last record can ask where that epoch ended, and notice that its future was cut off.
"""

from __future__ import annotations

from typing import NamedTuple

from runnel.settings import INT32_MAX, INT64_MAX

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1


class EpochStart(NamedTuple):
    epoch: int
    offset: int


class LeaderEpochs:
    __slots__ = ("_starts",)

    def __init__(self, starts: list[EpochStart] | None = None) -> None:
        self._starts = starts or []

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        return tuple(self._starts)

    @property
    def latest(self) -> int:
        return self._starts[-1].epoch if self._starts else NO_EPOCH

    def begin(self, epoch: int, offset: int) -> bool:
        """Note that `epoch` begins at `offset`; False if it is known already."""
        if epoch <= self.latest:
            return False
        while self._starts and self._starts[-1].offset >= offset:
            self._starts.pop()  # an epoch that wrote nothing
        self._starts.append(EpochStart(epoch, offset))
        return True

    def end_of(self, epoch: int, end_offset: int) -> EpochStart:
        """The largest epoch that is at most `epoch`, and the offset after its last record.

        An epoch before all that are known has no records, or none any more: it ended where these begin. So a reader who
        was at its end goes on there.
        """
        end = end_offset
        for start in reversed(self._starts):
            if start.epoch <= epoch:
                return EpochStart(start.epoch, end)
            end = start.offset
        return EpochStart(epoch, end)

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote the record at `offset`, or would; -1 before the first."""
        return next((start.epoch for start in reversed(self._starts) if start.offset <= offset), NO_EPOCH)

    def cut_from(self, offset: int) -> None:
        """Forget the epochs that begin after `offset`: what they wrote is gone."""
        while self._starts and self._starts[-1].offset > offset:
            self._starts.pop()

    def cut_before(self, offset: int) -> bool:
        """Forget the epochs that ended at `offset` or before; True if something changed."""
        before = len(self._starts)
        while len(self._starts) > 1 and self._starts[1].offset <= offset:
            self._starts.pop(0)
        if self._starts and self._starts[0].offset < offset:
            self._starts[0] = EpochStart(self._starts[0].epoch, offset)
            return True
        return len(self._starts) != before

    def encode(self) -> bytes:
        lines = ["0", str(len(self._starts)), *(f"{epoch} {offset}" for epoch, offset in self._starts)]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> LeaderEpochs:
        """ValueError if the content is not what `encode` makes."""
        version, count, *lines = content.decode("ascii").splitlines()
        if version != "0" or int(count) != len(lines):
            raise ValueError(f"version {version}, {len(lines)} of {count} entries")
        starts = [_start(line) for line in lines]
        if starts != sorted(starts) or any(len(set(column)) < len(starts) for column in zip(*starts, strict=True)):
            raise ValueError("epochs or offsets do not increase")
        return cls(starts)


def _start(line: str) -> EpochStart:
    epoch, offset = map(int, line.split())
    if not 0 <= epoch < INT32_MAX or not 0 <= offset <= INT64_MAX:
        raise ValueError(f"epoch {epoch} at offset {offset}")
    return EpochStart(epoch, offset)
