"""Which rows of a batch make it fail, found by trying parts of it, each half as large as the one before.

A row counts when it fails by itself. Where a row may need others to pass, as one of a group that is aggregated, that is
not enough: `to_blame` tries it among the others. What fails only together is told as a group. Nothing here knows Spark:
`fails` tries a part and returns what was said, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

MOST_TOGETHER = 4  # rows of a group that are looked for


class Span(NamedTuple):
    """Offsets of one range of the batch, which has this number: from `start` to before `end`."""

    range: int
    start: int
    end: int


class Bad(NamedTuple):
    """One offset, and what was said of it."""

    range: int
    offset: int
    said: str


Part: TypeAlias = Sequence[Span]
Fails: TypeAlias = Callable[[Part], str | None]


def size(part: Part) -> int:
    return sum(each.end - each.start for each in part)


def cut(part: Part, at: int) -> tuple[list[Span], list[Span]]:
    """The first `at` offsets, and the rest."""
    first: list[Span] = []
    rest: list[Span] = []
    for each in part:
        middle = min(each.end, each.start + max(0, at - size(first)))
        first += [each._replace(end=middle)] if middle > each.start else []
        rest += [each._replace(start=middle)] if middle < each.end else []
    return first, rest


def without(part: Part, rows: Iterable[Bad]) -> list[Span]:
    """All offsets of the part but these."""
    left: list[Span] = []
    places = sorted({row[:2] for row in rows})
    for each in part:
        start = each.start
        for offset in (offset for number, offset in places if number == each.range and each.start <= offset < each.end):
            left += [each._replace(start=start, end=offset)] if offset > start else []
            start = offset + 1
        left += [each._replace(start=start)] if start < each.end else []
    return left


def failing(part: Part, fails: Fails) -> Iterator[Bad]:
    """Every offset that fails by itself, in their order, out of a part that fails as a whole."""
    # What is still to be looked at, the next one last, with what was said of it. "" is not known: it was not tried.
    part = [each for each in part if each.end > each.start]
    waiting: list[tuple[Part, str | None]] = [(part, "")] if part else []
    while waiting:
        this, said = waiting.pop()
        if size(this) == 1:
            said = said or fails(this)
            if said is not None:
                yield Bad(this[0].range, this[0].start, said)
            continue
        if said is None and (said := fails(this)) is None:
            continue
        left, right = cut(this, size(this) // 2)
        if (of_left := fails(left)) is None:
            waiting.append((right, ""))  # one of the two must fail; the single row will be tried
        else:
            waiting += [(right, None), (left, of_left)]


def together(part: Part, fails: Fails) -> tuple[list[Span], bool]:
    """A few offsets that fail together, out of a part that fails as a whole, and whether they are all it takes."""
    needed: list[Span] = []
    rest = list(part)
    while len(needed) < MOST_TOGETHER and size(rest):
        low, high = 0, size(rest)  # with `high` of them it fails
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fails([*cut(rest, middle)[0], *needed]) is not None else (middle, high)
        before, last = cut(cut(rest, high)[0], high - 1)
        needed = [*last, *needed]
        rest = before
        if fails(needed) is not None:
            return needed, True
    return needed, False


def to_blame(whole: Part, found: Sequence[Bad], fails: Fails) -> list[Bad]:
    """Of offsets that fail by themselves, out of a whole that fails: those with which it fails whichever of the others
    are there, beside the rest. None if that does not explain it: it still fails without them; or if there are too many
    to try.
    """
    if len(found) > MOST_TOGETHER:
        return []
    kept = [each for count in range(len(found)) for each in combinations(found, count)]
    passing = [each for each in kept if fails(without(whole, set(found).difference(each))) is None]
    cleared = {row for each in passing for row in each}
    return [row for row in found if row not in cleared] if cleared in [set(each) for each in passing] else []
