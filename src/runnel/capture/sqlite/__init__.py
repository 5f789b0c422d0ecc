"""SQLite as a source: triggers write every change into a log in the same database, which is read from there.

names      what our tables and triggers are called
shapes     a table as it is: its columns, its key, and what must be unique in it
triggers   the SQL that runs in the writers' SQLite
keeping    our tables and triggers in the database: made, kept in step with the tables, removed
opened     the file, and whether its path still leads to it
changes    the log, read from a position on
snapshot   the tables at one position of it
source     all of that together
"""

from runnel.capture.sqlite.source import SqliteSource

__all__ = ["SqliteSource"]
