"""Bytes of a binary log, made by hand: what the tests of its reading are given."""

from struct import pack

from runnel.capture.mariadb.binlog import Event
from runnel.capture.mariadb.table_maps import Option, Type

WRITE, UPDATE, DELETE = 23, 24, 25


class Writer:
    """Events one after the other, each with its place behind the one before."""

    def __init__(self, file: str = "bin.000001", pos: int = 4) -> None:
        self.file = file
        self.pos = pos

    def event(self, kind: int, body: bytes, *, flags: int = 0, server: int = 1) -> bytes:
        self.pos += 19 + len(body)
        return pack("<IBIIIH", 1_700_000_000, kind, server, 19 + len(body), self.pos & 0xFFFFFFFF, flags) + body

    def rotate(self) -> bytes:
        return pack("<IBIIIH", 0, Event.ROTATE, 1, 0, 0, 0x20) + pack("<Q", 4) + self.file.encode()

    def heartbeat(self) -> bytes:
        return pack("<IBIIIH", 0, Event.HEARTBEAT, 1, 0, self.pos & 0xFFFFFFFF, 0) + self.file.encode()

    def begin(
        self, number: int, flags: int = 0, *, domain: int = 0, xa: bytes | None = None, more: bytes = bytes(6)
    ) -> bytes:
        name = b"" if xa is None else pack("<IBB", 1, len(xa), 0) + xa
        return self.event(Event.GTID, pack("<QIB", number, domain, flags) + (name or more))

    def query(self, text: str, schema: str = "s") -> bytes:
        body = pack("<IIBHH", 1, 0, len(schema), 0, 0) + schema.encode() + b"\0" + text.encode()
        return self.event(Event.QUERY, body)

    def load(self, text: str, schema: str = "s") -> bytes:
        """The statement that loads a file, which events before it have."""
        head = pack("<IIBHH", 1, 0, len(schema), 0, 0) + pack("<IIIB", 1, 0, 0, 0)
        return self.event(Event.LOAD, head + schema.encode() + b"\0" + text.encode())

    def xid(self) -> bytes:
        return self.event(Event.XID, pack("<Q", 1))

    def prepare(self, xa: bytes) -> bytes:
        return self.event(Event.XA_PREPARE, pack("<BIII", 0, 1, len(xa), 0) + xa)

    def table(self, number: int = 7, schema: bytes = b"s", name: bytes = b"t", *, names: bool = True) -> bytes:
        """With a column id, the key, and a column v for text."""
        types = bytes([Type.LONG, Type.VARCHAR])
        options = [(Option.SIGNEDNESS, b"\x80"), (Option.DEFAULT_COLLATION, b"\x2d"), (Option.KEY, b"\x00")]
        if names:
            options.append((Option.NAMES, b"\x02id\x01v"))
        body = pack("<IHH", number, 0, 1) + _named(schema) + _named(name) + b"\x02" + types + b"\x02\x14\x00" + b"\x02"
        return self.event(Event.TABLE_MAP, body + b"".join(bytes([kind, len(part)]) + part for kind, part in options))

    def rows(self, kind: int, *rows: tuple[int, str | None], number: int = 7) -> bytes:
        images = 2 if kind == UPDATE else 1
        body = pack("<IHH", number, 0, 1) + b"\x02" + b"\x03" * images
        return self.event(kind, body + b"".join(map(_row, rows)))


def _named(text: bytes) -> bytes:
    return bytes([len(text)]) + text + b"\0"


def _row(row: tuple[int, str | None]) -> bytes:
    number, text = row
    if text is None:
        return b"\x02" + pack("<I", number)
    return b"\x00" + pack("<I", number) + bytes([len(text)]) + text.encode()
