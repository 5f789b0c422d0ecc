"""Catching up side by side: how far each partition goes in a batch that cannot take everything.

A query's watermark follows the newest row that it saw. If one partition were read far ahead of another, the rows of the
slow one would look late although they are not. So a batch ends at one moment in all partitions: at each record that is
as new as that moment. The moment is found by asking for the offsets of a few; the partitions' own clocks need not agree
for long, since every batch looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnel.client.metadata import Place

Ends = Mapping[Place, int]
FULL_ENOUGH = 2  # a batch that is half full is good enough: each look costs a round trip


def aligned(
    start: Ends,
    latest: Ends,
    most: int,
    newest: int,
    offsets_at: Callable[[int], Ends],
    guess: tuple[int, int] = (0, 0),
) -> tuple[dict[Place, int], int]:
    """Ends with at most `most` records in all, and the moment they belong to.

    `offsets_at(moment)` gives each partition's first offset that is as new; `newest` is a moment at which all is taken.
    `guess` is a moment that lies behind and how far the last batch went from it.
    """

    def ends(moment: int) -> dict[Place, int]:
        found = offsets_at(moment)
        return {place: min(max(found[place], start.get(place, 0)), latest[place]) for place in latest}

    low, step = guess
    low_ends, high, high_ends = dict.fromkeys(latest, 0) | dict(start), newest, dict(latest)
    moment = low + step if step else (low + high) // 2
    while high - low > 1:
        if not low < moment < high:
            moment = (low + high) // 2
        tried = ends(moment)
        count = _records(start, tried)
        if count <= most:
            low, low_ends = moment, tried
            if count * FULL_ENOUGH >= most:
                return low_ends, low
        else:
            high, high_ends = moment, tried
        moment = min(low + 2 * step, (low + high) // 2) if step else (low + high) // 2
        step *= 2
    return _filled(start, low_ends, high_ends, most), low


def _records(start: Ends, end: Ends) -> int:
    return sum(max(0, at - start.get(place, 0)) for place, at in end.items())


def _filled(start: Ends, low: Ends, high: Ends, most: int) -> dict[Place, int]:
    """Many records of one moment: take what still fits, from each partition its share."""
    room = most - _records(start, low)
    between = {place: max(0, high[place] - low[place]) for place in high}
    total = sum(between.values())
    if total <= room:
        return dict(high)
    filled = {place: low[place] + between[place] * room // total for place in high}
    if room > 0 and all(filled[place] == low[place] for place in high):  # shares below one record: someone must go on
        first = next(place for place in sorted(between) if between[place])
        filled[first] += 1
    return filled
