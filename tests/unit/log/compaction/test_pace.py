import pytest

from runnel.log.compaction.pace import Pace


class Processor:
    """Counts the time of work and of rests."""

    def __init__(self) -> None:
        self.worked = 0.0
        self.now = 0.0
        self.history: list[tuple[float, float]] = [(0.0, 0.0)]

    def work(self, seconds: float) -> None:
        self.worked += seconds
        self.now += seconds
        self.history.append((self.now, self.worked))

    def rest(self, seconds: float) -> None:
        self.now += seconds
        self.history.append((self.now, self.worked))

    def largest_share(self, window: float) -> float:
        """Over any window that begins or ends where work did."""
        return max(
            (worked - before) / window
            for start, before in self.history
            for now, worked in self.history
            if 0 < now - start <= window
        )


@pytest.mark.parametrize("percent", [10, 25, 50])
def test_the_share_holds_over_any_ten_seconds(percent: int) -> None:
    processor = Processor()
    pace = Pace(percent, lambda: processor.worked, lambda: processor.now, processor.rest)

    processor.work(0.2)  # the interpreter starts
    pace()
    for number in range(600):
        processor.work(0.001 + 0.02 * (number % 5))
        pace()

    assert processor.now > 20
    assert 0.9 * percent / 100 < processor.worked / processor.now < percent / 100
    assert processor.largest_share(10) <= percent / 100


def test_what_was_waited_for_the_processor_counts_as_rest() -> None:
    processor = Processor()
    pace = Pace(25, lambda: processor.worked, lambda: processor.now, processor.rest)

    processor.work(1)
    processor.rest(10)
    pace()

    assert processor.now == 11


def test_many_small_pieces_rest_together() -> None:
    processor = Processor()
    pace = Pace(25, lambda: processor.worked, lambda: processor.now, processor.rest)

    for _ in range(3):
        processor.work(0.0008)
        pace()

    assert processor.now == pytest.approx(0.0024)


def test_without_a_limit_there_is_no_rest() -> None:
    processor = Processor()
    pace = Pace(100, lambda: processor.worked, lambda: processor.now, processor.rest)

    processor.work(5)
    pace()

    assert processor.now == 5
