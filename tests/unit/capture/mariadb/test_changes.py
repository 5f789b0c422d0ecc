"""Events of the log become changes, when it is sure that they were committed."""

import pytest

from runnel.capture.events import Began, Came, Change, Ended, Gone, Mark, Passed, Position, Redefined, Truncated
from runnel.capture.mariadb import changes, groups
from runnel.capture.mariadb.binlog import COMPLETED, GROUP_ID, PREPARED, STANDALONE
from runnel.capture.mariadb.changes import Catalog, MariadbChanges
from runnel.capture.mariadb.definitions import Shown
from runnel.capture.mariadb.errors import LogUnreadable, PreparedLost, StatementLogged
from runnel.capture.mariadb.forms import Modes, form_of
from runnel.capture.mariadb.gtids import place_of
from runnel.capture.mariadb.spelling import Letters
from runnel.capture.mariadb.values import decoder_of
from runnel.capture.tables import Column, Table, TableId
from tests.unit.capture.mariadb.binlog_bytes import DELETE, UPDATE, WRITE, Writer

AT = {"gtid": "0-1-10", "file": "bin.000001", "pos": 4, "server": 1}
tables: dict[tuple[str, ...], Table] = {}


class Given:
    """A log that is there already."""

    def __init__(self, *packets: bytes) -> None:
        self.packets = list(packets)

    def read(self, seconds: float) -> list[bytes]:
        found, self.packets = self.packets, []
        return found

    def close(self) -> None: ...


def define(told):
    kinds = [decoder_of(column, lambda _: lambda value: value.decode()) for column in told.columns]
    columns = tuple(
        Column(column.name, form_of(kind, Modes(), optional=True))
        for column, (kind, _) in zip(told.columns, kinds, strict=True)
    )
    identity = TableId(told.schema, told.name)
    table = tables.setdefault((identity.name,), Table(identity, columns, told.key))
    return Shown(table, tuple(decode for _, decode in kinds))


def reading(*packets, after=None, until=None, **more):
    known = Catalog("here", lambda table: table.name == "t", define, lambda _: None, [TableId("s", "t")])
    return MariadbChanges(Given(*packets), known, 1, after or Position(AT), until, **more)


def read(*packets, **named):
    found = reading(*packets, **named)
    events = []
    while more := found.read(0.0):
        events += more
    return events


def rows_of(events):
    return [(event.op, event.before, event.after) for event in events if isinstance(event, Change)]


@pytest.fixture
def log():
    return Writer()


def test_rows_are_told_with_their_transaction(log):
    events = read(
        log.rotate(), log.begin(11), log.table(), log.rows(WRITE, (1, "a"), (2, None)),
        log.rows(UPDATE, (1, "a"), (1, "b")), log.rows(DELETE, (2, None)), log.xid(),
    )  # fmt: skip
    assert rows_of(events) == [
        ("c", None, (1, "a")), ("c", None, (2, None)), ("u", (1, "a"), (1, "b")), ("d", (2, None), None),
    ]  # fmt: skip
    assert [type(event) for event in events[:2]] == [Began, Redefined]
    assert events[-1] == Ended("0-1-11", {**AT, "gtid": "0-1-11", "pos": log.pos}, 1_700_000_000_000_000)
    assert '"gtid":"0-1-11","file":"bin.000001","pos":' in events[2].source
    assert events[3].source.endswith('"row":1,"thread":null,"query":null')


def test_what_was_rolled_back_to_a_savepoint_is_left_out(log):
    events = read(
        log.begin(11), log.table(), log.rows(WRITE, (1, "a")), log.query("SAVEPOINT `s`"), log.rows(WRITE, (2, "b")),
        log.query("ROLLBACK TO `s`"), log.rows(WRITE, (3, "c")), log.query("COMMIT"),
        log.begin(12), log.table(), log.rows(WRITE, (4, "d")), log.query("ROLLBACK"),
    )  # fmt: skip
    assert [after for _, _, after in rows_of(events)] == [(1, "a"), (3, "c")]


