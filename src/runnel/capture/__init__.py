"""Databases as streams: every committed change of a database as a record of a topic, after a consistent snapshot.

    source (postgres, mariadb, sqlite)  ->  events  ->  envelope (Debezium's)  ->  publisher  ->  topics

A source reads its database's own log and tells of it in the words of `events`; what a value looks like in JSON is a
`Form`, which each source chooses by the column's type. The rest is the same for all: the envelope, and one Kafka
transaction that holds the records and the position they lead to, so that a crash neither loses nor repeats a change.
It reaches the log through `client`: any Kafka will do.
"""
