"""Pieces of a table end only where reading can go on by the last key: no row is left out, and none read for ever."""

from itertools import count

import pytest

from runnel.capture.sqlite import snapshot as snapshots


def text(*each: bytes) -> list[str]:
    """Texts that need not be UTF-8, as SQL."""
    return [f"CAST(x'{one.hex()}' AS TEXT)" for one in each]


KEYS = [
    # text of another encoding, which is told with marks: those are not where the text itself stands in the order
    ("k TEXT PRIMARY KEY", text(b"a", b"\xc4d", b"\xd6c", b"\xdcb", b"\xfca", b"\xfdb", b"\xfec")),
    # an order that takes words for the same which the key tells apart
    ("k TEXT COLLATE NOCASE, PRIMARY KEY (k COLLATE BINARY)", ["'a'", "'A'", "'b'", "'B'", "'c'", "'C'"]),
    ("k TEXT COLLATE RTRIM, PRIMARY KEY (k COLLATE BINARY)", ["'a'", "'a '", "'a  '", "'b'", "'b '"]),
]


@pytest.fixture(params=KEYS, ids=["bytes", "nocase", "rtrim"])
def table(captured, request):
    key, keys = request.param
    captured.write(f"CREATE TABLE t (n INTEGER, {key})")
    for number, each in enumerate(keys):
        captured.write(f"INSERT INTO t VALUES ({number}, {each})")
    return len(keys)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_chunks_have_every_row_once(captured, table, limit):
    source = captured.prepare()
    source.changes(captured.position)
    (shown,) = (source.table(each) for each in source.tables())
    read, after = [], None
    for number in count():
        assert number <= table
        chunk = source.chunk(shown, after, limit, f"t/{number}")
        read += [row[0] for row in chunk.rows]
        if chunk.is_last:
            break
        after = shown.key_of(chunk.rows[-1])
    assert sorted(read) == list(range(table))


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_snapshot_goes_on_behind_each_of_its_pieces(captured, table, limit, monkeypatch):
    monkeypatch.setattr(snapshots, "ROWS_AT_ONCE", limit)
    source = captured.prepare()
    with source.snapshot() as snapshot:
        (shown,) = snapshot.tables()
        pieces = [list(piece) for piece in snapshot.rows(shown)]
        assert sorted(row[0] for piece in pieces for row in piece) == list(range(table))
        for place, piece in enumerate(pieces[:-1]):
            rest = [row for piece in snapshot.rows(shown, shown.key_of(piece[-1])) for row in piece]
            assert sorted(rest) == sorted(row for piece in pieces[place + 1 :] for row in piece)
