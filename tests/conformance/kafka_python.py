"""kafka-python's own integration tests, run against any broker.

They ship in its source distribution, which is fetched once, into `~/.cache/runnel`, or where RUNNEL_CACHE points.
The distribution lacks the modules that start brokers, which nobody needs when one is given; stand-ins make the tests
importable. The tests run in one process, with this environment's Python, each with a time limit. The client under
test is the one of the distribution.
"""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conformance.outcome import Outcome, Result, tail
from tests.conformance.sources import fetch_sources
from tests.interop.kafka_distribution import cache_directory

VERSION = "3.0.12"
BROKER_VERSION = "4.3.0"
# One test places partitions on node 0, another asks for a session of three seconds.
SETTINGS = {"node.id": "0", "group.min.session.timeout.ms": "1000"}
TESTS = "test/integration"
TIME_LIMIT = 120
RUN_LIMIT = 3600.0
EXIT_CODES_OF_A_WHOLE_RUN = {0, 1}
COLLECTED = re.compile(rf"^{TESTS}/\S+::\S+$")

SERVICE = '''\
"""Stand-in: the broker is already running, and there is none to start."""


class SpawnedService:
    def __init__(self, *arguments, **options):
        raise RuntimeError("these tests run against a broker that is already there")


class ExternalService:
    def __init__(self, host, port):
        self.host = host
        self.port = port

    def open(self):
        pass

    def close(self):
        pass

    def dump_logs(self):
        pass

    def stop(self):
        pass

    def wait_for(self, pattern, timeout=None):
        return True
'''

LIMITS = f'''\
"""A time limit for each test, with its fixtures."""

import signal

import pytest


class TimedOut(Exception):
    pass


def stop(number, frame):
    raise TimedOut("over the limit of {TIME_LIMIT} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    signal.signal(signal.SIGALRM, stop)
    signal.alarm({TIME_LIMIT})
    try:
        return (yield)
    finally:
        signal.alarm(0)
'''

STAND_INS = {"test/__init__.py": "", "test/service.py": SERVICE, "conftest.py": LIMITS}


class KafkaPythonUnavailable(Exception):
    """The suite cannot be run on this machine; the message says why."""


def list_names() -> list[str]:
    """Every test, named as pytest names it, without the directory."""
    told = pytest(["--collect-only", "-q"], {}, suite_directory())
    names = [line.removeprefix(f"{TESTS}/") for line in told.stdout.splitlines() if COLLECTED.match(line)]
    if not names:
        raise KafkaPythonUnavailable(f"no tests of kafka-python were found:\n{tail(told.stdout)}")
    return names


def run_names(bootstrap: str, names: Iterable[str], directory: Path) -> Iterator[Outcome]:
    """Run tests against a broker; the whole report stays in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    report = directory.absolute() / "kafka_python.xml"
    report.unlink(missing_ok=True)
    wanted = list(names)
    # From a file, because there may be more names than a command line can hold.
    chosen = directory.absolute() / "kafka_python.names"
    chosen.write_text("".join(f"{TESTS}/{name}\n" for name in wanted))
    environment = {
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": BROKER_VERSION,
        # The tests insist on the directory of a Kafka to start, even when they start none.
        "KAFKA_ROOT": str(directory.absolute()),
    }
    arguments = [f"--junit-xml={report}", "--tb=short", f"@{chosen}"]
    told = pytest(arguments, environment, suite_directory())
    (directory / "kafka_python.log").write_text(told.stdout)
    if told.returncode not in EXIT_CODES_OF_A_WHOLE_RUN or not report.exists():
        raise KafkaPythonUnavailable(f"pytest ended with {told.returncode}:\n{tail(told.stdout)}")
    told_of = {outcome.name: outcome for outcome in read_report(report)}
    for name in wanted:
        yield told_of.get(name) or Outcome(name, "failed", 0.0, "the test did not run")


def pytest(arguments: list[str], environment: dict[str, str], directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "log_level=INFO"]
    paths = [] if any(argument.startswith("@") for argument in arguments) else [TESTS]
    return subprocess.run(
        [*command, *arguments, *paths],
        env=os.environ | environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=RUN_LIMIT,
    )


def read_report(report: Path) -> Iterator[Outcome]:
    """The outcome of each test in a report in the form of JUnit."""
    for case in ElementTree.parse(report).iter("testcase"):
        module, *classes = case.attrib["classname"].removeprefix("test.integration.").split(".")
        name = "::".join([f"{module}.py", *classes, case.attrib["name"]])
        result, output = result_of(case)
        yield Outcome(name, result, round(float(case.attrib["time"]), 1), tail(output))


def result_of(case: ElementTree.Element) -> tuple[Result, str]:
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            text = f"{found.attrib.get('message', '')}\n{found.text or ''}"
            return ("timed out" if "TimedOut: over the limit" in text else "failed"), text
    skipped = case.find("skipped")
    if skipped is not None:
        return "skipped", skipped.attrib.get("message", "")
    return "passed", ""


def suite_directory() -> Path:
    """Where the distribution is, ready to run; fetches it when it is not there yet."""
    suite = cache_directory() / f"kafka-python-{VERSION}"
    if not suite.is_dir():
        suite.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first, so that an interrupted download is never taken for a whole one.
        with tempfile.TemporaryDirectory(dir=suite.parent, prefix=f"{suite.name}.partial-") as partial:
            fetched = fetch_sources(f"kafka-python=={VERSION}", Path(partial))
            try:
                fetched.rename(suite)
            except OSError:
                # Another run may have finished first; then its download is as good as ours.
                if not suite.is_dir():
                    raise
    for name, text in STAND_INS.items():
        stand_in = suite / name
        if not stand_in.exists() or stand_in.read_text() != text:
            stand_in.write_text(text)
    return suite