def test_savepoints_are_told_apart_by_their_whole_names(log):
    events = read(
        log.begin(11), log.table(), log.query("SAVEPOINT `a 1`"), log.rows(WRITE, (1, "a")),
        log.query("SAVEPOINT `b 1`"), log.rows(WRITE, (2, "b")), log.query("ROLLBACK TO `a 1`"),
        log.rows(WRITE, (3, "c")), log.query("COMMIT"),
    )  # fmt: skip
    assert [after for _, _, after in rows_of(events)] == [(3, "c")]


def test_a_large_transaction_that_was_rolled_back_is_an_error(log, monkeypatch):
    monkeypatch.setattr(groups, "HELD_BYTES", 10)
    packets = [log.begin(11), log.table(), log.rows(WRITE, (1, "a"))]
    assert rows_of(read(*packets, log.xid())) == [("c", None, (1, "a"))]
    with pytest.raises(LogUnreadable, match="the large transaction 0-1-11 was rolled back in part"):
        read(*packets, log.query("ROLLBACK"))


def test_a_transaction_whose_end_is_missing_is_not_told_and_is_an_error_if_some_of_it_was(log, monkeypatch):
    packets = [log.begin(11), log.table(), log.rows(WRITE, (1, "a")), log.rotate(), log.begin(11), log.table(),
               log.rows(WRITE, (2, "b")), log.xid()]  # fmt: skip
    assert rows_of(read(*packets)) == [("c", None, (2, "b"))]
    monkeypatch.setattr(groups, "HELD_BYTES", 10)
    with pytest.raises(LogUnreadable, match="the large transaction 0-1-11 was rolled back in part"):
        read(*packets)


def large(log, number, *ends):
    """A transaction that goes out before its end, of a table of others."""
    rows = [log.table(8, name=b"other"), log.rows(WRITE, (1, "a"), number=8)]
    return [log.begin(number), *rows, log.query("SAVEPOINT `s`"), *rows[1:], *ends]


def test_a_large_transaction_of_others_that_was_rolled_back_is_passed(log, monkeypatch):
    monkeypatch.setattr(groups, "HELD_BYTES", 10)
    ours = [log.begin(13), log.table(), log.rows(WRITE, (1, "a")), log.xid()]
    packets = [*large(log, 11, log.query("ROLLBACK")), *large(log, 12, log.query("ROLLBACK TO `s`"), log.xid()), *ours]
    assert rows_of(read(*packets)) == [("c", None, (1, "a"))]


def test_of_a_large_transaction_only_what_was_told_cannot_be_rolled_back(log, monkeypatch):
    monkeypatch.setattr(groups, "HELD_BYTES", 10)
    told, other = log.rows(WRITE, (1, "a")), [log.table(8, name=b"other"), log.rows(WRITE, (2, "b"), number=8)]
    packets = [log.begin(11), log.query("SAVEPOINT `r`"), log.table(), told, log.query("SAVEPOINT `s`"), *other]
    last = [log.rows(WRITE, (3, "c")), log.xid()]
    assert [after for _, _, after in rows_of(read(*packets, log.query("ROLLBACK TO `s`"), *last))] == [
        (1, "a"), (3, "c"),
    ]  # fmt: skip
    with pytest.raises(LogUnreadable, match="was rolled back in part"):
        read(*packets, log.query("ROLLBACK TO `r`"), *last)


def test_whoever_looks_back_for_a_prepared_transaction_is_not_stopped_by_a_large_one_of_others(log, monkeypatch):
    monkeypatch.setattr(groups, "HELD_BYTES", 10)
    prepared = [log.begin(8, PREPARED, xa=b"x"), log.table(), log.rows(WRITE, (1, "a")), log.prepare(b"x")]
    packets = [*prepared, *large(log, 9, log.query("ROLLBACK")), log.begin(10), log.xid()]
    known = Catalog("here", lambda _: False, define, lambda _: None, ())
    former = MariadbChanges(Given(*packets), known, 0, Position({**AT, "gtid": "0-1-7"}), AT, find=lambda *_: ())
    former.read(0.0)
    assert former.is_done
    assert [item.kind for item in former.prepared(b"1:1:x")] == [19, WRITE]


