"""A schema as people write it, in the language of Spark's SQL: `page string, amount decimal(10,2), at timestamp`.

Read here and not by Spark, because a declaration must not start a JVM. It knows the types that a record's value can
carry; intervals and variants are refused by name.
"""

from __future__ import annotations

import re
from collections import Counter

from runnel.graph.types import SIMPLE, Array, Decimal, Field, Map, Simple, Struct, Type

TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:])|(\S))")
MOST_DIGITS = 38
DEEPEST = 100


class NoSchema(ValueError):
    """The text is no schema: what is wrong, and at which character."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(f"{what} (character {at + 1})")


def read_schema(text: str) -> tuple[Field, ...]:
    """The columns; NoSchema if the text is none."""
    reader = _Reader(text)
    return reader.fields(end="")


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int]] = []
        place = 0
        while found := TOKEN.match(text, place):
            if found[5]:
                raise NoSchema(f"{found[5]} is out of place", found.start(5))
            self._tokens.append((found[found.lastindex or 0], found.start(found.lastindex or 0)))
            place = found.end()
        self._tokens.append(("", len(text)))
        self._next = 0
        self._depth = 0

    def fields(self, end: str) -> tuple[Field, ...]:
        _, at = self._tokens[self._next]
        found = [self._field()]
        while self._skip(","):
            found.append(self._field())
        self._expect(end, "a comma or the end")
        for name, count in Counter(field.name.lower() for field in found).items():
            if count > 1:
                raise NoSchema(f"the column {name} is there twice", at)
        return tuple(found)

    def _field(self) -> Field:
        name = self._name()
        self._skip(":")
        kind = self._type()
        nullable = True
        if self._skip("not"):
            self._expect("null", "NULL behind NOT")
            nullable = False
        if self._skip("comment"):
            self._take()
        return Field(name, kind, nullable)

    def _name(self) -> str:
        token, at = self._take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            raise NoSchema(f"a column's name is missing before {token or 'the end'}", at)
        return token

    def _type(self) -> Type:
        token, at = self._take()
        self._depth += 1
        if self._depth > DEEPEST:
            raise NoSchema(f"types are nested more than {DEEPEST} deep", at)
        try:
            return self._type_of(token.lower(), at)
        finally:
            self._depth -= 1

    def _type_of(self, word: str, at: int) -> Type:
        match word:
            case "array":
                self._expect("<", "< behind array")
                element = self._type()
                self._expect(">", "> at the end of the array")
                return Array(element)
            case "map":
                self._expect("<", "< behind map")
                key = self._type()
                self._expect(",", "a comma between key and value of the map")
                value = self._type()
                self._expect(">", "> at the end of the map")
                return Map(key, value)
            case "struct":
                self._expect("<", "< behind struct")
                return Struct(self.fields(end=">"))
            case "decimal" | "dec" | "numeric":
                return self._decimal(at)
            case "varchar" | "char":
                self._expect("(", f"a length behind {word}")
                self._number()
                self._expect(")", ") behind the length")
                return Simple("string")
            case _ if word in SIMPLE:
                return Simple(SIMPLE[word])
        if not word:
            raise NoSchema("a type is missing at the end", at)
        raise NoSchema(f"{word} is no type of a column here", at)

    def _decimal(self, at: int) -> Decimal:
        if not self._skip("("):
            return Decimal()
        precision, scale = self._number(), 0
        if self._skip(","):
            scale = self._number()
        self._expect(")", ") behind the digits")
        if not 1 <= precision <= MOST_DIGITS or scale > precision:
            raise NoSchema(f"decimal({precision},{scale}) is none: 1 to {MOST_DIGITS} digits, the scale among them", at)
        return Decimal(precision, scale)

    def _number(self) -> int:
        token, at = self._take()
        if not (token.isascii() and token.isdigit()) or len(token) > 9:
            raise NoSchema(f"a number is missing before {token or 'the end'}", at)
        return int(token)

    # --- tokens

    def _take(self) -> tuple[str, int]:
        token = self._tokens[self._next]
        if token[0]:
            self._next += 1
        return token

    def _skip(self, word: str) -> bool:
        if self._tokens[self._next][0].lower() != word:
            return False
        self._next += 1
        return True

    def _expect(self, word: str, what: str) -> None:
        token, at = self._tokens[self._next]
        if token.lower() != word:
            raise NoSchema(f"expected {what}, found {token or 'the end'}", at)
        if word:
            self._next += 1
