"""Messages of pgoutput, built by PostgreSQL's manual byte by byte."""

import struct

import pytest

from runnel.capture.postgres import pgoutput
from runnel.capture.postgres.pgoutput import EPOCH, UnreadableMessage, decode
from runnel.capture.tables import UNCHANGED


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def row(*values: object) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            content = str(value).encode()
            parts.append(b"t" + struct.pack(">I", len(content)) + content)
    return b"".join(parts)


def test_a_begin_tells_when_it_was_committed_since_1970():
    message = decode(b"B" + struct.pack(">QqI", 0x16B3748, 1, 751))
    assert message == pgoutput.Begin(commit_lsn=0x16B3748, micros=EPOCH + 1, transaction=751)


def test_a_commit_tells_the_end_of_its_record():
    message = decode(b"C" + struct.pack(">BQQq", 0, 10, 20, -EPOCH))
    assert message == pgoutput.Commit(commit_lsn=10, end_lsn=20, micros=0)


def test_a_relation_has_its_columns_with_their_types_and_which_are_of_its_key():
    columns = b"\1" + text("id") + struct.pack(">Ii", 23, -1) + b"\0" + text("näme") + struct.pack(">Ii", 1043, 54)
    message = decode(
        b"R" + struct.pack(">I", 16385) + text("public") + text("t") + b"d" + struct.pack(">H", 2) + columns
    )
    assert message == pgoutput.Relation(
        16385,
        "public",
        "t",
        "d",
        (pgoutput.RelationColumn("id", 23, -1, True), pgoutput.RelationColumn("näme", 1043, 54, False)),
    )


def test_an_empty_schema_is_that_of_the_system():
    assert decode(b"Y" + struct.pack(">I", 20) + text("") + text("int8")) == pgoutput.TypeName(20, "pg_catalog", "int8")


def test_an_origin_has_its_name():
    assert decode(b"O" + struct.pack(">Q", 99) + text("elsewhere")) == pgoutput.Origin(99, "elsewhere")


def test_an_insert_has_texts_nulls_and_empty_texts():
    message = decode(b"I" + struct.pack(">I", 7) + b"N" + row("1", None, "", "grüße"))
    assert message == pgoutput.Insert(7, ("1", None, "", "grüße"))


@pytest.mark.parametrize(("kind", "is_key"), [(b"K", True), (b"O", False)])
def test_an_update_has_its_old_key_or_its_old_row(kind, is_key):
    message = decode(b"U" + struct.pack(">I", 7) + kind + row("1", None) + b"N" + row("2", UNCHANGED))
    assert message == pgoutput.Update(7, ("1", None), is_key, ("2", UNCHANGED))


def test_an_update_may_have_no_old_row():
    message = decode(b"U" + struct.pack(">I", 7) + b"N" + row("2"))
    assert message == pgoutput.Update(7, None, False, ("2",))


@pytest.mark.parametrize(("kind", "is_key"), [(b"K", True), (b"O", False)])
def test_a_delete_has_its_old_key_or_its_old_row(kind, is_key):
    assert decode(b"D" + struct.pack(">I", 7) + kind + row("1", None)) == pgoutput.Delete(7, ("1", None), is_key)


def test_a_truncate_has_all_its_tables():
    assert decode(b"T" + struct.pack(">IBII", 2, 3, 7, 8)) == pgoutput.Truncate((7, 8))


@pytest.mark.parametrize("transactional", [True, False])
def test_an_emitted_message_has_its_bytes(transactional):
    data = b"M" + struct.pack(">BQ", transactional, 5) + text("audit") + struct.pack(">I", 3) + b"\0\xff!"
    assert decode(data) == pgoutput.Emitted(transactional, 5, "audit", b"\0\xff!")


def test_a_message_may_begin_in_the_middle_of_the_data():
    assert decode(b"w" * 25 + b"T" + struct.pack(">IBI", 1, 0, 7), 25) == pgoutput.Truncate((7,))


def test_a_message_of_an_unknown_kind_is_told():
    with pytest.raises(UnreadableMessage, match="its kind is 'S'"):
        decode(b"S\0\0\0\1\1")


@pytest.mark.parametrize(
    "data",
    [
        b"B\0",
        b"I" + struct.pack(">I", 7) + b"N" + row("1", "2")[:-1],
        b"I" + struct.pack(">I", 7) + b"O" + row("1"),
        b"I" + struct.pack(">I", 7) + b"N" + b"\0\1x",
        b"U" + struct.pack(">I", 7) + b"K" + row("1") + b"K" + row("1"),
        b"Y" + struct.pack(">I", 7) + b"no end",
        b"M" + struct.pack(">BQ", 0, 5) + text("audit") + struct.pack(">I", 3) + b"12",
        b"I" + struct.pack(">I", 7) + b"N" + b"\0\1t\0\0\0\1\xff",
    ],
)
def test_bytes_that_are_no_message_are_told(data):
    with pytest.raises(UnreadableMessage, match="cannot be read"):
        decode(data)
