"""What passes on Apache Kafka passes here, by the tests that the authors of clients wrote for their clients."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.baseline import Difference, differences, load
from tests.conformance.broker import our_broker
from tests.conformance.exceptions import EXCEPTIONS
from tests.conformance.outcome import Outcome
from tests.conformance.scope import is_out_of_scope
from tests.conformance.suites import SUITES, Suite

MOST_EXCEPTIONS = 5
# The longer ones, which take most of the time of all, are left to the soak.
QUICK_SECONDS = 6.5
# So are those that allow the machine 30 ms for a turn of the client's own threads, whichever broker there is.
TO_THE_MILLISECOND = {"0127_fetch_queue_backoff"}

every_suite = pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)


def required(suite: Suite) -> list[str]:
    return [name for name in load(suite.baseline).required if not is_out_of_scope(name)]


def quick(suite: Suite) -> list[str]:
    """Those that take little time, with all that is run for them, or the one that takes least."""
    seconds = load(suite.baseline).seconds
    taken: Counter[str] = Counter()
    for name, own in seconds.items():
        taken[suite.run_of(name)] += own
    names = [name for name in required(suite) if name not in TO_THE_MILLISECOND]
    least = min(names, key=lambda name: seconds[name])
    return [name for name in names if taken[suite.run_of(name)] <= QUICK_SECONDS] or [least]


def shared(suite: Suite, names: list[str], count: int) -> list[list[str]]:
    """The tests in shares that take about as long as each other, on Apache Kafka."""
    seconds = load(suite.baseline).seconds
    shares: list[list[str]] = [[] for _ in range(count)]
    for name in sorted(names, key=lambda name: -seconds[name]):
        min(shares, key=lambda share: sum(seconds[each] for each in share)).append(name)
    return shares


def assert_passes(suite: Suite, names: list[str], directory: Path) -> None:
    found = differing(suite, names, directory / "first", suite.side_by_side)
    if found:
        # The clients under test have races of their own: one in a few hundred tests fails on Apache Kafka, too.
        print("run again:", *(difference.outcome for difference in found), sep="\n  ")
        found = differing(suite, [difference.outcome.name for difference in found], directory / "second")
    told = [f"{difference.outcome}\n{difference.outcome.output}" for difference in found]
    assert not told, "\n\n".join([f"{len(told)} of {len(names)} tests differ from Apache Kafka", *told])


def differing(suite: Suite, names: list[str], directory: Path, side_by_side: int = 1) -> list[Difference]:
    outcomes = []
    for number, (settings, alike) in enumerate(suite.by_settings(names)):
        outcomes += outcomes_of(suite, settings, alike, directory / str(number), side_by_side)
    assert sorted(outcome.name for outcome in outcomes) == sorted(names)
    return differences(load(suite.baseline), outcomes, EXCEPTIONS)


def outcomes_of(
    suite: Suite, settings: Mapping[str, str], names: list[str], directory: Path, side_by_side: int
) -> list[Outcome]:
    """On a broker with these settings."""
    with our_broker(directory / "runnel", settings) as broker, ThreadPoolExecutor() as threads:
        places = (directory / str(number) for number in range(side_by_side))
        shares = [share for share in shared(suite, names, side_by_side) if share]
        ran = list(threads.map(lambda share, place: list(suite.run(broker.bootstrap, share, place)), shares, places))
        broker.check()
    return [outcome for share in ran for outcome in share]


@pytest.mark.servers
@every_suite
def test_quick_tests_that_pass_on_apache_kafka_pass_here(suite: Suite, tmp_path: Path) -> None:
    assert_passes(suite, quick(suite), tmp_path)


@pytest.mark.soak
@every_suite
def test_all_tests_that_pass_on_apache_kafka_pass_here(suite: Suite, tmp_path: Path) -> None:
    assert_passes(suite, required(suite), tmp_path)


@every_suite
def test_the_baseline_holds_tests_that_can_be_required(suite: Suite) -> None:
    assert required(suite)
    assert quick(suite)


@every_suite
def test_settings_of_its_own_are_for_a_required_test(suite: Suite) -> None:
    assert set(suite.own_settings) <= set(required(suite))


def test_a_test_with_settings_of_its_own_gets_a_broker_of_its_own() -> None:
    suite = replace(SUITES["librdkafka"], settings={"a": "1", "b": "2"}, own_settings={"odd": {"b": "3"}})
    assert suite.by_settings(["first", "odd", "last"]) == [
        ({"a": "1", "b": "2"}, ["first", "last"]),
        ({"a": "1", "b": "3"}, ["odd"]),
    ]


def test_there_are_few_exceptions_each_with_a_cause_and_for_a_required_test() -> None:
    everything = {name for suite in SUITES.values() for name in required(suite)}
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS
    assert set(EXCEPTIONS) <= everything
    assert all(cause.strip() for cause in EXCEPTIONS.values())
