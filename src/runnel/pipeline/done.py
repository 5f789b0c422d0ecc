"""A batch that came to its end, as plain data: for whoever watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runnel.pipeline.batch import Batch
from runnel.pipeline.source.offsets import Offsets


@dataclass(frozen=True)
class Done:
    """`ended` is by the monotonic clock, `steps` are seconds. `watermark` is that at its start, in milliseconds since
    1970; None while there is none. `ends` are how far each input was read, by its number.
    """

    number: int
    ended: float
    seconds: float
    steps: Mapping[str, float]
    watermark: int | None
    ends: Mapping[int, Offsets]

    @classmethod
    def of(cls, batch: Batch) -> Done:
        watch, moment = batch.watch, batch.moment
        watermark = moment.watermark if moment.has_watermark else None
        seconds = watch.total
        return cls(batch.number, watch.began + seconds, seconds, dict(watch.seconds), watermark, batch.ends)
