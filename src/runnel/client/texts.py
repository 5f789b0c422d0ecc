"""Text that librdkafka can take as a name: it ends the process at one that is no Unicode, and cuts one off at a NUL."""

from __future__ import annotations

from typing import TypeGuard


def is_name(text: object) -> bool:
    return is_text(text) and "\0" not in text


def is_text(text: object) -> TypeGuard[str]:
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeEncodeError:  # half of a pair, as Python makes of bytes that are no text
        return False
