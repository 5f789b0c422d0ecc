"""What a snapshot of PostgreSQL's has seen."""

import pytest

from runnel.capture.postgres.chunks import Seen

AGE = 1 << 32


@pytest.mark.parametrize(
    ("snapshot", "seen", "unseen"),
    [
        ("749:749:", [748, 3], [749, 750]),
        ("740:749:740,745", [739, 741, 748], [740, 745, 749, 800]),
        # The log tells the lower 32 bits: what is a little behind the next one is of this age or of the one before.
        (f"{AGE + 5}:{AGE + 9}:{AGE + 5}", [AGE - 1, 4, 6, 8], [5, 9, 10]),
        (f"{AGE - 3}:{AGE + 2}:{AGE - 2},{AGE + 1}", [AGE - 4, AGE - 3, AGE - 1, 0], [AGE - 2, 1, 2]),
        (f"{7 * AGE + 3}:{7 * AGE + 3}:", [AGE - 1, 2], [3, 4]),
    ],
)
def test_a_transaction_is_seen_by_its_lower_bits(snapshot, seen, unseen):
    found = Seen.of(snapshot)
    assert [number for number in seen if not found.has(number)] == []
    assert [number for number in unseen if found.has(number)] == []


def test_an_event_names_its_transaction_with_the_place_of_its_commit():
    assert Seen.of("749:749:").sees("748:123456")
    assert not Seen.of("749:749:").sees("749:123456")
