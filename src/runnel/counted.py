"""How many of something, in words that fit the number."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`1 row`, `2,000 rows`; `many` is for words that do not just get an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
