"""Conditions on the rows that leave a database, as people type them: no SQL, and nothing that could run.

    city = 'Graz' and (total >= 100 or not paid) and note is not null and kind in (a, b)

A column stands on the left, a literal on the right: a number, 'text', true or false; a single word is text, too. `and`,
`or`, `not` and parentheses join them. As in SQL, a comparison with null is neither true nor false, and a row leaves if
the whole is true. Numbers are compared as numbers, also where the database tells them as text; text by its characters.

A large value that an update left as it was is not told by every database: then nobody can say, and the row leaves.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, TypeAlias

from runnel.capture.errors import InvalidCondition
from runnel.capture.tables import Absent

Row: TypeAlias = Mapping[str, Any]
Truth: TypeAlias = bool | None
Test: TypeAlias = Callable[[Row], Truth]

TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<name>"(?:[^"]|"")+")
      | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
      | (?P<operator><=|>=|!=|<>|=|<|>)
      | (?P<mark>[(),])
      | (?P<word>[^\W\d]\w*)
    )""",
    re.VERBOSE,
)
COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EQUALITY: Final = ("=", "!=", "<>")
TRUTHS: Final = {"true": True, "false": False}
TRUE_TEXTS: Final = frozenset({"t", "true", "1"})
WORDS: Final = frozenset({"and", "or", "not", "in", "is", "null"})
DEEPEST: Final = 50


class Token(NamedTuple):
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


END: Final = Token("end", "")


@dataclass(frozen=True)
class Condition:
    """Of a row by the names of its columns: whether it leaves."""

    text: str
    columns: frozenset[str]
    test: Test

    def __call__(self, row: Row) -> bool:
        if any(isinstance(row[column], Absent) for column in self.columns):
            return True
        return self.test(row) is True


def parse(text: str) -> Condition:
    parser = _Parser(text)
    test = parser.whole()
    return Condition(text, frozenset(parser.columns), test)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._place = 0
        self._depth = 0
        self.columns: set[str] = set()

    def whole(self) -> Test:
        found = self._either()
        if self._next is not END:
            raise self._expected("and, or, or the end")
        return found

    # --- inside

    @property
    def _next(self) -> Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else END

    def _take(self) -> Token:
        token = self._next
        self._place += 1
        return token

    def _take_if(self, *words: str) -> bool:
        if self._next.is_word(*words):
            self._place += 1
            return True
        return False

    def _mark(self, mark: str) -> bool:
        if self._next == Token("mark", mark):
            self._place += 1
            return True
        return False

    def _expected(self, what: str) -> InvalidCondition:
        found = f'"{self._next.text}"' if self._next is not END else "its end"
        return InvalidCondition(self._text, f"expected {what} before {found}")

    def _either(self) -> Test:
        tests = [self._both()]
        while self._take_if("or"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else _any(tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._take_if("and"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else _all(tests)

    def _one(self) -> Test:
        self._depth += 1
        if self._depth > DEEPEST:
            raise InvalidCondition(self._text, f"more than {DEEPEST} things stand inside of each other")
        if self._take_if("not"):
            found = _not(self._one())
        elif self._mark("("):
            found = self._either()
            if not self._mark(")"):
                raise self._expected(")")
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> Test:
        column = self._column()
        if self._take_if("is"):
            is_null = not self._take_if("not")
            if not self._take_if("null"):
                raise self._expected("null")
            return lambda row: (row[column] is None) is is_null
        if self._next.kind == "operator":
            return _compared(column, self._take().text, self._literal())
        if self._next.is_word("not", "in"):
            is_in = not self._take_if("not")
            if not self._take_if("in"):
                raise self._expected("in")
            found = _any([_compared(column, "=", each) for each in self._listed()])
            return found if is_in else _not(found)
        return _compared(column, "=", True)  # a column that says yes or no

    def _column(self) -> str:
        token = self._next
        if token.kind == "name":
            name = token.text[1:-1].replace('""', '"')
        elif token.kind == "word" and token.text.lower() not in WORDS:
            name = token.text
        else:
            raise self._expected("a column")
        self._place += 1
        self.columns.add(name)
        return name

    def _listed(self) -> Iterator[Any]:
        if not self._mark("("):
            raise self._expected("(")
        yield self._literal()
        while self._mark(","):
            yield self._literal()
        if not self._mark(")"):
            raise self._expected(")")

    def _literal(self) -> Any:
        token = self._next
        if token.kind == "number":
            value: Any = Decimal(token.text)
        elif token.kind == "text":
            value = token.text[1:-1].replace("''", "'")
        elif token.is_word(*TRUTHS):
            value = TRUTHS[token.text.lower()]
        elif token.kind == "word" and token.text.lower() not in WORDS:
            value = token.text
        else:
            raise self._expected("a number, 'text', true or false")
        self._place += 1
        return value


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while text[place:].strip():
        found = TOKEN.match(text, place)
        if found is None:
            raise InvalidCondition(text, f'"{text[place:].strip()[:20]}" is nothing that can stand there')
        assert found.lastgroup is not None
        yield Token(found.lastgroup, found[found.lastgroup])
        place = found.end()


# --- what is true


def _all(tests: list[Test]) -> Test:
    def test(row: Row) -> Truth:
        found = [each(row) for each in tests]
        return False if False in found else None if None in found else True

    return test


def _any(tests: list[Test]) -> Test:
    def test(row: Row) -> Truth:
        found = [each(row) for each in tests]
        return True if True in found else None if None in found else False

    return test


def _not(test: Test) -> Test:
    def negated(row: Row) -> Truth:
        found = test(row)
        return None if found is None else not found

    return negated


def _compared(column: str, sign: str, literal: Any) -> Test:
    compare, convert = COMPARISONS[sign], _conversion(literal)
    is_equality = sign in EQUALITY

    def test(row: Row) -> Truth:
        value = row[column]
        if value is None:
            return None
        found = convert(value)
        if found is None:  # it is no number: not the same as any, and neither more nor less
            return sign != "=" if is_equality else None
        return compare(found, literal)

    return test


def _conversion(literal: Any) -> Callable[[Any], Any]:
    if isinstance(literal, bool):
        return _truth
    return _number if isinstance(literal, Decimal) else _text


def _truth(value: Any) -> bool:
    return value.lower() in TRUE_TEXTS if isinstance(value, str) else bool(value)


def _number(value: Any) -> Decimal | None:
    try:
        found = Decimal(value if isinstance(value, Decimal | int) else str(value))
    except InvalidOperation:
        return None
    return None if found.is_nan() else found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
