import inspect
import re
import sqlite3

import psycopg
import pytest

from runnel.errors import RunnelError, Transient
from runnel.views import errors, postgres, sqlite
from runnel.views.errors import (
    Fenced,
    NullKey,
    PositionOutOfRange,
    StoreCutOff,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreRefused,
    StoreUnreachable,
    ViewChanged,
)

EXAMPLES = [
    (
        NullKey("clicks", "page", 17, {"page": None, "seen": 3}),
        "view 'clicks': column 'page' of row 17: null in the key: {'page': None, 'seen': 3}; nothing of the batch was "
        "applied (filter such rows out in the view's function, or give them a key with coalesce)",
    ),
    (
        ViewChanged("clicks", "its column 'seen' is no longer declared"),
        "view 'clicks' is kept with another declaration: its column 'seen' is no longer declared "
        "(declare it as it was, or make it anew by `runnel rebuild`)",
    ),
    (
        Fenced("clicks", "shop.clicks"),
        "another copy of 'shop.clicks' has taken the view 'clicks' over; nothing of this batch was applied "
        "(stop this copy; the other one goes on where it was)",
    ),
    (
        StoreLocked("/data/views.sqlite", 60.0),
        "the view store /data/views.sqlite was being written to by another process for 60 s "
        "(wait for it, or stop it if it hangs; nothing of this batch was applied)",
    ),
    (
        PositionOutOfRange("clicks", 3, 10, 20),
        "the change log of view 'clicks' goes from position 10 to 20, and 3 was asked for "
        "(older changes were trimmed: read the view as it is and watch from there)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text"), EXAMPLES)
def test_an_error_says_what_where_and_what_next(error, text):
    assert str(error) == text


def test_a_long_row_is_shown_in_part():
    assert len(str(NullKey("clicks", "page", 0, {"text": "x" * 10_000}))) < 500


def test_the_tree_in_the_docstring_is_complete():
    classes = {
        name for name, each in vars(errors).items() if inspect.isclass(each) and each.__module__ == errors.__name__
    }
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__))
    assert drawn == classes


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, StoreLocked),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreLocked),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_IOERR_WRITE, StoreFailed),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreRefused),
        (sqlite3.SQLITE_CORRUPT, StoreRefused),
        (sqlite3.SQLITE_ERROR, StoreRefused),
    ],
)
def test_what_sqlite_says_is_told_in_our_words(code, expected):
    error = sqlite3.OperationalError("its words")
    error.sqlite_errorcode = code
    told = sqlite.told("/data/views.sqlite", 60.0, error)
    assert type(told) is expected
    assert isinstance(told, RunnelError)
    assert told.hint


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.DiskFull("could not extend file"), StoreFull),
        (psycopg.errors.OutOfMemory("out of memory"), StoreFull),
        (psycopg.errors.LockNotAvailable("lock timeout"), StoreLocked),
        (psycopg.errors.DeadlockDetected("deadlock"), StoreLocked),
        (psycopg.errors.AdminShutdown("terminating"), StoreUnreachable),
        (psycopg.errors.TooManyConnections("too many"), StoreUnreachable),
        (psycopg.OperationalError("the connection is closed"), StoreUnreachable),
        (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), StoreCutOff),
        (psycopg.errors.IdleSessionTimeout("terminating connection due to idle-session timeout"), StoreCutOff),
        (psycopg.errors.IdleInTransactionSessionTimeout("idle-in-transaction timeout"), StoreCutOff),
        (psycopg.errors.InsufficientPrivilege("denied"), StoreRefused),
        (psycopg.errors.SyntaxError("near"), StoreRefused),
    ],
)
def test_what_postgres_says_is_told_in_our_words(error, expected):
    told = postgres.told("postgresql://host/db", 10.0, error)
    assert type(told) is expected
    assert told.hint


@pytest.mark.parametrize(
    ("text", "transient"),
    [
        ("connection refused", True),
        ("FATAL: the database system is starting up", True),
        ("FATAL: sorry, too many clients already", True),
        ('FATAL: password authentication failed for user "me"', False),
        ('FATAL: database "db" does not exist', False),
        ("server does not support SSL, but SSL was required", False),
        ("SSL error: certificate verify failed", False),
    ],
)
def test_only_what_may_pass_is_worth_another_try(text, transient):
    told = postgres.told_of_connecting("postgresql://host/db", psycopg.OperationalError(text))
    assert isinstance(told, Transient) is transient


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("port", ["99999", "0", "five"])
def test_a_port_that_is_none_is_refused_and_not_waited_for(host, port):
    with pytest.raises(StoreRefused) as refused:
        postgres.PostgresStore(f"postgresql://me:s3cret@{host}:{port}/shop").names()
    assert refused.value.hint == "give a port from 1 to 65535, or none for 5432"
    assert "s3cret" not in str(refused.value)


def test_a_host_whose_name_can_be_none_is_refused():
    with pytest.raises(StoreRefused, match="see to the host"):
        postgres.PostgresStore("postgresql://me@data..example/shop").names()
