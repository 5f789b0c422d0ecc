"""Large transactions that come in pieces before they are committed: kept on disk, and told when they are.

With `streaming` the server does not keep what is beyond its logical_decoding_work_mem on its own disk until the commit:
it sends it as it goes, and later says whether the transaction, or a part of it behind a savepoint, was rolled back.
`InProgress` stands between the connection and whoever reads whole transactions. At the commit the pieces become the
messages of an ordinary transaction, at the place in the order of commits where it belongs; nobody sees them before.

Each transaction has a file without a name, which is gone with the process whatever happens. Nothing needs it after a
crash: the server sends again what was not confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from tempfile import TemporaryFile, gettempdir
from typing import IO, Final, NamedTuple, Protocol

from runnel.capture.postgres import replication
from runnel.capture.postgres.errors import PiecesNotKept
from runnel.capture.postgres.pgoutput import UnreadableMessage
from runnel.capture.postgres.replication import HEADER, LOG

START, STOP, COMMIT, ABORT, RELATION, ORIGIN = b"SEcARO"
BODY: Final = HEADER + 1  # where a message of a piece has the number of its part, and others begin

_NUMBER: Final = Struct(">I").unpack_from
_COMMIT: Final = Struct(">IBQQq").unpack_from
_ABORT: Final = Struct(">II").unpack_from
_ENTRY: Final = Struct(">II")
_BEGIN_MESSAGE: Final = Struct(">cQqI").pack
_COMMIT_MESSAGE: Final = Struct(">cBQQq").pack


class Connection(Protocol):
    """A `Replication`."""

    def read(self, seconds: float) -> Sequence[bytes]: ...

    def report_if_due(self) -> None: ...

    def close(self) -> None: ...


class Committed(NamedTuple):
    transaction: int
    begin: bytes  # as messages of an ordinary transaction
    commit: bytes


class InProgress:
    """Messages of whole transactions, in the order of their commits. `directory` is where files are; or the system's
    place for temporary ones.
    """

    def __init__(self, connection: Connection, directory: Path | None = None) -> None:
        self._connection = connection
        self._directory = directory
        self._kept: dict[int, Pieces] = {}
        self._open: Pieces | None = None  # of which a piece is coming
        self._flow: Iterator[bytes] | None = None  # what was received and is not read yet

    def read(self, seconds: float) -> Sequence[bytes]:
        """As of a connection. Of a transaction that was kept there may be more than fits into one reading."""
        if self._flow is None:
            self._flow = self._whole(self._connection.read(seconds))
        else:
            self._connection.report_if_due()
        found: list[bytes] = []
        size = 0
        for data in self._flow:
            found.append(data)
            size += len(data)
            if len(found) >= replication.MESSAGES or size >= replication.BYTES:
                return found
        self._flow = None
        return found

    def close(self) -> None:
        self._flow = None
        for pieces in self._kept.values():
            pieces.close()
        self._kept.clear()
        self._connection.close()

    def _whole(self, received: Sequence[bytes]) -> Iterator[bytes]:
        for data in received:
            kind = data[HEADER] if data[0] == LOG else None
            if kind == COMMIT:
                yield from self._commit(data)
            elif kind == ABORT:
                self._abort(data)
            elif kind == START:
                self._open = self._of(_NUMBER(data, BODY)[0])
            elif kind == STOP:
                self._open = None
            elif kind is None or self._open is None:
                yield data
            elif kind != ORIGIN:  # which alone has no number, and is told to nobody
                self._open.add(_NUMBER(data, BODY)[0], data[:BODY] + data[BODY + 4 :])

    def _of(self, transaction: int) -> Pieces:
        pieces = self._kept.get(transaction)
        if pieces is None:
            pieces = self._kept[transaction] = Pieces(self._directory)
        return pieces

    def _commit(self, data: bytes) -> Iterator[bytes]:
        committed = committed_of(data)
        pieces = self._kept.get(committed.transaction)
        if pieces is None:
            raise UnreadableMessage(f"the commit of {committed.transaction}, of which nothing came")
        yield committed.begin
        yield from pieces.messages()
        yield committed.commit
        del self._kept[committed.transaction]
        pieces.close()

    def _abort(self, data: bytes) -> None:
        transaction, part = _ABORT(data, BODY)
        pieces = self._kept.get(transaction)
        if pieces is None:
            return
        if part != transaction:
            pieces.drop(part)
            return
        del self._kept[transaction]
        pieces.close()


class Pieces:
    """What came of a transaction, in its order; each message with the number of the part that it belongs to: the
    transaction's own, or that of what is behind a savepoint.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._dropped: set[int] = set()
        try:
            self._file: IO[bytes] = TemporaryFile(dir=directory)  # noqa: SIM115  # `close` closes it
        except OSError as error:
            raise self._not_kept(error) from error

    def add(self, part: int, data: bytes) -> None:
        try:
            self._file.write(_ENTRY.pack(part, len(data)))
            self._file.write(data)
        except OSError as error:
            raise self._not_kept(error) from error

    def drop(self, part: int) -> None:
        self._dropped.add(part)

    def messages(self) -> Iterator[bytes]:
        """Without the parts that were dropped. But a table is described once in a transaction, whichever part is the
        first to change it: the others need that, too.
        """
        described: set[int] = set()
        try:
            self._file.seek(0)
            while entry := self._file.read(_ENTRY.size):
                part, length = _ENTRY.unpack(entry)
                data = self._file.read(length)
                if data[HEADER] == RELATION:
                    relation = _NUMBER(data, BODY)[0]
                    if part in self._dropped and relation in described:
                        continue
                    described.add(relation)
                elif part in self._dropped:
                    continue
                yield data
        except OSError as error:
            raise self._not_kept(error) from error

    def close(self) -> None:
        self._file.close()

    def _not_kept(self, error: OSError) -> PiecesNotKept:
        return PiecesNotKept(str(self._directory or gettempdir()), error.strerror or str(error))


def committed_of(data: bytes) -> Committed:
    transaction, flags, commit_lsn, end_lsn, micros = _COMMIT(data, BODY)
    header = data[:HEADER]
    return Committed(
        transaction,
        header + _BEGIN_MESSAGE(b"B", commit_lsn, micros, transaction),
        header + _COMMIT_MESSAGE(b"C", flags, commit_lsn, end_lsn, micros),
    )
