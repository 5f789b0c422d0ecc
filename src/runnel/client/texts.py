"""Text that librdkafka can take as a name: it ends the process at one that is no Unicode, and cuts one off at a NUL."""

from __future__ import annotations


def is_name(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair, as Python makes of bytes that are no text
        return False
    return True
