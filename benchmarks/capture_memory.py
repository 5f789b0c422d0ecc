"""Our memory in a transaction of a million rows: of captures that do nothing else, on a database of their own.

A transaction of a tenth of it goes before, in the same process: what the large one takes beyond that is what grows with
a transaction. It is done with transactions taken whole, as is the default, and with such that are taken before they are
committed and kept in files until they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker_servers import Runnel, running
from benchmarks.broker_turns import say
from benchmarks.capture_database import BULK, DONE, database
from benchmarks.capture_running import PREFIX
from benchmarks.capture_samples import MB, Caught, Sizes, caught_up, make_topics
from benchmarks.capture_sides import Ours, wait_until_ready
from tests.contract.views.postgres_server import Postgres

WHOLE, IN_PROGRESS = "taken whole", "taken in progress"


@dataclass(frozen=True)
class Growth:
    """What both transactions took."""

    few: Caught
    all: Caught

    def __str__(self) -> str:
        return (
            f"{self.few.changes:,} rows: peak {self.few.peak / MB:.0f} MB; {self.all.changes:,} rows: peak"
            f" {self.all.peak / MB:.0f} MB in {self.all.seconds:.0f} s"
        )


def growth(ours: Ours, how: str, postgres: Postgres, place: Path, sizes: Sizes) -> Growth:
    place.mkdir()
    with database(postgres) as own, running(Runnel(place / "broker", ours.program)) as broker:
        make_topics(broker, 0)
        with ours.capturing(own, broker, place, name=PREFIX, options=_options(how, place)) as captured:
            wait_until_ready(captured)
            few = caught_up(captured, lambda: own.insert_bulk(sizes.few))
            found = Growth(few, caught_up(captured, lambda: own.insert_bulk(sizes.bulk)))
    say(f"one transaction, {how}: {found}")
    return found


def _options(how: str, place: Path) -> Sequence[str]:
    tables = [part for table in (BULK, DONE) for part in ("--tables", f"public.{table}")]
    if how == WHOLE:
        return [*tables, "--snapshot", "none"]
    kept = place / "kept"
    kept.mkdir()
    return [*tables, "--snapshot", "none", "--in-progress", str(kept)]
