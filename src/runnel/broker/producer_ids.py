"""Ids for idempotent producers: each is given out once, also after a crash.

A block of them is reserved in the cluster state at once; what is left of it at a stop is never given out.
"""

from __future__ import annotations

import asyncio

from runnel.broker.cluster import Cluster, reserve_producer_ids
from runnel.clock import Clock

BLOCK = 1_000


class ProducerIds:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._free = iter(range(0))
        self._reserving = asyncio.Lock()

    async def next(self) -> int:
        for given in self._free:
            return given
        async with self._reserving:
            for given in self._free:  # somebody else reserved a block meanwhile
                return given
            block = await asyncio.wrap_future(self._cluster.submit(reserve_producer_ids(self._clock, BLOCK)))
            self._free = iter(block)
            return next(self._free)
