"""Kafka's wire protocol as pure functions: bytes in, values out, and back. It knows no sockets and no files."""
