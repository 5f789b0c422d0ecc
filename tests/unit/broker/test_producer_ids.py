import asyncio
from random import Random

from runnel.broker.cluster import open_cluster
from runnel.broker.producer_ids import BLOCK, ProducerIds
from runnel.log import Log, open_log
from runnel.testing import FaultyFiles, StoppedClock

CLOCK = StoppedClock()


def given(log: Log, count: int) -> list[int]:
    """So many ids, asked for at the same time."""

    async def ask() -> list[int]:
        ids = ProducerIds(open_cluster(log), CLOCK)
        asked = asyncio.gather(*(ids.next() for _ in range(count)))
        while not asked.done():
            log.commit()
            await asyncio.sleep(0)
        return asked.result()

    return asyncio.run(ask())


def start(files: FaultyFiles) -> Log:
    return open_log("/data", files=files, clock=CLOCK, background=False)


def test_no_id_is_given_out_twice_by_one_process():
    with start(FaultyFiles(clock=CLOCK)) as log:
        ids = given(log, 2 * BLOCK + 5)
    assert len(set(ids)) == len(ids) == 2 * BLOCK + 5


def test_a_block_is_reserved_with_one_write():
    files = FaultyFiles(clock=CLOCK)
    with start(files) as log:
        given(log, BLOCK)
        first = log.partition("__runnel_metadata").end_offset
        given(log, 1)
        assert log.partition("__runnel_metadata").end_offset == first + 1


def test_no_id_is_given_out_twice_after_kills():
    files, ids = FaultyFiles(clock=CLOCK), []
    for _ in range(5):
        ids += given(start(files), 3)
        files = files.kill()
    assert len(set(ids)) == len(ids) == 15


def test_no_id_is_given_out_twice_after_power_cuts(seed):
    chance, files, ids = Random(seed), FaultyFiles(clock=CLOCK), []
    for _ in range(20):
        ids += given(start(files), 3)
        files = files.crash(chance)
    assert len(set(ids)) == len(ids) == 60


def test_ids_go_on_after_a_clean_stop():
    files, ids = FaultyFiles(clock=CLOCK), []
    for _ in range(3):
        with start(files) as log:
            ids += given(log, 2)
    assert len(set(ids)) == 6
