"""The names of captures, which are part of the names of their topics."""

from __future__ import annotations

import re
from typing import Final

from runnel.capture.errors import InvalidName

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
SIGNALS: Final = ".signals"  # what the topic of a capture's signals ends with
REJECTED: Final = ".rejected"  # what the topic of what could not be written ends with
LONGEST_TOPIC: Final = 249


def check_name(what: str, name: str) -> None:
    """That it can be part of the name of a topic, and that the topic is not that of another capture's signals."""
    if not NAME.fullmatch(name) or name.endswith(SIGNALS):
        raise InvalidName(what, name)


def can_be_topic(name: str) -> bool:
    """Of letters that topics may have: whether it, and that of what it rejects, can be the name of one."""
    return len(name) + len(REJECTED) <= LONGEST_TOPIC and name not in (".", "..")
