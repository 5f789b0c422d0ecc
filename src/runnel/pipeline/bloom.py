"""A Bloom filter: a set in a few thousand bytes that answers "perhaps", or "certainly not".

    seen = clicks.groupBy(F.window("at", "1 hour")).agg(bloom_filter("customer", expected=10_000).alias("seen"))
    known = asked.where(might_contain("seen", "customer"))

It never denies what was put in. What was not put in it takes for known with the chance that was chosen, as long as no
more than `expected` different values were.

Both are made of Spark's own functions: streams can be aggregated by them, and no row goes through Python. Equal values
give equal bytes, whatever the order of the rows, the machine, or the version of Python.

The bytes: a version, how many hash functions there are, how many bitmaps each of them has; then the bitmaps, of 4,096
bytes each, all those of the first function first. A function sets one bit among those of its own bitmaps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from runnel.graph.errors import InvalidDeclaration

VERSION = 1
HEADER = 4  # bytes: the version, the hash functions, two for the bitmaps of each
BITMAP = 4_096  # bytes: what Spark's bitmap_construct_agg makes
BITS = 8 * BITMAP
MOST_BITMAPS = 256
NO_FILTER = "might_contain was asked of bytes that bloom_filter did not make"


class Shape(NamedTuple):
    hashes: int
    bitmaps: int  # of each hash function

    @property
    def size(self) -> int:
        return self.hashes * self.bitmaps

    def false_positives(self, values: int) -> float:
        """The chance that a value which was not put in is taken for known."""
        return _fill(values, self.bitmaps) ** self.hashes


def shape_for(expected: int, false_positives: float) -> Shape:
    """The smallest that keeps the promise."""
    if not isinstance(expected, int) or isinstance(expected, bool) or expected < 1:
        raise InvalidDeclaration(
            "bloom_filter", "expected", f"is {expected!r}", hint="say how many different values there will be"
        )
    if not isinstance(false_positives, float) or not 0.0 < false_positives < 1.0:
        raise InvalidDeclaration(
            "bloom_filter", "false_positives", f"is {false_positives!r}", hint="give a share, such as 0.01"
        )
    shapes = (
        Shape(hashes, bitmaps)
        for bitmaps in range(1, MOST_BITMAPS + 1)
        if (hashes := _hashes(_fill(expected, bitmaps), false_positives)) * bitmaps <= MOST_BITMAPS
    )
    if (found := min(shapes, key=lambda shape: shape.size, default=None)) is None:
        raise InvalidDeclaration(
            "bloom_filter",
            "expected",
            f"is {expected}: with false_positives={false_positives} that is more than {MOST_BITMAPS * BITMAP:,} bytes",
            hint="group by something finer, so that each filter has fewer values, or allow more false positives",
        )
    return found


def bloom_filter(column: Column | str, *, expected: int, false_positives: float = 0.01) -> Column:
    """An aggregate: the filter of a column's values, as bytes. Nulls are not put in."""
    shape = shape_for(expected, false_positives)
    header = bytes([VERSION, shape.hashes]) + shape.bitmaps.to_bytes(2, "big")
    bitmaps = [
        F.bitmap_construct_agg(_bit_in(_position(column, F.lit(number), shape.bitmaps), part))
        for number in range(shape.hashes)
        for part in range(shape.bitmaps)
    ]
    return F.concat(F.unhex(F.lit(header.hex())), *bitmaps)


def might_contain(bloom: Column | str, column: Column | str) -> Column:
    """False: the value was never put into the filter. True: it was, or it looks like one that was. Null of a null."""
    value = _column(column)
    header = _number(_column(bloom), 1, HEADER)
    filter_ = F.struct(
        _column(bloom).alias("bytes"),
        F.shiftright(header, 24).alias("version"),
        (F.shiftright(header, 16) % 256).alias("hashes"),
        (header % 65_536).alias("bitmaps"),
    )
    # Inside of an array it is computed once. Elsewhere Spark would copy the bytes out of the row for every use.
    return F.get(F.transform(F.array(filter_), lambda each: _contains(each, value)), F.lit(0))


def _contains(bloom: Column, value: Column) -> Column:
    given, hashes, bitmaps = bloom["bytes"], bloom["hashes"], bloom["bitmaps"]
    of_each = bitmaps * BITS
    positions = F.transform(
        F.sequence(F.lit(0), hashes - 1), lambda number: number * of_each + _position(value, number, bitmaps)
    )
    is_filter = (bloom["version"] == VERSION) & (F.length(given) == HEADER + hashes * bitmaps * BITMAP)
    return (
        F.when(given.isNull() | value.isNull(), F.lit(None).cast("boolean"))
        .when(is_filter, F.forall(positions, lambda position: _is_set(given, position)))
        .otherwise(F.raise_error(F.lit(NO_FILTER)).cast("boolean"))
    )


def _is_set(given: Column, position: Column) -> Column:
    byte = _number(given, HEADER + 1 + F.shiftright(position, 3).cast("int"), 1)
    return F.getbit(byte, (position % 8).cast("int")) == 1


def _hashes(fill: float, false_positives: float) -> int:
    if fill >= 1.0:  # as far as a float can tell
        return MOST_BITMAPS + 1
    return max(1, math.ceil(math.log(false_positives) / math.log(fill)))


def _fill(values: int, bitmaps: int) -> float:
    """The share of a hash function's bits that are set."""
    return -math.expm1(-values / (bitmaps * BITS))


def _position(column: Column | str, number: Column, bitmaps: Column | int) -> Column:
    """The bit of a value. By its text: Spark's hash of an int is another than that of the same number as a long."""
    of_all = F.pmod(F.xxhash64(_column(column).cast("string"), number), F.lit(BITS) * bitmaps)
    return F.when(_column(column).isNotNull(), of_all)


def _bit_in(position: Column, part: int) -> Column:
    """In one of the bitmaps; null if it is not there."""
    return F.when(F.floor(position / BITS) == part, position % BITS)


def _number(given: Column, start: Column | int, length: int) -> Column:
    """Some bytes of it, from 1 on, as a number."""
    return F.conv(F.hex(F.substring(given, start, length)), 16, 10).cast("int")


def _column(given: Column | str) -> Column:
    return F.col(given) if isinstance(given, str) else given
