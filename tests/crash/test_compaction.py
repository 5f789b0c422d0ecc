"""The power may go out at any file operation of a compaction: the table stays, and so do the offsets.

A failure names its world: `World(seed, crash_at=n).run()` replays it alone.
"""

import random

import pytest

from tests.crash.compaction_model import World

SHARES = 4  # of the rounds, so that they can run side by side


@pytest.mark.parametrize("share", range(SHARES))
def test_the_table_survives_a_power_cut_at_every_file_operation_of_a_compaction(
    seed: int, rounds: int, share: int
) -> None:
    chance = random.Random(seed + share)
    for _ in range(-(-rounds // (10 * SHARES))):
        world_seed = chance.randrange(2**32)
        operations = World(world_seed).run().in_compactions
        for crash_at in range(1, operations + 1):
            World(world_seed, crash_at).run()
