"""A capture that is cut off at one of its durable steps, in this process: as when it is killed there."""

from __future__ import annotations

import threading
from collections import Counter

from runnel.capture.capture import Capture
from runnel.capture.source import Source
from runnel.capture.state import State
from runnel.durable import watched
from tests.contract.capture.lives import Died, wait_until


def lived(work: Capture, looking: Source, die_at: str = "", *, knows_all: bool = False) -> bool:
    """Until nothing is left to be told, or until it is cut off there; whether it was.

    `knows_all`: and until all tables are known that there are. One that came last is not, for a moment.
    """
    reached: Counter[str] = Counter()
    errors: list[BaseException] = []

    def die(place: str) -> None:
        reached[place] += 1
        if f"{place}:{reached[place]}" == die_at:
            raise Died(place)

    def run() -> None:
        try:
            work.run()
        except BaseException as error:
            errors.append(error)

    def is_still() -> bool:
        state = work.state  # it is another one at any moment
        position = state.position
        is_read = work.is_streaming.is_set() and state.is_complete
        still = is_read and position is not None and not position.index
        is_told = still and looking.behind(position) == 0  # type: ignore[arg-type]
        return bool(errors) or (is_told and not (knows_all and unknown(state)))

    def unknown(state: State) -> set[str]:
        return {str(table) for table in looking.tables()} - set(state.tables)

    thread = threading.Thread(target=run)
    with watched(die):
        thread.start()
        try:
            wait_until(is_still, "an end")
        finally:
            work.stop()
            thread.join()
    for error in errors:
        if not isinstance(error, Died):
            raise error
    return bool(errors)
