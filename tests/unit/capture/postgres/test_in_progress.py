"""Pieces of transactions, built by PostgreSQL's manual byte by byte, and what becomes of them."""

import struct
from collections.abc import Sequence

import pytest

from runnel.capture.postgres import replication
from runnel.capture.postgres.errors import PiecesNotKept
from runnel.capture.postgres.in_progress import InProgress
from runnel.capture.postgres.pgoutput import EPOCH, Begin, Commit, Insert, Relation, UnreadableMessage, decode
from runnel.capture.postgres.replication import HEADER


def sent(body: bytes, lsn: int = 7) -> bytes:
    return b"w" + struct.pack(">QQq", lsn, lsn, 0) + body


def start(transaction: int) -> bytes:
    return sent(b"S" + struct.pack(">IB", transaction, 1))


def stop() -> bytes:
    return sent(b"E")


def commit(transaction: int, lsn: int = 100) -> bytes:
    return sent(b"c" + struct.pack(">IBQQq", transaction, 0, lsn, lsn + 10, 5))


def abort(transaction: int, part: int) -> bytes:
    return sent(b"A" + struct.pack(">II", transaction, part))


def insert(value: str, part: int | None = None, relation: int = 1) -> bytes:
    number = b"" if part is None else struct.pack(">I", part)
    row = struct.pack(">H", 1) + b"t" + struct.pack(">I", len(value)) + value.encode()
    return sent(b"I" + number + struct.pack(">I", relation) + b"N" + row)


def relation(name: str, part: int, oid: int = 1) -> bytes:
    return sent(b"R" + struct.pack(">II", part, oid) + b"public\0" + name.encode() + b"\0d" + struct.pack(">H", 0))


class Fake:
    def __init__(self, *received: Sequence[bytes]) -> None:
        self._received = list(received)
        self.is_closed = False
        self.reports = 0

    def read(self, seconds: float) -> Sequence[bytes]:
        return self._received.pop(0) if self._received else []

    def report_if_due(self) -> None:
        self.reports += 1

    def close(self) -> None:
        self.is_closed = True


def told(*received: bytes) -> list[object]:
    messages = InProgress(Fake(list(received)))
    found = [short(decode(data, HEADER)) if data[0:1] == b"w" else "keepalive" for data in messages.read(0)]
    messages.close()
    return found


def short(message: object) -> object:
    return message.row[0] if isinstance(message, Insert) else message


BEGIN, END = Begin(100, 5 + EPOCH, 9), Commit(100, 110, 5 + EPOCH)


def test_pieces_are_told_at_the_commit_as_an_ordinary_transaction():
    pieces = [start(9), insert("a", 9), stop(), start(9), insert("b", 9), stop()]
    assert told(*pieces) == []
    assert told(*pieces, commit(9)) == [BEGIN, "a", "b", END]


def test_what_is_rolled_back_is_never_told():
    assert told(start(9), insert("a", 9), stop(), abort(9, 9), insert("b")) == ["b"]


def test_a_part_behind_a_savepoint_that_is_rolled_back_is_left_out():
    pieces = [start(9), insert("a", 9), insert("b", 10), insert("c", 11), stop(), abort(9, 11), abort(9, 10)]
    assert told(*pieces, start(9), insert("d", 12), stop(), commit(9)) == [BEGIN, "a", "d", END]


def test_a_server_that_tells_more_of_what_is_rolled_back_means_the_same():
    """Protocol 4 adds where and when."""
    more = struct.pack(">Qq", 90, 4)
    pieces = [start(9), insert("a", 9), insert("b", 10), stop(), abort(9, 10) + more]
    assert told(*pieces, commit(9)) == [BEGIN, "a", END]
    assert told(*pieces, abort(9, 9) + more, insert("c")) == ["c"]


def test_transactions_that_go_on_side_by_side_are_told_one_after_the_other():
    pieces = [start(9), insert("a", 9), stop(), start(8), insert("x", 8), stop(), insert("beside")]
    ending = [start(9), insert("b", 9), stop(), commit(9), abort(8, 8)]
    assert told(*pieces, *ending) == ["beside", BEGIN, "a", "b", END]


def test_keepalives_and_whole_transactions_pass():
    keepalive = b"k" + struct.pack(">QqB", 1, 2, 0)
    assert told(keepalive, start(9), keepalive, insert("a", 9), stop(), insert("b")) == ["keepalive", "keepalive", "b"]


def test_a_table_that_a_dropped_part_described_is_known_to_the_others():
    pieces = [start(9), relation("t", 10), insert("a", 10), insert("b", 9), stop(), abort(9, 10), commit(9)]
    found = told(*pieces)
    assert [type(each) for each in found] == [Begin, Relation, str, Commit]
    assert found[2] == "b"


def test_a_table_is_as_the_parts_that_are_left_describe_it():
    pieces = [start(9), relation("t", 9), relation("other", 10), insert("a", 10), insert("b", 9), stop()]
    found = told(*pieces, abort(9, 10), commit(9))
    assert [each.name for each in found if isinstance(each, Relation)] == ["t"]


def test_a_large_transaction_is_read_in_several_readings_while_the_connection_is_kept_alive(monkeypatch):
    monkeypatch.setattr(replication, "MESSAGES", 4)
    connection = Fake([start(9), *(insert(str(number), 9) for number in range(10)), stop(), commit(9), insert("next")])
    messages = InProgress(connection)
    readings = [[short(decode(data, HEADER)) for data in messages.read(0)] for _ in range(5)]
    assert [len(each) for each in readings] == [4, 4, 4, 1, 0]
    assert [each for reading in readings for each in reading] == [BEGIN, *map(str, range(10)), END, "next"]
    assert connection.reports == 3
    messages.close()


def test_closing_closes_the_connection_and_the_files(tmp_path):
    connection = Fake([start(9), insert("a", 9), stop()])
    messages = InProgress(connection, tmp_path)
    messages.read(0)
    messages.close()
    assert connection.is_closed
    assert not list(tmp_path.iterdir())


def test_a_commit_of_nothing_is_told():
    with pytest.raises(UnreadableMessage, match="the commit of 9, of which nothing came"):
        told(commit(9))


def test_a_directory_that_is_not_there_is_named(tmp_path):
    messages = InProgress(Fake([start(9)]), tmp_path / "nowhere")
    with pytest.raises(PiecesNotKept, match=r"cannot be kept in .*nowhere until it is committed: No such file") as told:
        messages.read(0)
    assert "in_progress=DIRECTORY" in str(told.value.hint)


def test_a_disk_that_is_full_is_told(tmp_path, monkeypatch):
    class Full:
        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None: ...

    monkeypatch.setattr("runnel.capture.postgres.in_progress.TemporaryFile", lambda **_: Full())
    messages = InProgress(Fake([start(9), insert("a", 9)]), tmp_path)
    with pytest.raises(PiecesNotKept, match="No space left on device"):
        messages.read(0)
