import threading
import weakref

import pytest

from runnel.errors import Closed
from runnel.log.appends import Append, Appended, Bunch
from runnel.records import Record, build_batch, parse_header

BATCH = build_batch([Record(b"tea")])
APPENDED = Appended(5, 5, 1_000, 0)


def an_append() -> Append:
    return Append(parse_header(BATCH), (BATCH,), APPENDED)


def test_the_result_of_an_answered_append_is_where_it_stands() -> None:
    append = an_append()
    append.answer()

    assert append.result(timeout=0) == APPENDED


def test_a_result_that_does_not_come_in_time_says_so() -> None:
    with pytest.raises(TimeoutError, match="no answer within 0 seconds"):
        an_append().result(timeout=0)


def test_an_append_can_be_asked_again_after_a_timeout() -> None:
    append = an_append()
    with pytest.raises(TimeoutError):
        append.result(timeout=0)
    append.answer()

    assert append.result(timeout=0) == APPENDED


def test_the_result_of_a_lost_append_is_its_error() -> None:
    append = an_append()
    append.answer(Closed("partition orders-0"))

    with pytest.raises(Closed):
        append.result(timeout=0)


def test_a_thread_that_waits_is_woken_by_the_answer() -> None:
    append = an_append()
    results: list[Appended] = []
    waiter = threading.Thread(target=lambda: results.append(append.result(timeout=60)))
    waiter.start()
    append.answer()
    waiter.join(60)

    assert results == [APPENDED]


def test_callbacks_are_called_once_in_their_order_when_the_answer_comes() -> None:
    append = an_append()
    called: list[tuple[str, bool]] = []
    append.when_done(lambda done: called.append(("first", done.done)))
    append.when_done(lambda done: called.append(("second", done.done)))
    assert called == []

    append.answer()

    assert called == [("first", True), ("second", True)]


def test_a_callback_after_the_answer_is_called_at_once() -> None:
    append = an_append()
    append.answer(Closed("partition orders-0"))
    errors: list[object] = []
    append.when_done(lambda done: errors.append(done.error))

    assert errors == [append.error]


def test_a_callback_may_ask_for_the_result() -> None:
    append = an_append()
    results: list[Appended] = []
    append.when_done(lambda done: results.append(done.result(timeout=0)))
    append.answer()

    assert results == [APPENDED]


def test_a_callback_that_fails_does_not_keep_others_from_their_answer(caplog: pytest.LogCaptureFixture) -> None:
    append = an_append()
    called: list[str] = []

    def fail(done: Append) -> None:
        raise RuntimeError("no time for this")

    append.when_done(fail)
    append.when_done(lambda done: called.append("second"))
    append.answer()

    assert called == ["second"]
    assert "no time for this" in caplog.text


def test_each_callback_is_called_once_while_another_thread_answers() -> None:
    for _ in range(300):
        append = an_append()
        called: list[int] = []
        begin = threading.Barrier(2)

        def answer(append: Append = append, begin: threading.Barrier = begin) -> None:
            begin.wait(60)
            append.answer()

        thread = threading.Thread(target=answer)
        thread.start()
        begin.wait(60)
        for number in range(20):
            append.when_done(lambda _, number=number, called=called: called.append(number))  # type: ignore[misc]
        thread.join(60)

        assert sorted(called) == list(range(20))


def test_all_threads_that_wait_are_woken_by_the_answer() -> None:
    for _ in range(100):
        append = an_append()
        results: list[Appended] = []
        begin = threading.Barrier(4)

        def wait(append: Append = append, begin: threading.Barrier = begin, results: list[Appended] = results) -> None:
            begin.wait(60)
            results.append(append.result(timeout=60))

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        begin.wait(60)
        append.answer()
        for thread in threads:
            thread.join(60)

        assert results == [APPENDED] * 3


class Heard:
    def __init__(self) -> None:
        self.told: list[tuple[int, int, object]] = []

    def expect(self, base_offset: int, timestamp: int) -> None: ...

    def tell(self, base_offset: int, timestamp: int, error: object) -> None:
        self.told.append((base_offset, timestamp, error))

    def refuse(self) -> None: ...


def test_a_bunch_is_as_large_as_its_batches_and_ends_with_the_last_one() -> None:
    header, heard = parse_header(BATCH)._replace(base_offset=5), [Heard(), Heard()]
    bunch = Bunch(header, [(BATCH,), (BATCH, BATCH)], [(5, 70, 3), (9, 50, 1)], [], [(heard[0], 5), (heard[1], 6)])
    failure = Closed("partition orders-0")
    bunch.answer(failure)

    assert (bunch.size, bunch.data, bunch.appended) == (120, (BATCH,) * 3, Appended(5, 9, 1, header.leader_epoch))
    assert [each.told for each in heard] == [[(5, -1, failure)], [(6, -1, failure)]]
    assert bunch.done


def test_who_was_told_is_let_go() -> None:
    """He may keep what he was told of."""
    first, second = Heard(), Heard()
    append = Append(parse_header(BATCH), (BATCH,), APPENDED, told=first)
    bunch = Bunch(parse_header(BATCH), [(BATCH,)], [(0, 71, 1)], [], [(second, 0)])
    held = [weakref.ref(first), weakref.ref(second)]
    append.answer()
    bunch.answer()
    assert (len(first.told), len(second.told)) == (1, 1)
    del first, second

    assert [each() for each in held] == [None, None]
