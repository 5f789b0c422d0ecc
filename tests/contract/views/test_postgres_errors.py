"""What goes wrong between us and a PostgreSQL, and what people are told."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pyarrow as pa
import pytest

import runnel
from runnel.durable import watched
from runnel.views.errors import InvalidFilter, NameTaken, StoreCutOff, StoreRefused, StoreUnreachable, UnknownKey
from runnel.views.postgres import MAKING, PostgresStore, application
from runnel.views.store import Condition, Declared
from tests.contract.views.clicks import CLICKS, QUERY, SCHEMA, claimed, content, marker, seen
from tests.contract.views.postgres_server import postgres_server

pytestmark = pytest.mark.servers

CUT = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'runnel %'"


def test_nothing_listens(postgres):
    url = "postgresql://runnel@127.0.0.1:1/runnel"
    with pytest.raises(StoreUnreachable, match=r"postgresql://runnel@127\.0\.0\.1:1/runnel cannot be reached.*refused"):
        PostgresStore(url).names()


@pytest.mark.parametrize(
    ("setting", "hint"),
    [("connect_timeout=soon", "behind the question mark"), ("service=nowhere", "see to the file of services")],
)
def test_a_setting_of_the_address_that_cannot_be_is_not_waited_for(setting, hint):
    with pytest.raises(StoreRefused, match=hint):
        PostgresStore(f"postgresql://runnel@127.0.0.1:1/runnel?{setting}").names()


def test_a_password_that_is_refused_is_told_without_the_password(postgres):
    postgres.run("CREATE ROLE locked LOGIN PASSWORD 'right'")
    url = postgres.url_of("locked", password="wr0ng-secret")
    with pytest.raises(StoreRefused, match=r"authentication failed.*see to the user and the password") as caught:
        PostgresStore(url).names()
    assert "wr0ng-secret" not in str(caught.value)
    assert "locked@127.0.0.1" in str(caught.value)
    assert PostgresStore(postgres.url_of("locked", password="right")).names() == []


def test_a_database_that_is_not_there(postgres):
    with pytest.raises(StoreRefused, match=r"does not exist.*the database's name"):
        PostgresStore(postgres.url_of("runnel", "nowhere")).names()


def test_a_schema_that_is_not_there(postgres):
    with pytest.raises(StoreRefused, match="search path"):
        PostgresStore(postgres.url + "?options=-csearch_path%3Dnowhere").names()


def test_a_user_who_may_not_make_tables(postgres):
    postgres.run("CREATE ROLE guest LOGIN")
    writer = PostgresStore(postgres.url_of("guest")).writer(CLICKS, QUERY)
    with writer, pytest.raises(StoreRefused, match=r"permission denied.*GRANT CREATE"):
        writer.claim()


def test_a_user_who_may_not_read_a_view(postgres):
    postgres.run("CREATE SCHEMA hidden; CREATE ROLE looker LOGIN; GRANT USAGE ON SCHEMA hidden TO looker")
    schema = "?options=-csearch_path%3Dhidden"
    with claimed(PostgresStore(postgres.url + schema)):
        views = runnel.views(postgres.url_of("looker") + schema)
        for look in (partial(list, views), lambda: views["clicks"]):
            with pytest.raises(StoreRefused, match=r"permission denied for table.*right to read.*GRANT SELECT"):
                look()
        postgres.run("GRANT SELECT ON ALL TABLES IN SCHEMA hidden TO looker")
        assert len(views["clicks"]) == 0
        views.close()


def test_a_user_who_may_not_make_temporary_tables(postgres):
    postgres.run("CREATE DATABASE lasting")
    postgres.run("REVOKE TEMPORARY ON DATABASE lasting FROM PUBLIC; CREATE ROLE maker LOGIN")
    with psycopg.connect(postgres.url_of("runnel", "lasting"), autocommit=True) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO maker")
    refused = pytest.raises(StoreRefused, match=r"temporary tables.*GRANT TEMPORARY ON DATABASE")
    with claimed(PostgresStore(postgres.url_of("maker", "lasting"))) as writer, refused:
        writer.apply(seen(("a", 1)), marker(0))


def test_a_server_that_only_reads(postgres):
    postgres.run("CREATE SCHEMA standby")
    url = postgres.url + "?options=-csearch_path%3Dstandby%20-cdefault_transaction_read_only%3Don"
    with PostgresStore(url).writer(CLICKS, QUERY) as writer, pytest.raises(StoreRefused, match="standby"):
        writer.claim()


def test_a_key_that_is_too_long_for_an_index(postgres):
    postgres.run("CREATE SCHEMA long")
    key = "".join(map(chr, range(256, 5_000)))
    with claimed(PostgresStore(postgres.url + "?options=-csearch_path%3Dlong")) as writer:
        with pytest.raises(StoreRefused, match=r"index row.*shorten them in the view's function"):
            writer.apply(seen((key, 1)), marker(0))
        writer.apply(seen((key[:100], 1)), marker(0))


def test_rows_and_keys_that_are_too_wide(postgres):
    postgres.run("CREATE SCHEMA wide")
    store = PostgresStore(postgres.url + "?options=-csearch_path%3Dwide")
    rows = pa.table({"page": ["a"], **{f"c{number}": [number] for number in range(1_100)}})
    too_wide = pytest.raises(StoreRefused, match=r"row is too big.*some of many columns into a struct")
    with claimed(store, Declared("wide", ("page",), rows.schema)) as writer, too_wide:
        writer.apply(rows, marker(0))
    key = tuple(rows.column_names[:33])
    too_many = pytest.raises(StoreRefused, match=r"32 columns.*put some of them together")
    with store.writer(Declared("keys", key, rows.select(key).schema), QUERY) as writer, too_many:
        writer.claim()


def test_a_database_of_another_encoding(postgres):
    postgres.run("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with claimed(PostgresStore(postgres.url_of("runnel", "latin"))) as writer:
        writer.apply(seen(("ü", 1)), marker(0))
        with pytest.raises(StoreRefused, match=r"no equivalent.*ENCODING 'UTF8'"):
            writer.apply(seen(("ж", 1)), marker(1))


def test_a_schema_may_have_any_name(postgres):
    postgres.run('CREATE SCHEMA "{1} {}"')
    store = PostgresStore(postgres.url + "?options=-csearch_path%3D%22%7B1%7D%5C%20%7B%7D%22")
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.trim()
        assert store.names() == ["clicks"]
        assert content(store) == {"a": 1}


@pytest.mark.parametrize("made", ["TYPE {} AS ENUM ('a')", "DOMAIN {} AS integer", "SEQUENCE {}"])
def test_a_name_that_a_type_has_is_taken(postgres, made):
    schema = made[:4].lower()
    postgres.run(f"CREATE SCHEMA {schema}; CREATE {made.format(f'{schema}.clicks')}")
    store = PostgresStore(f"{postgres.url}?options=-csearch_path%3D{schema}")
    with store.writer(CLICKS, QUERY) as writer, pytest.raises(NameTaken, match="'clicks' that is not ours"):
        writer.claim()
    arrays = Declared("_others", ("page",), SCHEMA)
    with claimed(store, Declared("others", ("page",), SCHEMA)), claimed(store, arrays):
        assert store.names() == ["_others", "others"]


@pytest.mark.parametrize("name", ["", "clicks_pkey", "runnel_views_pkey"])
def test_a_name_that_no_table_has_is_that_of_no_view(postgres, name):
    postgres.run("CREATE SCHEMA IF NOT EXISTS indexed")
    store = PostgresStore(postgres.url + "?options=-csearch_path%3Dindexed")
    with claimed(store), runnel.views(store.url) as views:
        assert views.get(name) is None
        assert len(views["clicks"]) == 0


def test_text_that_it_cannot_hold_is_no_value_to_ask_for(postgres):
    postgres.run("CREATE SCHEMA nul")
    store = PostgresStore(postgres.url + "?options=-csearch_path%3Dnul")
    with claimed(store), store.reader("clicks") as reader:
        with pytest.raises(InvalidFilter, match="is no value of page"):
            reader.rows([Condition("page", "=", "a\0b")])
        with pytest.raises(UnknownKey, match="page"):
            reader.get({"page": "a\0b"})
        assert reader.rows().num_rows == 0


def with_settings(postgres, schema, **settings):
    postgres.run(f"CREATE SCHEMA {schema}")
    given = "".join(f"%20-c{name}%3D{value}" for name, value in settings.items())
    return PostgresStore(f"{postgres.url}?options=-csearch_path%3D{schema}{given}")


@pytest.mark.parametrize("digits", [0, -15])
def test_numbers_come_back_as_they_are_however_many_digits_are_told(postgres, digits):
    store = with_settings(postgres, f"digits_{abs(digits)}", extra_float_digits=digits)
    rows = pa.table({"page": ["a"], "share": [0.1 + 0.2]})
    with claimed(store, Declared("shares", ("page",), rows.schema)) as writer, store.reader("shares") as reader:
        writer.apply(rows, marker(0))
        assert reader.rows()["share"].to_pylist() == [0.1 + 0.2]


@pytest.mark.parametrize("isolation", ["repeatable%5C%20read", "serializable"])
def test_views_can_be_made_at_the_same_time_however_transactions_are_isolated(postgres, isolation):
    store = with_settings(postgres, isolation[:6], default_transaction_isolation=isolation)
    with claimed(store), psycopg.connect(postgres.url) as other, ThreadPoolExecutor(2) as threads:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [MAKING])
        writers = [store.writer(Declared(name, ("page",), SCHEMA), QUERY) for name in ("one", "two")]
        claims = [threads.submit(writer.claim) for writer in writers]
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while other.execute(waiting).fetchall() != [(2,)]:
            assert not any(claim.done() for claim in claims)
        other.rollback()
        for claim, writer in zip(claims, writers, strict=True):
            claim.result()
            writer.close()
    assert store.names() == ["clicks", "one", "two"]


def test_a_writer_is_not_cut_off_by_what_a_role_is_set_to(postgres):
    store = with_settings(postgres, "quick", statement_timeout=250)
    late = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND clock_timestamp() - query_start > '0.5 s'"
    with claimed(store) as writer, psycopg.connect(postgres.url) as other, ThreadPoolExecutor(1) as thread:
        other.execute("SELECT name FROM quick.runnel_views FOR UPDATE")
        applied = thread.submit(writer.apply, seen(("a", 1)), marker(0))
        with psycopg.connect(postgres.url, autocommit=True) as asking:
            while not asking.execute(late).fetchall():
                assert not applied.done()
        other.rollback()
        assert applied.result().inserted == 1


def test_a_read_that_takes_longer_than_its_role_may_is_told_with_the_setting_that_ended_it(postgres):
    store = with_settings(postgres, "hasty", statement_timeout=250)
    with claimed(store), store.reader("clicks") as reader, psycopg.connect(postgres.url) as other:
        other.execute("LOCK TABLE hasty.clicks")
        with pytest.raises(StoreCutOff, match=r"statement timeout \(ask for less.*SET statement_timeout = '10min'"):
            reader.rows()
        other.rollback()
        assert reader.rows().num_rows == 0


def test_a_read_that_somebody_has_cancelled_is_told_as_that(postgres):
    store = with_settings(postgres, "cancelled")
    cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with claimed(store), store.reader("clicks") as reader, psycopg.connect(postgres.url) as other:
        other.execute("LOCK TABLE cancelled.clicks")
        with ThreadPoolExecutor(1) as thread, psycopg.connect(postgres.url, autocommit=True) as asking:
            reading = thread.submit(reader.rows)
            while not reading.done():
                asking.execute(cancel)
        with pytest.raises(StoreCutOff, match=r"user request \(somebody has told it to"):
            reading.result()


def test_a_writer_whose_transaction_was_idle_for_longer_than_its_role_may_writes_the_batch_again(postgres):
    store = with_settings(postgres, "paused", idle_in_transaction_session_timeout=250)

    ours, name = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s", application("clicks", '"paused".')

    def pause(place: str) -> None:
        with psycopg.connect(postgres.url, autocommit=True) as asking:
            while asking.execute(ours, [name]).fetchall():
                assert place == "view.commit:before"

    with claimed(store) as writer:
        with pytest.raises(StoreCutOff, match="SET idle_in_transaction_session_timeout"), watched(pause):
            writer.apply(seen(("a", 1)), marker(0))
        assert writer.apply(seen(("a", 1)), marker(0)).inserted == 1


def test_a_connection_that_is_cut_is_made_anew_and_the_claim_still_holds(postgres):
    postgres.run("CREATE SCHEMA cut")
    url = postgres.url + "?options=-csearch_path%3Dcut"
    store = PostgresStore(url)
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        postgres.run(CUT)
        with pytest.raises(StoreUnreachable, match="whole or not at all"):
            writer.apply(seen(("a", 2)), marker(1))
        writer.apply(seen(("a", 2)), marker(1))
        assert writer.marker() == marker(1)
    assert content(store) == {"a": 2}


def test_a_reader_whose_connection_was_cut_while_it_did_not_read_makes_another_one(postgres):
    postgres.run("CREATE SCHEMA idle")
    url = postgres.url + "?options=-csearch_path%3Didle"
    with claimed(PostgresStore(url)) as writer, runnel.views(url) as views:
        writer.apply(seen(("a", 1)), marker(0))
        view = views["clicks"]
        for read in (lambda: view.get(page="a")["seen"], lambda: len(view), lambda: len(view.arrow())):
            postgres.run(CUT)
            assert read() == 1
        postgres.run(CUT)
        view.wait_for(timeout=0)


def test_a_read_that_is_cut_is_not_begun_again(postgres):
    postgres.run("CREATE SCHEMA amid")
    store = PostgresStore(postgres.url + "?options=-csearch_path%3Damid")

    def read_while_it_is_cut() -> None:
        with reader._moment() as moment:
            postgres.run(CUT)
            moment.rows()

    with claimed(store), store.reader("clicks") as reader:
        with pytest.raises(StoreUnreachable):
            read_while_it_is_cut()
        assert reader.rows().num_rows == 0


def test_a_server_that_goes_away_and_comes_back():
    with postgres_server() as server:
        store = PostgresStore(server.url)
        with claimed(store) as writer, runnel.views(server.url) as views, ThreadPoolExecutor(1) as thread:
            writer.apply(seen(("a", 1)), marker(0))
            steps = views["clicks"].watch()
            assert next(steps).is_snapshot
            server.stop()
            watching = thread.submit(next, steps)  # who watches waits for it as well, and misses nothing
            try:
                for _ in range(2):
                    with pytest.raises(StoreUnreachable):
                        writer.apply(seen(("a", 2)), marker(1))
            finally:
                server.start()
            writer.apply(seen(("a", 2)), marker(1))
            assert [(change.before["seen"], change.after["seen"]) for change in watching.result()] == [(1, 2)]
            steps.close()
        assert content(store) == {"a": 2}


def test_a_writer_can_be_told_among_the_connections(postgres):
    postgres.run("CREATE SCHEMA told")
    store = PostgresStore(postgres.url + "?options=-csearch_path%3Dtold")
    with claimed(store), psycopg.connect(postgres.url) as connection:
        names = connection.execute("SELECT application_name FROM pg_stat_activity").fetchall()
    assert any(name.startswith("runnel view clicks ") for (name,) in names)