def test_a_prepared_transaction_is_told_when_it_is_committed(log):
    prepared = [log.begin(11, PREPARED, xa=b"x"), log.table(), log.rows(WRITE, (1, "a")), log.prepare(b"x")]
    between = [log.begin(12), log.table(), log.rows(WRITE, (2, "b")), log.xid()]
    committed = [log.begin(13, COMPLETED | STANDALONE, xa=b"x"), log.query("XA COMMIT X'78',X'',1")]
    events = read(*prepared, *between)
    assert [after for _, _, after in rows_of(events)] == [(2, "b")]
    behind = events[-1].at
    assert behind["from"] == "0-1-10"
    again = read(*prepared, *between, *committed, after=Position(behind))
    assert [after for _, _, after in rows_of(again)] == [(1, "a")]
    assert "from" not in again[-1].at


def test_a_transaction_that_was_prepared_before_reading_began_is_looked_for_when_it_is_committed(log):
    prepared = [log.begin(9, PREPARED, xa=b"x"), log.table(), log.rows(WRITE, (1, "a")), log.prepare(b"x")]
    committed = [log.rotate(), log.begin(11, COMPLETED | STANDALONE, xa=b"x"), log.query("XA COMMIT X'78',X'',1")]
    former = reading(*prepared, log.begin(10), log.xid(), after=Position({**AT, "gtid": "0-1-8"}), until=AT)
    asked = []

    def find(*given):
        asked.append(given)
        former.read(0.0)
        return former.prepared(given[0])

    events = read(*committed, find=find)
    assert [after for _, _, after in rows_of(events)] == [(1, "a")]
    assert events[-1].id == "0-1-11"
    assert asked == [(b"1:1:x", "bin.000001", place_of("0-1-10"))]
    with pytest.raises(PreparedLost, match=r"transaction 0-1-11 is XA COMMIT x'78',x'',1, and what .*XA RECOVER;"):
        read(*committed)


def test_a_prepared_transaction_that_is_rolled_back_is_not_told(log):
    packets = [log.begin(11, PREPARED, xa=b"x"), log.table(), log.rows(WRITE, (1, "a")), log.prepare(b"x"),
               log.begin(12, COMPLETED | STANDALONE, xa=b"x"), log.query("XA ROLLBACK X'78',X'',1")]  # fmt: skip
    assert not rows_of(read(*packets))


def test_only_what_is_chosen_is_told_and_the_rest_moves_the_position_on(log):
    events = read(
        log.rotate(), log.begin(11), log.table(8, name=b"other"), log.rows(WRITE, (1, "a"), number=8), log.xid(),
        log.begin(5, domain=3), log.query("COMMIT"), log.heartbeat(),
    )  # fmt: skip
    assert events == [Passed({**AT, "gtid": "0-1-11,3-1-5", "pos": log.pos})]


def test_whoever_passes_the_transactions_of_others_says_how_old_they_are_until_there_are_no_more(log):
    others = [
        [log.begin(number), log.table(8, name=b"other"), log.rows(WRITE, (1, "a"), number=8), log.xid()]
        for number in (11, 12)
    ]
    busy = reading(*others[0], others[1][0])
    (passed,) = busy.read(0.0)
    assert (passed.at["gtid"], passed.micros) == ("0-1-11", 1_700_000_000_000_000)
    assert busy.read(0.0) == []  # nothing came
    busy._log.packets = [*others[1][1:], log.heartbeat()]
    busy._passed_at = -changes.PASSED_SECONDS
    (passed,) = busy.read(0.0)
    assert (passed.at["gtid"], passed.micros) == ("0-1-12", None)


def test_nothing_is_passed_while_reading_goes_on_inside_of_a_transaction(log):
    other = [log.begin(11), log.table(8, name=b"other"), log.rows(WRITE, (1, "a"), number=8), log.xid()]
    ours = [log.begin(12), log.table(), log.rows(WRITE, (1, "a")), log.xid()]
    inside = Position(AT, 1)
    assert read(*other, log.heartbeat(), after=inside) == []
    assert [type(event) for event in read(*other, *ours, after=inside)] == [Began, Redefined, Change, Ended]


def test_a_table_that_takes_the_name_of_another_is_told_with_the_one_that_is_gone(log, monkeypatch):
    monkeypatch.setattr(changes, "AT_ONCE", 1)
    packets = [log.begin(11, STANDALONE), log.query("RENAME TABLE t TO old, new TO t")]
    events = reading(*packets).read(0.0)
    assert [type(event) for event in events] == [Began, Gone, Came, Ended]
    assert {event.table for event in events[1:3]} == {TableId("s", "t")}
    assert '"gtid":"0-1-11"' in events[1].source


