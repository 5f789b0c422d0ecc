import pytest

from runnel.log.epochs import NO_EPOCH, EpochStart, LeaderEpochs


def epochs(*starts: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(*start) for start in starts])


def test_nothing_is_known_of_an_empty_log() -> None:
    assert epochs().latest == NO_EPOCH
    assert epochs().epoch_of(0) == NO_EPOCH


def test_an_epoch_that_left_nothing_in_an_empty_log_ends_where_the_log_does() -> None:
    assert epochs().end_of(3, 7) == EpochStart(3, 7)


def test_a_new_epoch_is_noted() -> None:
    known = epochs((0, 0))

    assert known.begin(1, 10)
    assert known.starts == ((0, 0), (1, 10))


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_that_is_known_or_older_is_no_news(epoch: int) -> None:
    known = epochs((0, 0), (1, 10))

    assert not known.begin(epoch, 20)
    assert known.starts == ((0, 0), (1, 10))


def test_an_epoch_that_wrote_nothing_is_forgotten_when_the_next_begins() -> None:
    known = epochs((0, 0), (1, 10))
    known.begin(2, 10)

    assert known.starts == ((0, 0), (2, 10))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (9, (9, 100)),  # the present one ends where the log ends
        (12, (9, 100)),
        (4, (4, 60)),
        (3, (2, 40)),  # the largest that is not larger
        (2, (2, 40)),
        (1, (1, 5)),  # its records are gone: a reader who was at its end goes on with the next one
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(asked: int, answer: tuple[int, int]) -> None:
    assert epochs((2, 5), (4, 40), (9, 60)).end_of(asked, 100) == answer


def test_epochs_that_begin_after_a_cut_are_forgotten() -> None:
    known = epochs((0, 0), (1, 10), (2, 20))
    known.cut_from(10)

    assert known.starts == ((0, 0), (1, 10))


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, ((0, 0), (1, 10), (2, 20))),
        (5, ((0, 5), (1, 10), (2, 20))),
        (10, ((1, 10), (2, 20))),
        (15, ((1, 15), (2, 20))),
        (99, ((2, 99),)),
    ],
)
def test_epochs_whose_records_are_deleted_are_forgotten(start: int, left: tuple[tuple[int, int], ...]) -> None:
    known = epochs((0, 0), (1, 10), (2, 20))

    assert known.cut_before(start) == (start > 0)
    assert known.starts == left


def test_epochs_are_written_as_kafka_writes_them() -> None:
    assert epochs((0, 0), (3, 17)).encode() == b"0\n2\n0 0\n3 17\n"


def test_what_was_written_is_read() -> None:
    known = epochs((0, 0), (3, 17), (2**31 - 2, 2**40))

    assert LeaderEpochs.decode(known.encode()).starts == known.starts


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n5\n",
        b"0\n1\n0 5 6\n",
        b"0\n1\nzero 5\n",
        b"0\n2\n1 0\n0 5\n",
        b"0\n2\n0 5\n1 5\n",
        b"0\n2\n0 5\n0 6\n",
        b"0\n1\n-1 5\n",
        b"0\n1\n0 -5\n",
        b"0\n1\n2147483647 5\n",
        b"0\n1\n0 9223372036854775808\n",
        b"\xff\n",
    ],
)
def test_a_file_of_another_shape_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any of them
        LeaderEpochs.decode(content)
