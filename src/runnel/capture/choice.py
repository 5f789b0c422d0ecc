r"""Which tables a capture has: those that were chosen when it was started, and what people have asked for since.

    choice = Choice(Selection(tables=[r"main\.orders"]))
    choice.ask((Asked(r"main\.items", True), Asked(r"main\.orders", False)))

The source and the envelope ask the same one. What was asked for is part of the capture's state, from where it is taken
at each start. Of all words that fit a table the last one counts; where none does, the selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from runnel.capture.selection import Selection, compiled
from runnel.capture.tables import TableId


class Asked(NamedTuple):
    """The tables that an expression fits, as `Selection` has them, are added or removed."""

    expression: str
    is_added: bool


class Choice:
    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.asked: tuple[Asked, ...] = ()
        self._words: list[tuple[Any, bool]] = []  # patterns, and whether what they fit is added

    def ask(self, asked: Sequence[Asked]) -> None:
        """This, and nothing else, counts from here on."""
        self.asked = tuple(asked)
        self._words = [(compiled("table", each.expression), each.is_added) for each in asked]

    def has(self, table: TableId) -> bool:
        name = str(table)
        for pattern, is_added in reversed(self._words):
            if pattern.fullmatch(name):
                return bool(is_added)
        return self.selection.has(table)


def asked_since(before: Sequence[Asked], words: Sequence[Asked]) -> tuple[Asked, ...]:
    """With more words. One that was said before of the same expression does not count any more."""
    said = {each.expression for each in words}
    return (*(each for each in before if each.expression not in said), *words)


def shown(asked: Sequence[Asked]) -> str:
    """For people, in their order, which decides."""
    runs = groupby(asked, lambda each: "added" if each.is_added else "removed")
    return "; ".join(f"{word} {', '.join(each.expression for each in run)}" for word, run in runs)


def as_data(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """For programs, in their order."""
    return [{"tables": each.expression, "added": each.is_added} for each in asked]
