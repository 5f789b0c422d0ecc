"""What a trial is given of a batch."""

import pyarrow as pa

from runnel.pipeline.failing.bad_rows import MOST_SHOWN, shown
from runnel.pipeline.failing.halving import Span
from runnel.pipeline.failing.trial_rows import inside


def test_offsets_are_inside_of_spans_or_not():
    spans = [Span(0, 3, 5), Span(0, 5, 6), Span(0, 9, 10)]
    assert inside(pa.array(range(12)), spans).to_pylist() == [each in (3, 4, 5, 9) for each in range(12)]
    assert inside(pa.array([], pa.int64()), spans).to_pylist() == []


def test_a_value_is_shown_as_far_as_it_is_good_to_read():
    assert shown(b'{"n": 1}') == '{"n": 1}'
    assert shown(b"\xff") == r"b'\xff'"
    assert shown(None) == "null"
    assert shown(b"x" * 300) == "x" * MOST_SHOWN + "... (300 bytes)"
