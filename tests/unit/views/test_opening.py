import subprocess
import sys

import pytest

from runnel.views.errors import InvalidStore
from runnel.views.opening import absolute, open_store
from runnel.views.postgres import PostgresStore, shown
from runnel.views.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/data", "/data/views.sqlite"),
        ("sqlite:/data/other.db", "/data/other.db"),
        ("sqlite:////data/other.db", "/data/other.db"),
    ],
)
def test_a_directory_or_a_file_is_sqlite(address, path):
    store = open_store(address)
    assert isinstance(store, SqliteStore)
    assert store.path == path


@pytest.mark.parametrize("address", ["data", "sqlite:other.db", "sqlite:///other.db", "/data"])
def test_an_absolute_address_means_the_same_store_from_every_directory(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = open_store(address).path
    found = absolute(address)
    monkeypatch.chdir("/")
    assert open_store(found).path == path


@pytest.mark.parametrize("address", ["postgresql://me@host/db", "postgres://me@host:5433/db?sslmode=require"])
def test_a_url_of_postgres_is_postgres(address):
    store = open_store(address)
    assert isinstance(store, PostgresStore)
    assert store.url == absolute(address) == address


@pytest.mark.parametrize(
    "address", ["", "mysql://host/db", "sqlite:", "sqlite://host/path", "postgresql://host/db?nonsense=1"]
)
def test_any_other_address_is_refused_with_those_that_are_none(address):
    with pytest.raises(InvalidStore, match="give a data directory, sqlite:PATH or postgresql://"):
        open_store(address)


def test_a_password_is_never_shown():
    assert shown("postgresql://me:secret@host:5433/db") == "postgresql://me@host:5433/db"
    with pytest.raises(InvalidStore) as caught:
        open_store("postgresql://me:secret@host:5433/db?nonsense=1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:sec ret@host/db",
        'postgresql://me:sec"ret and more@host/db',
        "postgresql://me:sec%zzret@host/db",
        "postgresql://me:sec%FFret@host/db",
        "postgresql://me:sec\udcffret@host/db",
        "postgresql://me:sec-ret@[::1/db",
        "postgresql://me:sec/ret@host/db",
        "postgresql://me:sec/ret@host",
    ],
)
def test_an_address_that_cannot_be_read_is_told_without_its_password(address):
    with pytest.raises(InvalidStore) as caught:
        open_store(address)
    assert "ret" not in str(caught.value)
    assert "me@" in str(caught.value)


def test_what_else_is_wrong_with_an_address_is_named():
    with pytest.raises(InvalidStore, match='parameter: "nonsense"'):
        open_store("postgresql://me:secret@host/db?nonsense=1")


def test_sqlite_does_not_wait_for_psycopg():
    program = "import sys, runnel.views.opening; print('psycopg' in sys.modules, 'pyspark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]
