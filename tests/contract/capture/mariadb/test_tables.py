"""Tables that take the names of others: at rest a topic is the table that has the name."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from contextlib import contextmanager

import pytest

from runnel.capture import capture as captures
from runnel.capture.chosen import Mode
from runnel.capture.errors import TableMissing
from runnel.capture.mariadb import changes
from runnel.capture.outbox import Outbox
from runnel.capture.selection import Selection
from runnel.capture.state import read_state
from runnel.client.cluster import Cluster
from tests.contract.capture.cut_off import lived
from tests.contract.capture.lives import capture_of, running, wait_until
from tests.contract.capture.mariadb_server import SERVER_USER
from tests.contract.capture.topics import check_transactions, committed

pytestmark = pytest.mark.servers

CHOSEN = Selection(tables=[r".*\.(items|loose)"])
MADE = "CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20))"
OUTBOX = (
    "CREATE TABLE outbox (id int, aggregatetype varchar(40), aggregateid varchar(40), type varchar(40),"
    " payload varchar(40))"
)
PARTED = (
    "PARTITION BY RANGE ({key}) (PARTITION low VALUES LESS THAN (10), PARTITION middle VALUES LESS THAN (20),"
    " PARTITION high VALUES LESS THAN MAXVALUE)"
)
STEPS = {
    "a swap, as tools do it that change a table beside its use": (
        "INSERT INTO spare VALUES (1, 'new'), (7, 'new')",
        "RENAME TABLE items TO old, spare TO items",
        "INSERT INTO items VALUES (8, 'after')",
        "INSERT INTO old VALUES (9, 'elsewhere')",
    ),
    "another one in the place of one that was dropped": ("DROP TABLE items", "RENAME TABLE old TO items"),
    "made again": ("DROP TABLE items", MADE.format(name="items"), "INSERT INTO items VALUES (3, 'again')"),
    "replaced": (
        "CREATE OR REPLACE TABLE items (id int PRIMARY KEY, w int)",
        "INSERT INTO items VALUES (4, 5)",
    ),
    "replaced by what another has": ("CREATE OR REPLACE TABLE items (PRIMARY KEY (id)) SELECT * FROM source",),
    "made like another": (
        "DROP TABLE items",
        "CREATE TABLE items LIKE source",
        "INSERT INTO items SELECT id + 10, v FROM source",
        "CREATE TABLE IF NOT EXISTS items (id int)",
    ),
    "renamed by ALTER TABLE": ("ALTER TABLE items RENAME TO away", "ALTER TABLE source RENAME items"),
    "without a key": (
        "INSERT INTO loose_too VALUES (2), (2), (3)",
        "RENAME TABLE loose TO loose_old, loose_too TO loose",
        "INSERT INTO loose VALUES (4)",
    ),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(captures, "IDLE_MICROS", 0)
    monkeypatch.setattr(changes, "PASSED_SECONDS", 0.0)


@pytest.fixture
def tables(database):
    database.run(*(MADE.format(name=name) for name in ("items", "spare", "source")))
    database.run("CREATE TABLE loose (x int)", "CREATE TABLE loose_too (x int)", "INSERT INTO loose VALUES (1), (1)")
    database.run("INSERT INTO items VALUES (1, 'old'), (2, 'old')", "INSERT INTO source VALUES (5, 'a'), (6, 'b')")
    return database


@contextmanager
def captured(database, broker, name, chosen=CHOSEN, **options):
    source, looking = database.source(name, chosen), database.source(f"{name}-looking", chosen)
    with running(capture_of(name, source, broker.bootstrap, chosen, **options)) as capture:
        yield lambda count=2: wait_until(lambda: is_still(capture, looking, count))


def is_still(capture, looking, count):
    state = capture.state
    is_read = capture.is_streaming.is_set() and state.is_complete and len(state.tables) == count
    return is_read and not state.position.index and looking.behind(state.position) == 0


def rows_of(records):
    """The rows of a topic, as so many of each: the last word of each key, or all where there are no keys."""
    rows, bag = {}, Counter()
    for record in records:
        if record.op == "t":
            rows, bag = {}, Counter()
        elif record.key is None:
            bag[json.dumps(record.value["after"])] += 1
        elif record.op == "d" or record.value is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = record.value["after"]
    return bag + Counter(json.dumps(row) for row in rows.values())


def check(database, broker, name, step, tables=("items", "loose")):
    topics = committed(broker.bootstrap, f"{name}.")
    for table in tables:
        columns = [column for column, *_ in database.ask(f"SHOW COLUMNS FROM {table}")]
        rows = Counter(json.dumps(dict(zip(columns, row, strict=True))) for row in database.rows(table))
        assert rows_of(topics[f"{name}.{database.schema}.{table}"]) == rows, f"{table}: {step}"


def test_at_rest_a_topic_is_the_table_that_has_the_name(tables, broker):
    name = f"named-{tables.schema}"
    with captured(tables, broker, name) as rest:
        rest()
        for step, statements in STEPS.items():
            tables.run(*statements)
            rest()
            check(tables, broker, name, step)
    tables.run("RENAME TABLE items TO old, away TO items", "DELETE FROM items LIMIT 1")
    with captured(tables, broker, name) as rest:
        rest()
        check(tables, broker, name, "a swap while nobody reads")
    tables.run("DROP TABLE items")
    with captured(tables, broker, name) as rest:
        rest(1)
        tables.run(MADE.format(name="items"), "INSERT INTO items VALUES (12, 'the last')")
        rest()
        check(tables, broker, name, "dropped while nobody reads, and made again")


def test_a_table_of_which_a_partition_goes_or_comes_is_told_as_emptied_and_read_once(database, broker):
    name, both = f"parts-{database.schema}", ("items", "beside")
    database.run(f"{MADE.format(name='items')} {PARTED.format(key='id')}", MADE.format(name="beside"))
    database.run("INSERT INTO items VALUES (1, 'a'), (11, 'b')", "INSERT INTO beside VALUES (5, 'c'), (6, 'd')")
    with captured(database, broker, name, Selection(tables=[r".*\.(items|beside)"])) as rest:
        rest()
        database.run("ALTER TABLE items TRUNCATE PARTITION low")
        rest()
        database.run("INSERT INTO items VALUES (2, 'after'), (3, 'after')")
        database.run("ALTER TABLE items EXCHANGE PARTITION low WITH TABLE beside")
        rest()
        check(database, broker, name, "exchanged", both)
        database.run("ALTER TABLE items DROP PARTITION low")
        rest()
        check(database, broker, name, "dropped", both)
    topics = committed(broker.bootstrap, f"{name}.")
    items, beside = ("".join(each.op for each in topics[f"{name}.{database.schema}.{table}"]) for table in both)
    assert (items, beside) == ("rrtrcctrrrtr", "rrtrr")


def test_a_table_whose_partitions_go_while_it_is_read_by_chunks_is_read_to_its_end_and_once_more(database, broker):
    name, chunks = f"hourly-{database.schema}", {"snapshot": Mode.INCREMENTAL, "chunk": 2}
    database.run(f"{MADE.format(name='items')} {PARTED.format(key='id')}")
    database.run("INSERT INTO items VALUES (1, 'a'), (2, 'a'), (5, 'a'), (11, 'b'), (12, 'b'), (21, 'c'), (22, 'c')")
    assert live(database, broker, name, "items", die_at="capture.commit:after:3", **chunks)
    database.run("ALTER TABLE items DROP PARTITION low", "INSERT INTO items VALUES (13, 'late')")
    # it is cut off once more, when that was noted
    assert live(database, broker, name, "items", die_at="capture.commit:after:2", **chunks)
    with Cluster(broker.bootstrap) as cluster:
        told = read_state(cluster, name).table(database.table("items"))
    assert (told.state, told.is_again) == ("reading", True)
    database.run("ALTER TABLE items TRUNCATE PARTITION middle")
    assert not live(database, broker, name, "items", **chunks)
    check(database, broker, name, "read once more", ("items",))
    topic = committed(broker.bootstrap, f"{name}.")[f"{name}.{database.schema}.items"]
    assert "".join(each.op for each in topic).partition("t")[2] == "rr"


def test_a_table_whose_partition_goes_and_that_nothing_would_read_keeps_its_topic(database, broker, caplog):
    name = f"kept-{database.schema}"
    database.run(f"{MADE.format(name='items')} {PARTED.format(key='id')}")
    with captured(database, broker, name, Selection(tables=[r".*\.items"]), snapshot=Mode.NONE) as rest:
        rest(1)
        database.run("INSERT INTO items VALUES (1, 'a'), (11, 'b')", "ALTER TABLE items DROP PARTITION low")
        database.run("INSERT INTO items VALUES (12, 'c')")
        rest(1)
    topic = committed(broker.bootstrap, f"{name}.")[f"{name}.{database.schema}.items"]
    assert [each.op for each in topic] == ["c", "c", "c"]
    said = f"the topic of {database.schema}.items stays as it is: nothing reads the table anew"
    assert caplog.messages.count(said) == 1


def test_a_table_without_a_key_that_comes_into_an_incremental_capture_is_said_and_its_changes_are_told(
    tables, broker, caplog
):
    name = f"keyless-{tables.schema}"
    tables.run("INSERT INTO loose_too VALUES (1)")
    chosen = Selection(tables=[r".*\.(items|late)"])
    with captured(tables, broker, name, chosen, snapshot=Mode.INCREMENTAL) as rest:
        rest(1)
        tables.run("RENAME TABLE loose_too TO late", "INSERT INTO late VALUES (2)", "INSERT INTO items VALUES (3, 'c')")
        rest()
        tables.run(f"ALTER TABLE late {PARTED.format(key='x')}", "ALTER TABLE late DROP PARTITION low")
        rest()
    topics = committed(broker.bootstrap, f"{name}.")
    assert [(each.op, each.value["after"]) for each in topics[f"{name}.{tables.schema}.late"]] == [("c", {"x": 2})]
    assert [each.op for each in topics[f"{name}.{tables.schema}.items"]] == ["r", "r", "c"]
    assert len([message for message in caplog.messages if "late only changes are told from now on" in message]) == 1


def test_sequences_are_no_tables_that_are_captured(database, broker):
    name = f"numbered-{database.schema}"
    database.run("CREATE SEQUENCE counter CACHE 1", "CREATE TABLE items (id int PRIMARY KEY)")
    with captured(database, broker, name, Selection()) as rest:
        rest(1)
        database.run("INSERT INTO items VALUES (nextval(counter))", "RENAME TABLE counter TO other")
        database.run("CREATE SEQUENCE counter", "DO nextval(counter)", "ALTER SEQUENCE counter RESTART 7")
        rest(1)
        database.run("INSERT INTO items VALUES (9 + nextval(other))", "DROP SEQUENCE counter", "DROP TABLE other")
        rest(1)
        check(database, broker, name, "numbered", ("items",))
    topics = committed(broker.bootstrap, f"{name}.{database.schema}.")
    assert list(topics) == [f"{name}.{database.schema}.items"]


def test_a_table_that_gets_the_file_of_another_is_read_anew(tables, broker):
    name, data = f"file-{tables.schema}", tables.server.directory / "data" / tables.schema
    with captured(tables, broker, name) as rest:
        rest()
        tables.run("FLUSH TABLES source FOR EXPORT")
        files = {f"items{ending}": (data / f"source{ending}").read_bytes() for ending in (".ibd", ".cfg")}
        tables.run("UNLOCK TABLES", "ALTER TABLE items DISCARD TABLESPACE")
        for file, content in files.items():
            (data / file).write_bytes(content)
            if os.geteuid() == 0:
                shutil.chown(data / file, SERVER_USER)
        tables.run("ALTER TABLE items IMPORT TABLESPACE", "INSERT INTO items VALUES (9, 'after')")
        rest()
        check(tables, broker, name, "another file")


def test_events_of_an_outbox_that_is_swapped_are_sent_once(database, broker):
    name = f"swapped-{database.schema}"
    database.run(OUTBOX, f"INSERT INTO outbox VALUES {sent(1)}")
    outbox = Outbox(r".*\.outbox", topic=f"{name}.event.${{routedByValue}}")
    with captured(database, broker, name, Selection(tables=[r".*\.outbox"]), outbox=outbox) as rest:
        rest(1)
        database.run(f"INSERT INTO outbox VALUES {sent(2)}", "CREATE TABLE spare LIKE outbox")
        database.run("INSERT INTO spare SELECT * FROM outbox", "RENAME TABLE outbox TO old, spare TO outbox")
        database.run(f"INSERT INTO outbox VALUES {sent(3)}")
        rest(1)
    events = committed(broker.bootstrap, f"{name}.event.")[f"{name}.event.order"]
    assert [each.value["n"] for each in events] == [1, 2, 3]


def sent(number):
    return f"""({number}, 'order', 'o', 'Placed', '{{"n": {number}}}')"""


def live(database, broker, name, *tables, die_at="", **options):
    """Whether it was cut off there."""
    chosen = Selection(tables=[rf".*\.{table}" for table in tables])
    source, looking = database.source(name, chosen), database.source(f"{name}-looking", chosen)
    return lived(capture_of(name, source, broker.bootstrap, chosen, transactions=True, **options), looking, die_at)


def test_tables_that_are_chosen_in_the_middle_of_a_transaction_are_read_behind_it(tables, broker, monkeypatch):
    monkeypatch.setattr(changes, "AT_ONCE", 5)
    name = f"more-{tables.schema}"
    assert not live(tables, broker, name, "items")
    tables.run("INSERT INTO spare VALUES (1, 'before'), (2, 'before')")
    places = [(table, number) for number in range(10, 20) for table in ("spare", "items")]
    tables.execute(*(f"INSERT INTO {table} VALUES ({number}, 'within')" for table, number in places))
    tables.run("UPDATE spare SET v = 'behind' WHERE id = 2")
    assert live(tables, broker, name, "items", die_at="capture.commit:after:1")
    with Cluster(broker.bootstrap) as cluster:
        assert read_state(cluster, name).position.index
    # it is cut off once more, with a part of the rest told
    assert live(tables, broker, name, "items", "spare", die_at="capture.commit:after:1")
    assert not live(tables, broker, name, "items", "spare")
    topics = committed(broker.bootstrap, f"{name}.")
    items, spare = (topics[f"{name}.{tables.schema}.{table}"] for table in ("items", "spare"))
    assert [record.value["after"]["id"] for record in items] == [1, 2, *range(10, 20)]
    assert sorted(record.value["after"]["id"] for record in spare if record.op == "r") == [1, 2, *range(10, 20)]
    check_transactions(topics, name)


def test_a_table_that_goes_before_it_is_read_takes_nothing_of_others_with_it(tables, broker, monkeypatch):
    """What was told of it counts for the place inside of a transaction, also when more tables are chosen there."""
    monkeypatch.setattr(changes, "AT_ONCE", 5)
    name, chunks = f"going-{tables.schema}", {"snapshot": Mode.INCREMENTAL}
    assert not live(tables, broker, name, "items", **chunks)
    assert live(tables, broker, name, "items", "spare", die_at="capture.commit:after:1", **chunks)
    places = [(table, number) for number in range(10, 20) for table in ("spare", "items")]
    tables.execute(*(f"INSERT INTO {table} VALUES ({number}, 'within')" for table, number in places))
    assert live(tables, broker, name, "items", "spare", die_at="capture.commit:after:1", **chunks)
    tables.run("DROP TABLE spare")
    assert live(tables, broker, name, "items", "spare", die_at="capture.commit:after:1", **chunks)
    with Cluster(broker.bootstrap) as cluster:
        assert read_state(cluster, name).position.index
    assert not live(tables, broker, name, "items", "spare", "source", **chunks)
    topics = committed(broker.bootstrap, f"{name}.")
    items, spare = (topics[f"{name}.{tables.schema}.{table}"] for table in ("items", "spare"))
    assert [record.value["after"]["id"] for record in items] == [1, 2, *range(10, 20)]
    assert [record.op for record in spare] == [*["c"] * 10, "t"]
    check_transactions(topics, name)


@pytest.mark.parametrize("way", ["tables are not read", "an outbox is not", "without a key it is not"])
def test_one_that_goes_on_inside_of_a_transaction_tells_all_of_a_table_whose_first_rows_are_behind_its_place(
    tables, broker, monkeypatch, way
):
    """Nothing would read them later. So it is with a table that was made since, and one that was not chosen."""
    monkeypatch.setattr(changes, "AT_ONCE", 5)
    name, numbers = f"newest-{tables.schema}", range(10, 20)
    outbox = Outbox(r".*\.outbox", topic=f"{name}.event.${{routedByValue}}")
    options = {
        "tables are not read": {"snapshot": Mode.NONE},
        "an outbox is not": {"outbox": outbox},
        "without a key it is not": {"snapshot": Mode.INCREMENTAL},
    }[way]
    assert not live(tables, broker, name, "items", **options)
    tables.run(OUTBOX)
    tables.execute(
        *(f"INSERT INTO items VALUES ({number}, 'within')" for number in numbers),
        *(f"INSERT INTO outbox VALUES {sent(number)}" for number in numbers),
    )
    chosen, inside = ["items"], []
    while live(tables, broker, name, *chosen, die_at="capture.commit:after:1", **options):
        with Cluster(broker.bootstrap) as cluster:
            state = read_state(cluster, name)
        if state.position.index:
            chosen = ["items", "outbox"]
            inside.append(f"{tables.schema}.outbox" in state.tables)
    assert {*inside} == {False, True}
    topics = committed(broker.bootstrap, f"{name}.")
    told = topics[f"{name}.event.order" if "outbox" in options else f"{name}.{tables.schema}.outbox"]
    assert len(told) == len(numbers)
    check_transactions(topics, name)


def test_a_capture_whose_only_table_is_gone_starts_says_so_and_reads_it_when_it_comes_back(tables, broker):
    name, options = f"only-{tables.schema}", {"snapshot": Mode.INCREMENTAL}
    assert not live(tables, broker, name, "items", **options)
    tables.run("RENAME TABLE items TO away")
    assert not live(tables, broker, name, "items", **options)
    tables.run("RENAME TABLE away TO items", "INSERT INTO items VALUES (3, 'c')")
    assert not live(tables, broker, name, "items", **options)
    topic = committed(broker.bootstrap, f"{name}.")[f"{name}.{tables.schema}.items"]
    assert "t" in [record.op for record in topic]
    check(tables, broker, name, "it is back", ["items"])


def test_a_capture_that_goes_on_with_a_choice_that_fits_nothing_is_refused(tables, broker):
    name = f"mistyped-{tables.schema}"
    assert not live(tables, broker, name, "items")
    with pytest.raises(TableMissing):
        live(tables, broker, name, "itmes")
    tables.run("INSERT INTO items VALUES (3, 'c')")
    assert not live(tables, broker, name, "items")
    check(tables, broker, name, "the right one again", ["items"])
