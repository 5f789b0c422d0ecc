"""Which names a topic may have. Kafka's rules."""

from __future__ import annotations

import re

from runnel.broker.topics import HIDDEN, Topics

LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
LONGEST = 249


def mistake_in_name(name: str, topics: Topics) -> str | None:
    """What is wrong with the name of a new topic, if anything."""
    if name in ("", ".", ".."):
        return f"a topic cannot be called {name!r}"
    if len(name) > LONGEST:
        return f"the name of a topic has at most {LONGEST} characters, and this one has {len(name)}"
    if not LEGAL.fullmatch(name):
        return f"the name {name!r} has other characters than letters, digits, '.', '_' and '-'"
    if name in HIDDEN:
        return f"the name {name!r} is the broker's own"
    other = topics.collides_with(name)
    if other is not None:
        return f"the name {name!r} collides with topic {other!r}: they differ in '.' and '_' only"
    return None
