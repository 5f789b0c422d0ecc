"""Bytes and times as people read them, and as JSON.

Keys and values are shown as text in quotes if they are printable UTF-8. Others are shown in hexadecimal, and in JSON as
an object with their base64, so that neither can be taken for the other.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime


def printable(text: str) -> str:
    """The text with an escape for each character that would not show, or would command the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def as_time(milliseconds: int) -> str:
    """In words that sort; the number itself if it is no time that a calendar knows."""
    try:
        time = datetime.fromtimestamp(milliseconds // 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1_000:03d}Z" if milliseconds >= 0 else str(milliseconds)


def quoted(value: bytes | None) -> str:
    text = printable_text(value)
    if value is None:
        return "none"
    return json.dumps(text, ensure_ascii=False) if text is not None else f"hex {value.hex()}"


def printable_text(value: bytes | None) -> str | None:
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\t\n\r" for char in text) else None


def json_value(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    text = printable_text(value)
    return text if text is not None else {"base64": base64.b64encode(value).decode()}
