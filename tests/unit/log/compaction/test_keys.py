"""The set of keys that a round of compaction has met, and how much memory it takes."""

import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from runnel.log.compaction.keys import BYTES_PER_KEY, FIRST_SLOTS, Keys

PIECE = 5_000


def sixteen_bytes(chance: random.Random) -> int:
    """The number of a key of sixteen bytes, as `keys_of` gives it."""
    return 32 << 128 | chance.getrandbits(128)


@given(st.lists(st.lists(st.integers(0, 50))), st.lists(st.integers(0, 50)))
def test_it_is_a_set(pieces: list[list[int]], asked: list[int]) -> None:
    keys, model = Keys(first_slots=8), set[int | None]()
    for piece in pieces:
        assert keys.add(piece) == set(piece) - model
        model |= set(piece)
        assert len(keys) == len(model)
    assert keys.known(asked) == model & set(asked)


def test_no_key_needs_more_memory_than_it_is_said_to_also_while_more_room_is_made() -> None:
    chance = random.Random(1)
    keys = Keys()
    tracemalloc.start()
    try:
        while len(keys) < 5 * FIRST_SLOTS:
            tracemalloc.reset_peak()
            keys.add([sixteen_bytes(chance) for _ in range(PIECE)])
            if len(keys) > FIRST_SLOTS:
                assert tracemalloc.get_traced_memory()[1] <= BYTES_PER_KEY * len(keys), len(keys)
    finally:
        tracemalloc.stop()
