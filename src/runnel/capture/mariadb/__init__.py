"""Capture of MariaDB: its binary log of rows, read as a replica reads it, by global transaction ids."""
