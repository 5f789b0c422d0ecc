"""Options and fixtures of every tier.

Chance is an argument: a test that draws at random takes `seed`, a test that repeats takes `rounds`.
Both can be given on the command line, so that every failure can be replayed.
"""

import argparse
import gc
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator

import hypothesis
import pytest

from tests import progress

# A deadline would make a test depend on how busy the machine is.
hypothesis.settings.register_profile("runnel", deadline=None, print_blob=True)
hypothesis.settings.load_profile("runnel")

# Their assertions shall show their values, too; whoever imports them first.
for module in ("interop.java_tools", "interop.python_clients", "interop.version_cases"):
    pytest.register_assert_rewrite(f"tests.{module}")

DEFAULT_ROUNDS = 50

# The files of the slower tier that take longest. Its workers take file after file: one that began with a long file at
# the very end would keep the others waiting. In turns one of those that keep the processors busy, most of them with
# Spark, and one that mostly waits.
LONGEST_FILES = (
    "pipeline/test_crash_points.py",
    "conformance/test_suites.py",
    "pipeline/test_rebuild.py",
    "unit/test_documentation.py",
    "pipeline/test_bad_rows.py",
    "abuse/test_fuzz.py",
    "pipeline/test_given_session.py",
    "pipeline/test_outgrown.py",
    "interop/test_java_tools.py",
    "contract/capture/test_incremental.py",
    "pipeline/test_faults.py",
    "crash/test_broker_kill.py",
    "pipeline/test_kit.py",
    "contract/capture/test_capture.py",
    "pipeline/test_wait_for.py",
    "pipeline/test_howto_pages.py",
    "interop/test_admin_tools.py",
    "pipeline/test_views_as_inputs.py",
    "interop/test_three_brokers.py",
    "nexmark/test_nexmark.py",
    "interop/test_shop_demo.py",
    "pipeline/test_tables.py",
    "transactions/test_copy.py",
    "pipeline/test_sums.py",
    "interop/test_connect.py",
    "interop/test_transaction_tools.py",
    "interop/test_go_clients.py",
    "pipeline/test_lateness.py",
    "pipeline/test_bad_input.py",
    "transactions/test_workload.py",
    "pipeline/test_progress.py",
    "interop/test_group_storm.py",
    "pipeline/test_changed_app.py",
    "interop/test_consumer_protocol.py",
    "pipeline/test_replay.py",
    "pipeline/test_repartition.py",
    "interop/test_streams.py",
    "pipeline/test_changes_out.py",
    "contract/views/test_crash_points.py",
    "pipeline/test_backup.py",
    "pipeline/test_redeploy.py",
)
RANKS = {f"tests/{name}": rank for rank, name in enumerate(LONGEST_FILES)}

# An app that runs in a test makes no archive of Spark's classes in the background, for half a minute.
os.environ.setdefault("RUNNEL_CLASS_ARCHIVE", "off")
# Spark's Java takes 40 % less time for what a test does if it does not prepare for a long life. All tests of a worker
# share one, whose code needs the room of a long life.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
# A shell's background ignores Ctrl-C, and so does all that is started there: also what a test wants to end so.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("runnel")
    group.addoption(
        "--rounds",
        type=positive,
        default=DEFAULT_ROUNDS,
        help=f"how often a test that asks for `rounds` repeats (default: {DEFAULT_ROUNDS})",
    )
    group.addoption(
        "--seed",
        type=int,
        default=None,
        help="where the chance of a test that asks for `seed` starts (default: at random)",
    )


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(2**32)


def pytest_sessionstart(session: pytest.Session) -> None:
    keep_the_format_of_logs(session.config)


def keep_the_format_of_logs(config: pytest.Config) -> None:
    """Once Spark has refused a query, pytest adds its handlers to a logger of PySpark's at every test, which writes
    JSON with whatever is added to it: `caplog.text` would have other quotes, depending on which tests ran before.
    """
    logs = config.pluginmanager.get_plugin("logging-plugin")
    for handler in (logs.caplog_handler, logs.report_handler):
        handler.setFormatter = lambda _: None


def pytest_report_header(config: pytest.Config) -> str:
    return f"chance: --seed {config.option.seed} --rounds {config.option.rounds}"


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_auto_num_workers() -> int | None:
    """Half of the time a worker waits: for disks, brokers, processes and time-outs. So each processor has two."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected is half a million objects that stay to the end: not to be searched for garbage every time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after pytest has put those together that share what is expensive
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: RANKS.get(item.nodeid.partition("::")[0], len(RANKS)))


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """What takes hours says first what it is going to do."""
    if config.option.markexpr != "soak":
        return []
    files = Counter(item.nodeid.partition("::")[0] for item in items)
    return ["the long tests of", *(f"{number:6,}  {name}" for name, number in files.items())]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and {"seed", "rounds"} & set(getattr(item, "fixturenames", ())):
        option = item.config.option
        command = f"pytest '{item.nodeid}' --seed {option.seed} --rounds {option.rounds}"
        report.sections.append(("replay this failure", command))
    return report


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> int:
    return int(request.config.option.rounds)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.option.seed)


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Callable[[Collection[progress.Round]], Iterator[progress.Round]]:
    """`for number in told(range(rounds))` tells once a minute how far it is, beside the name of the test."""
    manager = request.config.pluginmanager
    terminal, capture = manager.get_plugin("terminalreporter"), manager.get_plugin("capturemanager")

    def tell(line: str) -> None:
        if terminal is not None:  # as it is in the processes of xdist
            with capture.global_and_fixture_disabled():
                terminal.write_line(f"  {line}")

    return lambda rounds: progress.told(rounds, tell)
