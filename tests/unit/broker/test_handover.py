import asyncio
import threading

from runnel.broker.handover import Handover
from tests.unit.broker.socketless import Loop

THREADS = 4
CALLS = 2_000


def test_calls_of_a_thread_arrive_in_its_order_and_none_is_lost():
    async def receive() -> list[tuple[int, int]]:
        arrived: list[tuple[int, int]] = []
        handover = Handover(asyncio.get_running_loop())
        done = asyncio.Event()

        def take(call: tuple[int, int]) -> None:
            arrived.append(call)
            if len(arrived) == THREADS * CALLS:
                done.set()

        def hand_over(name: int) -> None:
            for number in range(CALLS):
                handover.call(take, (name, number))

        threads = [threading.Thread(target=hand_over, args=(name,)) for name in range(THREADS)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(done.wait(), 60)
        for thread in threads:
            thread.join()
        return arrived

    arrived = asyncio.run(receive())
    for name in range(THREADS):
        assert [number for whose, number in arrived if whose == name] == list(range(CALLS))


def test_many_calls_wake_the_loop_once():
    loop = Loop()
    wakes = []
    handover = Handover(loop)
    loop.call_soon_threadsafe = lambda function: wakes.append(function)  # type: ignore[assignment,misc,return-value]
    for number in range(100):
        handover.call(int, number)
    assert len(wakes) == 1
    wakes[0]()
    handover.call(int, 1)
    assert len(wakes) == 2
    loop.close()


def test_a_call_that_fails_does_not_stop_those_behind_it():
    loop = Loop()
    told: list[str] = []
    loop.set_exception_handler(lambda _, context: told.append(f"{context['message']}: {context['exception']}"))
    arrived: list[int] = []

    def take(number: int) -> None:
        if number == 1:
            raise ValueError("a defect")
        arrived.append(number)

    handover = Handover(loop)
    for number in range(3):
        handover.call(take, number)
    loop.turn(2)
    loop.close()
    assert arrived == [0, 2]
    assert told == ["a call from the log failed: a defect"]


def test_a_call_made_by_a_call_comes_after_it():
    loop = Loop()
    arrived: list[str] = []
    handover = Handover(loop)

    def first(_: object) -> None:
        handover.call(arrived.append, "second")
        arrived.append("first")

    handover.call(first, None)
    loop.turn(3)
    loop.close()
    assert arrived == ["first", "second"]


def test_calls_made_together_are_run_at_the_end_and_wake_nobody():
    loop = Loop()
    wakes = []
    arrived: list[int] = []
    handover = Handover(loop)
    loop.call_soon_threadsafe = lambda function: wakes.append(function)  # type: ignore[assignment,misc,return-value]
    handover.call(arrived.append, 1)
    with handover.together():
        handover.call(arrived.append, 2)
        handover.call(arrived.append, 3)
        assert arrived == []
    assert arrived == [1, 2, 3]
    assert len(wakes) == 1, "that of the first"
    wakes[0]()
    handover.call(arrived.append, 4)
    assert len(wakes) == 2
    loop.close()


def test_a_call_after_the_loop_was_closed_is_dropped():
    loop = Loop()
    loop.close()
    Handover(loop).call(int, 1)
