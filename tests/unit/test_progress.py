"""Long tests say how far they are."""

from tests.progress import told


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lived(rounds: int, seconds: float) -> list[str]:
    clock = Clock()
    lines: list[str] = []
    for number in told(range(rounds), lines.append, clock):
        assert number == clock.now / seconds
        clock.now += seconds
    assert clock.now == rounds * seconds
    return lines


def test_it_is_told_after_each_minute_how_many_rounds_are_done_and_how_long_the_others_will_take():
    assert lived(10, 30.0) == [
        "2 of 10 done, 4 minutes left",
        "4 of 10 done, 3 minutes left",
        "6 of 10 done, 2 minutes left",
        "8 of 10 done, 1 minutes left",
    ]


def test_a_round_that_takes_longer_than_a_minute_is_told_when_it_is_done():
    assert lived(3, 600.0) == ["1 of 3 done, 20 minutes left", "2 of 3 done, 10 minutes left"]


def test_nothing_is_told_of_what_takes_less_than_a_minute():
    assert lived(1_000, 1 / 32) == []
