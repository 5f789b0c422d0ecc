"""Which values of a block Arrow's JSON reader may not be given together with others.

It reads a stream of documents and does not know where a value ends. So the values that it gets start with `{` and end
with `}`, and a line feed stands between two of them. `}`, line feed, `{` can stand inside of no JSON object or array,
for want of a comma, and inside of no string, because of the line feed: between two values no document is open. Each
value is therefore one whole document or several, and if there are as many rows as values, each is exactly one.

It also takes what is no JSON, or worse. These values are found here, and read one by one:

    a zero byte             ends the stream
    bytes not in UTF-8      go into strings as they are
    Inf, -NaN and the like  are numbers to it
    null between documents  makes it read memory that is not its own
    deep nesting            has no limit
"""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runnel.pipeline.source.values.json_value import DEEPEST
from runnel.pipeline.source.values.times import Mask, either

STEPS = 16  # white space that is looked over at the ends of a value; more of it is read one by one
BLANKS = np.zeros(256, np.bool_)
BLANKS[list(b" \t\r\n")] = True
OPENING, CLOSING, LETTER_N = b"{}n"
ODD_NUMBER = re.compile(rb"[:,\[ \t\r\n-](?:NaN|Inf)")

Positions: TypeAlias = npt.NDArray[np.int64]


def bounds_of(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Positions]:
    """The bytes of all values, and where each starts; the last number is where the last one ends."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), bounds


def without_braces(values: pa.Array) -> Mask:
    """Which values do not start with `{` and end with `}`, but for some white space."""
    data, bounds = bounds_of(values)
    if not data.size:
        return np.ones(len(values), np.bool_)
    first, last = bounds[:-1], bounds[1:] - 1
    mask = first > last
    mask |= data[np.where(mask, 0, first)] != OPENING
    mask |= data[np.where(mask, 0, last)] != CLOSING
    if mask.any():
        odd = np.flatnonzero(mask & (first <= last))
        mask[odd] = ~_braces_inside(data, first[odd], last[odd])
    return mask


def _braces_inside(data: npt.NDArray[np.uint8], first: Positions, last: Positions) -> Mask:
    """Which of some stretches, none of them empty, have braces at their ends once white space is taken off."""
    for _ in range(STEPS):
        first = first + (BLANKS[data[first]] & (first < last))
        last = last - (BLANKS[data[last]] & (first < last))
    inside: Mask = (data[first] == OPENING) & (data[last] == CLOSING) & (first < last)
    return inside


def joined(values: pa.Array) -> bytes:
    """The values with a line feed between them."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    text: bytes = pc.binary_join(whole, pa.scalar(b"\n", pa.binary()))[0].as_py()
    return text


def doubtful(values: pa.Array, text: bytes) -> Mask | None:
    """Which of the values that are joined in `text` must be read one by one; None if all are fine."""
    places: list[Positions] = []
    if b"\0" in text:
        places.append(np.flatnonzero(np.frombuffer(text, np.uint8) == 0))
    if _has(text, b"NaN") or _has(text, b"Inf"):
        places.append(np.array([match.end() - 1 for match in ODD_NUMBER.finditer(text)], np.int64))
    if np.count_nonzero(np.frombuffer(text, np.uint8) == CLOSING) > len(values):
        places.append(_nulls_between(text))
    mask = _holding(np.concatenate(places), values) if places else None
    return either(mask, either(_deep(values), None if text.isascii() else _not_utf8(values, text)))


def _has(text: bytes, word: bytes) -> bool:
    return word[:1] in text and word in text  # the search for one byte is many times as fast


def _holding(places: Positions, values: pa.Array) -> Mask | None:
    """The values that hold some positions of the joined text."""
    if not places.size:
        return None
    _, bounds = bounds_of(values)
    ends = bounds[1:] - bounds[0] + np.arange(len(values))  # each line feed is one byte more
    mask = np.zeros(len(values), np.bool_)
    mask[np.searchsorted(ends, places, side="right")] = True
    return mask


def _not_utf8(values: pa.Array, text: bytes) -> Mask | None:
    if _is_utf8(text):
        return None
    return np.array([not _is_utf8(value) for value in values.to_pylist()])


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _nulls_between(text: bytes) -> Positions:
    data = np.frombuffer(text, np.uint8)
    braces = np.flatnonzero(data[:-1] == CLOSING)
    after = braces + 1
    for _ in range(STEPS):
        blank = BLANKS[data[after]] & (after < len(data) - 1)
        if not blank.any():
            break
        after += blank
    doubted: Positions = braces[(data[after] == LETTER_N) | BLANKS[data[after]]]
    return doubted


def _deep(values: pa.Array) -> Mask | None:
    _, bounds = bounds_of(values)
    long = np.flatnonzero(np.diff(bounds) > 2 * DEEPEST)  # each level takes two characters
    if not long.size:
        return None
    taken = values.take(pa.array(long))
    brackets = np.asarray(pc.count_substring(taken, "[")) + np.asarray(pc.count_substring(taken, "{"))
    if not (brackets > DEEPEST).any():
        return None
    mask = np.zeros(len(values), np.bool_)
    mask[long[brackets > DEEPEST]] = True
    return mask