@pytest.mark.parametrize("group", [b"", bytes(8)])
def test_an_alter_that_is_logged_in_two_phases_is_told_when_it_takes_effect(log, group):
    """Flags of group commits, which have a number, stand behind that. The others are filled up to the same length."""
    flags, sql = STANDALONE | (GROUP_ID if group else 0), "ALTER TABLE t RENAME TO other, ADD n int"
    phases = ((11, b"\x02"), (12, b"\x08" + bytes(8)), (13, b"\x02"), (14, b"\x04" + bytes(8)))
    events = read(
        *(
            packet
            for number, extra in phases
            for packet in (log.begin(number, flags, more=group + extra.ljust(6, b"\0")), log.query(sql))
        )
    )
    assert [type(event) for event in events] == [Began, Gone, Ended]
    assert events[0].id == "0-1-14"


@pytest.mark.parametrize("what", ["DROP PARTITION p", "EXCHANGE PARTITION p WITH TABLE other"])
def test_a_table_whose_rows_came_or_went_with_a_partition_is_told_as_one_that_came(log, what):
    events = read(log.begin(11, STANDALONE), log.query(f"ALTER TABLE t {what}"))
    assert [type(event) for event in events] == [Began, Came, Ended]
    assert events[1].table == TableId("s", "t")


@pytest.mark.parametrize(
    ("letters", "kept", "said"),
    [(Letters.AS_WRITTEN, "t", []), (Letters.LOWERED, "t", ["t"]), (Letters.KEPT, "T", ["T"])],
)
def test_names_of_statements_mean_the_tables_that_the_server_takes_them_for(log, letters, kept, said):
    known = Catalog("here", lambda table: table.schema == "s", define, lambda _: None, [TableId("s", kept)], letters)
    packets = [log.begin(11, STANDALONE), log.query("RENAME TABLE `S`.`T` TO `S`.other")]
    found = MariadbChanges(Given(*packets), known, 1, Position(AT)).read(0.0)
    assert [event.table.name for event in found if isinstance(event, Gone)] == said


def test_a_truncated_table_is_told_though_it_is_gone_since(log):
    events = read(log.begin(11, STANDALONE), log.query("TRUNCATE t"))
    assert [type(event) for event in events] == [Began, Truncated, Ended]
    assert events[1].table == Table(TableId("s", "t"), (), ())


def test_changes_end_exactly_where_they_are_to(log):
    until = {**AT, "gtid": "0-1-11"}
    packets = [log.begin(11), log.table(), log.rows(WRITE, (1, "a")), log.xid(),
               log.begin(12), log.table(), log.rows(WRITE, (2, "b")), log.xid()]  # fmt: skip
    events = read(*packets, until=until)
    assert [after for _, _, after in rows_of(events)] == [(1, "a")]
    assert events[-1] == Passed(until)
    assert read(*packets, until=AT) == [Passed(AT)]


def test_a_mark_is_told_at_its_place(log):
    packets = [log.begin(11), log.table(), log.rows(WRITE, (1, "a")), log.xid(),
               log.begin(12), log.table(), log.rows(WRITE, (2, "b")), log.xid()]  # fmt: skip
    marked = reading(*packets)
    assert marked.mark("here", place_of("0-1-10"))
    assert marked.mark("there", place_of("0-1-11"))
    assert not marked.mark("before", place_of("0-1-9"))
    events = [*marked.read(0.0), *marked.read(0.0)]
    kinds = [event.tag if isinstance(event, Mark) else type(event) for event in events]
    assert kinds == ["here", Began, Redefined, Change, Ended, "there", Began, Change, Ended]
    assert not marked.mark("late", place_of("0-1-11"))


def test_places_beyond_four_gigabytes_are_told(log):
    log.pos = 2**32 - 30
    after = Position({**AT, "pos": log.pos})
    events = read(log.begin(11), log.table(), log.rows(WRITE, (1, "a")), log.xid(), after=after)
    assert events[-1].at["pos"] == log.pos > 2**32


