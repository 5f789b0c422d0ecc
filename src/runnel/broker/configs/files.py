"""A file of settings, as Kafka's `server.properties`: one NAME=VALUE a line.

As in Java's properties, `:` or a space may stand for `=`, a line that begins with `#` or `!` is a comment, a line that
ends with a backslash goes on in the next, and `\\t`, `\\n`, `\\uXXXX` and `\\` before another character are escapes.
Lines end as Java's do, and a mark of the byte order before the first is passed over.
What is most likely a mistake is refused with its line: a name without a value, a name twice, a name nobody knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from runnel.broker.configs.settings import check_setting
from runnel.errors import InvalidSetting, Permanent

# The first separator that is not escaped; blanks around it do not count.
PAIR = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+)(?P<value>.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
MEANING = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_config_file(path: str | os.PathLike[str]) -> dict[str, str]:
    """The settings of a file, each checked; Permanent, with file and line, if one cannot be."""
    try:
        content = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Permanent(f"{path} cannot be read: {reason}", hint="name a file with one NAME=VALUE a line") from error
    configs: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in _whole_lines(content):
        name, value = _pair(f"{path} line {number}", line)
        if name in lines:
            raise Permanent(f"{path} line {number}: {name} is set in line {lines[name]} already", hint="remove one")
        try:
            check_setting(name, value)
        except InvalidSetting as error:
            raise Permanent(f"{path} line {number}: {error.what}", hint=error.hint) from error
        configs[name], lines[name] = value, number
    return configs


def _pair(place: str, line: str) -> tuple[str, str]:
    found = PAIR.fullmatch(line)
    if found is None:
        raise Permanent(f"{place}: {line!r} sets nothing", hint="expected NAME=VALUE")
    return _plain(place, found["name"]), _plain(place, found["value"])


def _whole_lines(content: str) -> Iterator[tuple[int, str]]:
    """Each line with what continues it, without comments and empty ones; and its number."""
    first = 0
    parts: list[str] = []
    for number, line in enumerate(content.split("\n"), 1):
        part = line.lstrip()
        if not parts:
            first = number
            if not part.strip() or part[0] in "#!":
                continue
        goes_on = _ends_with_backslash(part)
        parts.append(part[:-1] if goes_on else part.rstrip())
        if not goes_on:
            yield first, "".join(parts)
            parts = []
    if parts:
        yield first, "".join(parts)


def _ends_with_backslash(line: str) -> bool:
    """Two of them are one that is meant."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _plain(place: str, text: str) -> str:
    def meaning(escape: re.Match[str]) -> str:
        code = escape[1]
        if code == "u":
            raise Permanent(f"{place}: \\u without four digits of a character's number", hint="write such as \\u00e9")
        return chr(int(code[1:], 16)) if len(code) > 1 else MEANING.get(code, code)

    return ESCAPE.sub(meaning, text)
