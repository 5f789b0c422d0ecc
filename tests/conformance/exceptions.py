"""Tests that pass on Apache Kafka and may fail here: at most five, each with its cause."""

EXCEPTIONS: dict[str, str] = {}
