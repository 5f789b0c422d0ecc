"""Whatever the disk does and whenever the power goes out, the log keeps what it acknowledged.

A failure names its world: `World(seed, crash_at=n).run()` replays it alone.
"""

import random
from collections.abc import Iterable

import pytest

from tests.crash.model import World

SHARES = 10  # of the histories, so that they can run side by side


def live_through(seed: int, rounds: Iterable[int]) -> None:
    chance = random.Random(seed)
    for _ in rounds:
        world_seed = chance.randrange(2**32)
        whole = World(world_seed).run()
        for crash_at in range(1, len(whole.file_operations) + 1):
            crashed = World(world_seed, crash_at, whole).run()
            same = crashed.file_operations == whole.file_operations[:crash_at]
            assert same, f"World({world_seed}, {crash_at}) went another way before its crash"


@pytest.mark.parametrize("share", range(SHARES))
def test_a_log_keeps_its_promises_with_a_crash_at_every_file_operation(seed: int, rounds: int, share: int) -> None:
    live_through(seed + share, range(-(-rounds // (2 * SHARES))))


@pytest.mark.soak
def test_a_log_keeps_its_promises_over_many_histories(seed: int, rounds: int, told) -> None:
    live_through(seed, told(range(rounds)))
