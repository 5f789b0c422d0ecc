"""A capture that is cut off at one of its durable steps, in this process: as when it is killed there."""

from __future__ import annotations

import threading
from collections import Counter

from runnel.capture.capture import Capture
from runnel.capture.source import Source
from runnel.durable import watched
from tests.contract.capture.lives import Died, wait_until


def lived(work: Capture, looking: Source, die_at: str = "") -> bool:
    """Until nothing is left to be told, or until it is cut off there; whether it was."""
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
        position = work.state.position
        is_read = work.is_streaming.is_set() and work.state.is_complete
        still = is_read and position is not None and not position.index
        return bool(errors) or (still and looking.behind(position) == 0)  # type: ignore[arg-type]

    thread = threading.Thread(target=run)
    with watched(die):
        thread.start()
        wait_until(is_still, "an end")
        work.stop()
        thread.join()
    for error in errors:
        if not isinstance(error, Died):
            raise error
    return bool(errors)
