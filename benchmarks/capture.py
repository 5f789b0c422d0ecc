"""Change data capture from PostgreSQL beside Debezium 3.3: the same server, the same changes, turn by turn.

It needs Java 17, Maven, which fetches Debezium once, and PostgreSQL 15 or newer. TMPDIR chooses the brokers' disk.
Both sides write into a broker of ours, a new one for each of their lives; `capture_samples` tells what a life is, and
`capture_sides` how each side is set. A round is one life of each, and takes seven minutes:

- changes a second of a backlog of 300,000 (60 % inserts, 30 % updates, 10 % deletes of rows of 200 bytes, in
  transactions of 100), until the last is durable in its topic; and the processor time of the server for them.
- rows a second of a snapshot of 2 million rows. Ours is that of a new capture, and its start counts. Debezium's is its
  blocking one, so that it is one of an engine that is warmed up.
- how old a change is when it can be read, at 500 changes a second: with nothing else to do, and while a big table is
  read beside the changes (by an incremental snapshot of either).
- the largest resident size, in the backlog and, of ours, in a transaction of a million rows.
- a backlog over 200 tables, and one of rows of a megabyte.
"""

import signal
import sys
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from benchmarks import capture_database
from benchmarks.broker_environment import users_program
from benchmarks.broker_turns import Turns, say, take_turns
from benchmarks.capture_memory import IN_PROGRESS, WHOLE, Growth, growth
from benchmarks.capture_samples import MB, RATE, Life, Sizes, life
from benchmarks.capture_sides import NAMES, Debezium, Ours, Side
from benchmarks.harness import Figure, Options, at_least, at_most
from benchmarks.pipeline_stage import few_rounds
from tests.contract.views.postgres_server import Postgres, PostgresUnavailable, programs
from tests.interop.debezium.engine import debezium_classpath
from tests.interop.kafka_distribution import KafkaUnavailable

MEMORY_LIMIT = 150.0  # MB
FLAT = 1.1


def run(options: Options) -> list[Figure]:
    try:
        debezium_classpath()
        programs()
    except (KafkaUnavailable, PostgresUnavailable) as missing:
        raise SystemExit(str(missing)) from None
    # As after Ctrl-C: without it servers would outlive a benchmark that was told to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    ours = Ours(users_program())
    sizes, rounds = Sizes.of(options), few_rounds(options).rounds
    with tempfile.TemporaryDirectory(prefix="runnel-bench-") as folder, capture_database.server() as postgres:
        say(f"filling a table with {sizes.snapshot:,} rows")
        capture_database.fill(postgres, sizes.snapshot, sizes.tables)
        turns = _turns(ours, postgres, Path(folder), sizes, rounds)
        growths = {how: _growths(ours, how, postgres, Path(folder), sizes, rounds) for how in (WHOLE, IN_PROGRESS)}
    return figures(turns, growths, sizes)


def _turns(ours: Ours, postgres: Postgres, folder: Path, sizes: Sizes, rounds: int) -> Turns[Life]:
    numbers = count()

    def sample(side: Side) -> Life:
        return life(side, postgres, ours.program, folder / f"life-{next(numbers)}", sizes)

    sides: tuple[Side, Side] = (ours, Debezium())
    return take_turns("capture", rounds, *sides, sample, NAMES)


def _growths(ours: Ours, how: str, postgres: Postgres, folder: Path, sizes: Sizes, rounds: int) -> list[Growth]:
    name = how.replace(" ", "-")
    return [growth(ours, how, postgres, folder / f"{name}-{number}", sizes) for number in range(rounds)]


def figures(turns: Turns[Life], growths: Mapping[str, list[Growth]], sizes: Sizes) -> list[Figure]:
    return [*_side_by_side(turns, sizes), *_memory(turns, growths), *_reported(turns, sizes)]


def _side_by_side(turns: Turns[Life], sizes: Sizes) -> list[Figure]:
    changes = f"a backlog of {sizes.backlog * 100:,} changes"
    rows = f"snapshot of {sizes.snapshot:,} rows"
    lag = f"from the commit to a reader, {RATE} changes/s"
    return [
        turns.figure(changes, "changes/s", lambda each: each.backlog.per_second, at_least(1)),
        turns.figure(rows, "rows/s", lambda each: each.rows_per_second, at_least(1.5)),
        turns.figure(f"{lag}: p50", "ms", lambda each: each.quiet.p50, at_most(1)),
        turns.figure(f"{lag}: p99", "ms", lambda each: each.quiet.p99, at_most(1)),
        turns.figure(f"{lag}, during a snapshot: p50", "ms", lambda each: each.meanwhile.p50, at_most(1)),
        turns.figure(f"{lag}, during a snapshot: p99", "ms", lambda each: each.meanwhile.p99, at_most(1)),
    ]


def _memory(turns: Turns[Life], growths: Mapping[str, list[Growth]]) -> list[Figure]:
    made = [_limited("memory in a backlog, resident", [each.backlog.peak for each in turns.ours])]
    for how, found in growths.items():
        what = f"memory in a transaction of {found[0].all.changes:,} rows, {how}"
        peaks, few = [each.all.peak for each in found], [each.few.peak for each in found]
        made.append(_limited(what, peaks))
        beside = f"one of {found[0].few.changes:,} rows"
        made.append(Figure(what, "MB", beside, _megabytes(peaks), _megabytes(few), at_most(FLAT)))
    return made


def _limited(what: str, peaks: list[int]) -> Figure:
    return Figure(what, "MB", "the limit", _megabytes(peaks), (MEMORY_LIMIT,) * len(peaks), at_most(1))


def _megabytes(sizes: list[int]) -> tuple[float, ...]:
    return tuple(size / MB for size in sizes)


def _reported(turns: Turns[Life], sizes: Sizes) -> list[Figure]:
    tables, large = f"a backlog over {sizes.tables} tables", "a backlog of rows of 1 MB"
    cpu = "CPU of the database's server per million changes"
    return [
        turns.figure("memory in a backlog, resident", "MB", lambda each: each.backlog.peak / MB),
        turns.figure("memory in a backlog, proportional", "MB", lambda each: each.backlog.proportional / MB),
        turns.figure(tables, "changes/s", lambda each: each.many.per_second),
        turns.figure(f"{tables}: memory, resident", "MB", lambda each: each.many.peak / MB),
        turns.figure(large, "rows/s", lambda each: each.large.per_second),
        turns.figure(f"{large}: memory, resident", "MB", lambda each: each.large.peak / MB),
        turns.figure(cpu, "s", lambda each: max(each.backlog.server_cpu_of_a_million, 0.01)),
    ]
