"""For any history, a compacted log tells the same table as all that was ever written, at the same offsets.

A failure names its world: `World(seed).run()` replays it alone.
"""

import random

from tests.crash.compaction_model import World


def test_a_compacted_log_tells_the_same_table_as_all_that_was_written(seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    for _ in range(2 * rounds):
        World(chance.randrange(2**32)).run()
