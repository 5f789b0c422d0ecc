"""Compaction: of every key the newest record stays, at its offset."""
