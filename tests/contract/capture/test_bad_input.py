"""What can be wrong with a database and with what people type: told with what mends it, and never with a password."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager

import psycopg
import pytest

from runnel.cli import main
from tests.contract.capture.captured_mariadb import MariadbDatabase
from tests.contract.capture.lives import wait_until
from tests.contract.capture.topics import committed
from tests.contract.views.postgres_server import postgres_server

SECRET = "s3cr3t-p4ss"


@pytest.fixture
def path(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.sqlite")
    with connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, total INTEGER)")
        connection.execute("INSERT INTO orders VALUES (1, 'Anne', 10), (2, 'Bob', 200)")
    connection.close()
    return tmp_path / "shop.sqlite"


@pytest.fixture
def run(broker, monkeypatch, capfd, caplog):
    """A command in this process: its exit code, what it prints, and all that was logged."""

    def run(*words):
        caplog.clear()
        monkeypatch.setattr("sys.argv", ["runnel", "capture", *map(str, words), "--bootstrap", broker.bootstrap])
        with caplog.at_level(logging.DEBUG), pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return ended.value.code, out + err, caplog.text

    return run


@contextmanager
def running(broker, *words):
    """A command in a process of its own; the lines of its stderr."""
    program = "from runnel.cli import main; main()"
    command = [sys.executable, "-c", program, "capture", "run", *map(str, words), "--bootstrap", broker.bootstrap]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PEPPER": "salt"}
    lines: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        reading = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")))
        reading.start()
        try:
            wait_until(lambda: any("reading changes" in line for line in lines) or process.poll() is not None)
            assert process.poll() is None, lines
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            reading.join()
    assert process.returncode == 0, lines


# --- of any database


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--hash", "orders.name"], "a hash needs a salt"),
        (["--hash", "orders.name", "--salt-env", "NOT_THERE"], "NOT_THERE is not set, or empty"),
        (["--where", "orders:total >"], "expected a number, 'text', true or false before its end"),
        (["--mask", "orders.name:x"], "'orders.name:x' is no mask"),
        (["--decimals", "rough"], "'rough' is no way to write decimals"),
        (["--times", "late"], "'late' is no way to write times"),
        (["--metrics", "here"], "'here' is not of the form HOST:PORT"),
    ],
)
def test_what_makes_no_sense_ends_with_2(run, path, words, told):
    code, said, _ = run("run", "x", path, *words)
    assert code == 2
    assert told in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--slot", "mine"], 'error: a capture of sqlite has no option "slot"\nhint: leave it out\n'),
        (["--decimals", "string"], 'error: a capture of sqlite has no option "decimals"\nhint: leave it out\n'),
        (["--outbox", "events"], 'has no table "events"\nhint: it has main.orders\n'),
        (["--outbox", "orders"], 'column of the outbox "aggregatetype" cannot be used: table main.orders sends id, '),
        (["--outbox", "orders", "--outbox-topic", "x"], 'error: topic of the outbox "x" cannot be used: '),
        (["--where", "orders:city = Graz"], 'error: column of a condition "city" cannot be used: '),
        (["--where", "orders:city = Graz"], "\nhint: name one of these, as it is written there\n"),
        (["--mask", "orders.city"], 'error: column "orders.city" cannot be used: no column that is captured fits it\n'),
        (["--mask", "orders.city"], "hint: it is a regular expression for whole names, such as orders\\.total or "),
    ],
)
def test_what_does_not_fit_the_database_ends_with_1(run, path, words, told):
    code, said, _ = run("run", "x", path, *words)
    assert code == 1
    assert told in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/shop",
        f"postgresql://me:{SECRET}@127.0.0.1:port/shop",
        f"postgresql://me:{SECRET}@nowhere.invalid/shop",
        f"mariadb://me:{SECRET}@127.0.0.1:1/shop",
        f"mariadb://me:{SECRET}@127.0.0.1:port/shop",
        f"mariadb://me:{SECRET}@nowhere.invalid/shop",
        f"mariadb://me:{SECRET}@127.0.0.1/",
        f"mariadb://me:{SECRET}@127.0.0.1/shop?ssl_mode=verify",
        f"postgres//me:{SECRET}@127.0.0.1/shop",
        f"oracle://me:{SECRET}@127.0.0.1/shop",
        f"me:{SECRET}@127.0.0.1/shop",
    ],
)
@pytest.mark.parametrize("command", ["run", "remove"])
def test_an_address_that_leads_nowhere_is_told_without_its_password(run, command, address):
    code, said, logged = run(command, "x", address)
    assert (code, said.startswith("error: ")) == (1, True)
    assert "\nhint: " in said
    assert SECRET not in said + logged
    assert "Traceback" not in said


@pytest.mark.servers  # processes of their own take their time
def test_a_table_that_disappears_is_said_in_its_topic_and_the_others_go_on(broker, path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE clicks (id INTEGER PRIMARY KEY)")
    with running(broker, "vanishing", path, "--schema-changes", "--partitions", "1"):
        connection.execute("INSERT INTO clicks VALUES (1)")
        wait_until(lambda: committed(broker.bootstrap, "vanishing.main.clicks").get("vanishing.main.clicks"))
        connection.execute("DROP TABLE clicks")
        connection.execute("UPDATE orders SET name = 'Anna' WHERE id = 1")
        wait_until(lambda: len(committed(broker.bootstrap, "vanishing.main.orders")["vanishing.main.orders"]) == 3)
        kinds = [
            (each["type"], each["id"].split(".")[-1])
            for record in committed(broker.bootstrap, "vanishing")["vanishing"]
            for each in record.value["tableChanges"]
        ]
    connection.close()
    assert sorted(kinds) == [("CREATE", '"clicks"'), ("CREATE", '"orders"'), ("DROP", '"clicks"')]


@pytest.mark.servers  # processes of their own take their time
def test_what_leaves_is_chosen_on_the_command_line_and_counted(broker, path):
    words = ["--columns", "orders.id", "--columns", "orders.name", "--columns", "orders.total"]
    words += ["--hash", "orders.name", "--salt-env", "PEPPER", "--mask", "orders.id:5", "--where", "orders:total > 100"]
    with running(broker, "choosing", path, *words, "--metrics", "127.0.0.1:0", "--partitions", "1") as lines:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("INSERT INTO orders VALUES (3, 'Cid', 300), (4, 'Dan', 4)")
        connection.close()
        wait_until(lambda: len(committed(broker.bootstrap, "choosing.main.orders")["choosing.main.orders"]) == 2)
        (told,) = [line.split()[-1] for line in lines if line.startswith("metrics on ")]

        def scraped() -> str:
            with urllib.request.urlopen(told, timeout=60) as answer:
                return answer.read().decode()

        counted = 'runnel_capture_events_total{capture="choosing",op="c",topic="choosing.main.orders"} 1.0'
        wait_until(lambda: counted in scraped() and "runnel_capture_lag_entries" in scraped())
        assert 'runnel_capture_snapshot_rows{capture="choosing"} 2.0' in scraped()
        assert "salt" not in scraped()
    orders = committed(broker.bootstrap, "choosing.main.orders")["choosing.main.orders"]
    assert [(each.op, each.value["after"]["total"]) for each in orders] == [("r", 200), ("c", 300)]
    assert all(len(each.value["after"]["name"]) == 64 for each in orders)
    assert {each.value["after"]["id"] for each in orders} == {"*****"}


# --- of PostgreSQL


@pytest.fixture(scope="module")
def shop(server):
    """A database of its own, and a role that may log in with a password alone."""
    server.run("CREATE DATABASE bad_input")
    server.run("DROP ROLE IF EXISTS locked")
    server.run("CREATE ROLE locked LOGIN PASSWORD 'right'")
    yield server
    with psycopg.connect(server.url, autocommit=True) as connection:
        slots = "FROM pg_replication_slots WHERE database = 'bad_input'"
        wait_until(lambda: not connection.execute(f"SELECT {slots} AND active".encode()).fetchall())
        connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}".encode())
        connection.execute("DROP DATABASE bad_input WITH (FORCE)")
        connection.execute("DROP ROLE locked")


def url(shop, user="runnel", password=""):
    return shop.url_of(user, "bad_input", password)


@contextmanager
def tables(shop, *statements):
    """Made for the block."""
    with psycopg.connect(url(shop), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA s")
        connection.execute("SET search_path = s")
        for statement in statements:
            connection.execute(statement.encode())
        try:
            yield connection
        finally:
            connection.execute("DROP SCHEMA s CASCADE")
            for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
                connection.execute(f"DROP PUBLICATION {name}".encode())


@pytest.mark.servers
def test_a_wrong_password_is_told_without_it(run, shop):
    for command in ("run", "status", "remove"):
        code, said, logged = run(command, "x", url(shop, "locked", SECRET))
        assert code == 1
        if command != "status":  # there is nothing to ask the database about
            assert "error: database postgresql://locked@127.0.0.1" in said
            assert "password authentication failed" in said
            assert "\nhint: see to the user and the password; PGPASSWORD or ~/.pgpass keep it out of the URL\n" in said
        assert SECRET not in said + logged


@pytest.mark.servers
def test_rights_that_are_missing_are_told_with_the_sql_that_gives_them(run, shop):
    with tables(shop, "CREATE TABLE orders (id int PRIMARY KEY)"):
        code, said, logged = run("run", "x", url(shop, "locked", "right"))
    assert code == 1
    assert 'cannot be captured: user "locked" may not replicate\n' in said
    assert '\nhint: run ALTER ROLE "locked" REPLICATION; as a superuser\n' in said
    assert "right@" not in said + logged


@pytest.mark.servers
def test_a_table_without_a_key_and_one_that_is_not_there_are_told(run, shop):
    with tables(shop, "CREATE TABLE orders (id int)"):
        code, said, _ = run("run", "x", url(shop))
        assert (code, "s.orders has no primary key" in said) == (1, True)
        assert 'hint: run ALTER TABLE "s"."orders" REPLICA IDENTITY FULL; or give it a primary key' in said
        code, said, _ = run("run", "x", url(shop), "--tables", "order")
        assert (code, "\nhint: it has s.orders\n" in said) == (1, True)


@pytest.mark.servers
def test_what_an_administrator_was_to_make_is_told_if_it_is_not_there(run, shop):
    with tables(shop, "CREATE TABLE orders (id int PRIMARY KEY)"):
        code, said, _ = run("run", "x", url(shop), "--slot", "theirs", "--publication", "theirs")
    assert code == 1
    assert 'there is no publication "theirs"' in said
    assert 'hint: run CREATE PUBLICATION "theirs" FOR TABLE ' in said


@pytest.mark.servers
def test_a_server_that_writes_too_little_is_told(run):
    with postgres_server({"fsync": "off", "wal_level": "replica"}) as server:
        server.run("CREATE TABLE orders (id int PRIMARY KEY)")
        code, said, _ = run("run", "x", server.url)
    assert code == 1
    assert "wal_level is replica\nhint: run ALTER SYSTEM SET wal_level = logical; and restart the server\n" in said


@pytest.mark.servers
def test_a_type_that_is_not_known_and_a_value_that_is_too_large_are_said_and_the_rest_goes_on(broker, shop):
    made = ["CREATE TYPE pair AS (a int, b text)", "CREATE TABLE orders (id int PRIMARY KEY, v pair, w pair, t text)"]
    with tables(shop, *made) as connection:
        connection.execute("INSERT INTO orders VALUES (1, '(1,x)', NULL, repeat('x', 1500000)), (2, '(2,y)', NULL, '')")
        words = ["--decimals", "string", "--times", "connect", "--partitions", "1"]
        with running(broker, "odd", url(shop), *words) as lines:
            connection.execute("INSERT INTO orders VALUES (3, '(3,z)', NULL, '')")
            wait_until(lambda: len(committed(broker.bootstrap, "odd.s.orders")["odd.s.orders"]) == 2)
        topics = committed(broker.bootstrap, "odd.s.orders")
    assert [each.value["after"]["v"] for each in topics["odd.s.orders"]] == ["(2,y)", "(3,z)"]
    assert [each.key for each in topics["odd.s.orders.rejected"]] == ['{"id":1}']
    assert lines.count('type "pair" is not known: its values are captured as text\n') == 1
    assert sum("too large for topic odd.s.orders, and went to odd.s.orders.rejected" in line for line in lines) == 1


@pytest.mark.servers
def test_text_of_no_encoding_is_told_with_what_mends_it(run, server):
    server.run("CREATE DATABASE no_encoding TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    address = server.url_of("runnel", "no_encoding")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, c text)")
        connection.execute(b"INSERT INTO t VALUES (1, E'caf\\xe9')")
        code, said, _ = run("run", "noenc", address)
        assert code == 1
        assert 'invalid byte sequence for encoding "UTF8"' in said
        mending = said.split("by UPDATE t")[1].split(";")[0]
        connection.execute(f"UPDATE t{mending}".encode())
        assert connection.execute("SELECT convert_to(c, 'SQL_ASCII') FROM t").fetchall() == [("café".encode(),)]
    assert run("remove", "noenc", address)[0] == 0
    server.run("DROP DATABASE no_encoding WITH (FORCE)")


# --- of MariaDB


@pytest.fixture
def maria(mariadb):
    """A database of its own with a table, and a user that may log in with a password alone."""
    database = MariadbDatabase(mariadb)
    database.run("CREATE TABLE orders (id int PRIMARY KEY, at time, total decimal(10,2))")
    database.run("CREATE USER locked@'%' IDENTIFIED BY 'right'")
    yield database
    database.run("DROP USER locked@'%'")
    database.close()


@pytest.mark.servers
def test_a_wrong_password_of_mariadb_is_told_without_it(run, maria):
    for command in ("run", "remove"):
        code, said, logged = run(command, "x", maria.server.url_of(maria.schema, "locked", SECRET))
        assert code == 1
        assert f"error: database mariadb://locked@127.0.0.1:{maria.server.port}/{maria.schema} " in said
        assert "Access denied for user 'locked'" in said
        assert "\nhint: see to the user and the password; MYSQL_PWD keeps it out of the address\n" in said
        assert SECRET not in said + logged


@pytest.mark.servers
def test_the_password_of_the_environment_counts_and_is_not_told(run, maria, monkeypatch):
    address = f"mariadb://locked@127.0.0.1:{maria.server.port}/{maria.schema}"
    monkeypatch.setenv("MYSQL_PWD", SECRET)
    code, said, logged = run("run", "x", address)
    assert (code, "Access denied for user 'locked'" in said) == (1, True)
    assert f"error: database {address} " in said
    assert SECRET not in said + logged
    monkeypatch.setenv("MYSQL_PWD", "right")
    maria.run(f"GRANT SELECT ON {maria.schema}.* TO locked@'%'")
    code, said, _ = run("run", "x", address)
    assert (code, "user 'locked'@'%' may not read the log\n" in said) == (1, True)
    assert "\nhint: run GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO 'locked'@'%';\n" in said


@pytest.mark.servers
def test_a_table_that_mariadb_does_not_have_is_told_with_those_that_it_has(run, maria):
    code, said, _ = run("run", "x", maria.url, "--tables", "order")
    assert (code, f"\nhint: it has {maria.schema}.orders\n" in said) == (1, True)
    assert 'has no table "order"' in said


@pytest.mark.servers
def test_a_log_of_mariadb_that_tells_too_little_is_told_with_the_sql_that_mends_it(run, maria):
    mending = "SET GLOBAL binlog_row_image = 'FULL';"
    try:
        maria.run("SET GLOBAL binlog_row_image = 'MINIMAL'")
        code, said, _ = run("run", "x", maria.url)
    finally:
        maria.run(mending)
    assert (code, "cannot be captured: binlog_row_image is MINIMAL\n" in said) == (1, True)
    assert f"\nhint: run {mending} and let the writers connect again; the same belongs into my.cnf\n" in said


@pytest.mark.servers
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--times", "adaptive"], 'has no times "adaptive"\nhint: it has adaptive_time_microseconds, connect\n'),
        (["--slot", "mine"], 'has no option "slot"\nhint: it has decimals, times\n'),
    ],
)
def test_an_option_that_mariadb_does_not_have_is_told(run, maria, words, told):
    code, said, _ = run("run", "x", maria.url, *words)
    assert (code, told in said) == (1, True)


@pytest.mark.servers
def test_decimals_and_times_of_mariadb_are_chosen_on_the_command_line(broker, maria):
    maria.run("INSERT INTO orders VALUES (1, '12:34:56', 1.5), (2, '-01:00:00', NULL)")
    words = ["--decimals", "string", "--times", "connect", "--partitions", "1"]
    topic = f"modes.{maria.schema}.orders"
    with running(broker, "modes", maria.url, *words):
        maria.run("INSERT INTO orders VALUES (3, '23:59:59', -2)")
        wait_until(lambda: len(committed(broker.bootstrap, topic).get(topic, [])) == 3)
    rows = [each.value["after"] for each in committed(broker.bootstrap, topic)[topic]]
    assert rows == [
        {"id": 1, "at": 45_296_000, "total": "1.50"},
        {"id": 2, "at": None, "total": None},
        {"id": 3, "at": 86_399_000, "total": "-2.00"},
    ]
