"""Run a suite of others against any broker, and tell where it differs from Apache Kafka.

    python -m tests.conformance librdkafka --bootstrap 127.0.0.1:9092 --only 0081 0012
    python -m tests.conformance kafka-python --broker kafka
    python -m tests.conformance librdkafka --broker runnel

Every test's end is told as it comes; then each test that passes on Apache Kafka and not here, with the end of what it
printed. The exit code is 1 when there is such a test. The whole output stays in the directory that is named at the end.

`--record N` runs the suite N times against Apache Kafka and stores the results as its baseline; with `--only`, those of
the tests named, beside what the baseline says of the others.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from tests.conformance.baseline import Baseline, Difference, differences, load, store
from tests.conformance.broker import our_broker
from tests.conformance.exceptions import EXCEPTIONS
from tests.conformance.outcome import Outcome
from tests.conformance.scope import OUT_OF_SCOPE, is_out_of_scope
from tests.conformance.suites import SUITES, Suite
from tests.interop.kafka_distribution import VERSION
from tests.interop.kafka_server import DEFAULTS, kafka_server

# From settings and a directory to the address of a broker.
Start = Callable[[Mapping[str, str], Path], AbstractContextManager[str]]

DIFFERENT = 1
WIDTH = 150


def main() -> int:
    options = parse()
    suite = SUITES[options.suite]
    directory = options.output or Path(tempfile.mkdtemp(prefix="conformance-"))
    console = Console(soft_wrap=True)
    # Names are long, and a file or a pipe is as wide as we say.
    console.width = max(console.width, WIDTH)
    names = choose(suite, options.only)
    if not names:
        console.print(f"no test of {suite.name} has a name with {', '.join(options.only)}")
        return 2
    if options.list:
        print("\n".join(names))
        return 0
    if options.record:
        kept = load(suite.baseline).limited_to(suite.list_names()) if options.only else None
        record(suite, names, directory, options.record, kept, console)
        return 0
    outcomes = run(suite, partial(address, options), names, directory, console)
    return tell(load(suite.baseline), outcomes, directory, console)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.split("\n\n")[0])
    parser.add_argument("suite", choices=SUITES)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is running")
    where.add_argument(
        "--broker", choices=["runnel", "kafka"], help="start ours, or Apache Kafka, set up for the suite"
    )
    where.add_argument("--record", type=int, metavar="RUNS", help="run on Apache Kafka and store the baseline")
    where.add_argument("--list", action="store_true", help="print the names of the tests and end")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="tests whose name holds this; in scope or not"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="where the output stays (default: a new directory)")
    return parser.parse_args()


def choose(suite: Suite, only: list[str]) -> list[str]:
    """What is in scope, or what was asked for."""
    names = suite.list_names()
    if only:
        return [name for name in names if any(asked in name for asked in only)]
    return [name for name in names if not is_out_of_scope(name)]


@contextmanager
def address(options: argparse.Namespace, settings: Mapping[str, str], directory: Path) -> Iterator[str]:
    if options.broker == "runnel":
        with our_broker(directory / "runnel", settings) as broker:
            yield broker.bootstrap
            broker.check()
    elif options.broker == "kafka":
        with kafka(settings, directory) as bootstrap:
            yield bootstrap
    else:
        yield options.bootstrap


@contextmanager
def kafka(settings: Mapping[str, str], directory: Path) -> Iterator[str]:
    with kafka_server(directory / "kafka-server", settings) as server:
        yield server.bootstrap


def run(suite: Suite, broker: Start, names: list[str], directory: Path, console: Console) -> list[Outcome]:
    outcomes = []
    for number, (settings, alike) in enumerate(suite.by_settings(names)):
        with broker(settings, directory / f"broker-{number}") as bootstrap:
            for outcome in suite.run(bootstrap, alike, directory):
                console.print(str(outcome), markup=False, highlight=False)
                outcomes.append(outcome)
    return outcomes


def record(suite: Suite, names: list[str], directory: Path, runs: int, kept: Baseline | None, console: Console) -> None:
    about = {
        "suite": suite.about,
        "broker": f"Apache Kafka {VERSION}, one node, KRaft, a new one for each run",
        "settings": DEFAULTS | dict(suite.settings),
        "own settings of tests": suite.own_settings,
        "date": date.today().isoformat(),
    }
    outcomes = []
    for number in range(1, runs + 1):
        outcomes.append(run(suite, kafka, names, directory / f"run-{number}", console))
        store(suite.baseline, about, outcomes, kept)
    console.print(f"stored {suite.baseline}; the output of the tests is in {directory}")


def tell(baseline: Baseline, outcomes: list[Outcome], directory: Path, console: Console) -> int:
    found = differences(baseline, outcomes, EXCEPTIONS)
    for difference in found:
        console.rule(difference.outcome.name)
        console.print(difference.outcome.output, markup=False, highlight=False)
    required = [outcome for outcome in outcomes if baseline.requires(outcome.name)]
    passed = sum(outcome.result == "passed" for outcome in required)
    console.print(table(baseline, outcomes, found))
    console.print(
        f"{passed} of {len(required)} tests that pass on Apache Kafka pass here; "
        f"{len(outcomes) - len(required)} say nothing. The output of the tests is in {directory}"
    )
    return DIFFERENT if found else 0


def table(baseline: Baseline, outcomes: list[Outcome], found: list[Difference]) -> Table:
    """What differs first, then everything else that is not simply passed on both."""
    rows = Table(*(Column(heading, no_wrap=True) for heading in ("test", "Apache Kafka", "here")), "remark")
    told = {difference.outcome.name: difference for difference in found}
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.name not in told, outcome.name)):
        expected = baseline.expected(outcome.name)
        if outcome.name in told:
            excuse = told[outcome.name].excuse
            remark = f"passes, so it is no exception: {excuse}" if excuse else "DIFFERENT"
        elif outcome.name in EXCEPTIONS:
            remark = EXCEPTIONS[outcome.name]
        else:
            remark = str(OUT_OF_SCOPE.get(outcome.name, ""))
        if expected != "passed" or outcome.result != "passed" or remark:
            rows.add_row(outcome.name, expected, outcome.result, remark)
    return rows


if __name__ == "__main__":
    sys.exit(main())