def test_what_cannot_be_read_is_an_error(log):
    with pytest.raises(LogUnreadable, match="it has an event of kind 99, which is not known"):
        read(log.begin(11), log.event(99, b""))
    assert read(log.begin(11), log.event(99, b"", flags=0x80), log.xid()) != []
    with pytest.raises(LogUnreadable, match="without the names of its columns"):
        read(log.begin(11), log.table(names=False), log.xid())


def test_a_statement_instead_of_rows_is_an_error_if_it_is_about_what_is_captured(log):
    assert not rows_of(read(log.begin(11), log.query("INSERT INTO other VALUES (1)"), log.query("COMMIT")))
    with pytest.raises(StatementLogged):
        read(log.begin(12), log.query("INSERT INTO t VALUES (1)"), log.query("COMMIT"))


@pytest.mark.parametrize(
    ("sql", "is_refused"),
    [
        ("REPLACE INTO percona.checksums SELECT * FROM s.t", False),
        ("INSERT INTO elsewhere.t VALUES (1)", False),
        ("DELETE FROM elsewhere.t WHERE a IN (SELECT id FROM s.t)", False),
        ("INSERT INTO s.t SELECT * FROM elsewhere.t", True),
        ("/* x */ insert low_priority ignore `t` SET id = 1", True),
        ("UPDATE elsewhere.u, t SET t.id = 1", True),
        ("WITH u AS (SELECT 1) DELETE FROM t", True),
        ("SET STATEMENT a=1 FOR INSERT INTO t VALUES (1)", True),
    ],
)
def test_a_statement_instead_of_rows_is_about_the_table_that_it_writes_to(log, sql, is_refused):
    known = Catalog("here", lambda table: table == ("s", "t"), define, lambda _: None, [TableId("s", "t")])
    packets = [log.begin(11), log.query(sql), log.query("COMMIT")]
    changes = MariadbChanges(Given(*packets), known, 1, Position(AT))
    if is_refused:
        with pytest.raises(StatementLogged):
            changes.read(0.0)
    else:
        assert [type(event) for event in changes.read(0.0)] == [Passed]


@pytest.mark.parametrize("sql", ["INSERT INTO seen VALUES (1)", "SELECT `s`.`f`(1)"])
def test_a_statement_instead_of_rows_may_write_by_a_view_a_trigger_or_a_function_and_that_is_said_once(
    log, sql, caplog
):
    packets = [log.begin(11), log.query(sql), log.query(sql), log.query("COMMIT")]
    assert not rows_of(read(*packets, log.begin(12), log.query(sql), log.query("COMMIT")))
    (said,) = caplog.messages
    assert said.startswith(f"transaction 0-1-11 has a statement in the log instead of its rows: {sql}; ")


def test_what_has_no_effect_on_rows_is_not_said_to_be_a_statement_instead_of_rows(log, caplog):
    read(log.begin(11), log.table(), log.rows(WRITE, (1, "a")), log.query("SAVEPOINT `s`"), log.query("COMMIT"),
         log.begin(12, STANDALONE), log.query("CREATE TABLE u (a int)"))  # fmt: skip
    assert not caplog.messages


@pytest.mark.parametrize(("table", "is_refused"), [("s.t", True), ("other", False)])
def test_a_file_that_is_loaded_by_a_statement_is_an_error_if_it_is_about_what_is_captured(log, table, is_refused):
    packets = [
        log.begin(11), log.event(17, b"\1\0\0\0" b"1\n2\n"), log.event(9, b"\1\0\0\0" b"3\n"),
        log.load(f"LOAD DATA INFILE 'x' INTO TABLE {table}"), log.xid(),
        log.begin(12), log.event(17, b"\2\0\0\0" b"1\n"), log.event(11, b"\2\0\0\0"), log.query("ROLLBACK"),
    ]  # fmt: skip
    if is_refused:
        with pytest.raises(StatementLogged, match=r"LOAD DATA INFILE .x. INTO TABLE s\.t"):
            read(*packets)
    else:
        (passed,) = read(*packets)
        assert passed.at["gtid"] == "0-1-12"


def test_a_log_that_says_that_changes_are_missing_in_it_is_an_error_with_what_mends_it(log):
    with pytest.raises(LogUnreadable, match="the server says that changes are missing in it: disk full") as caught:
        read(log.event(26, b"\1\0\x09disk full"))
    assert "`runnel capture remove`" in caught.value.hint
