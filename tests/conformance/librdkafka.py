"""librdkafka's own tests, run against any broker.

Its authors test the client against Apache Kafka; run against another broker, the same tests tell where that broker
differs. The source, tests included, ships in the npm package of Confluent's JavaScript client. It is fetched and built
once, into `~/.cache/runnel`, or where RUNNEL_CACHE points: npm, a C and a C++ compiler and make are needed for it.

Left out are the tests that need no broker, and those that their authors run by hand.
Tests run one after the other, each in a process of its own with a time limit, in quick mode unless it leaves nothing
of them. A test of many parts (`SPLIT`) is run part by part, because it stops at the first part that fails, and some
parts may be about things that a broker does not offer: `0081_admin/CreateTopics`.

A few tests make topics with three replicas, which one node cannot hold: they are built to ask for one.

The tests can be run with groups of either protocol, classic or consumer (KIP-848): with the second, only those whose
consumers join a group (`IN_A_GROUP`), because the others would do the same as before.

Some tests call scripts of a Kafka distribution, such as kafka-topics.sh, or a small Java program of their own: they get
scripts that run the classes of the Apache Kafka that the interoperability tests use. Others read the client's figures
with RapidJSON, whose headers come with a Python package.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.outcome import Outcome, Result, tail, without_colours
from tests.conformance.sources import fetch_sources
from tests.interop.kafka_distribution import (
    JVM_OPTIONS,
    archive_options,
    cache_directory,
    compiled,
    find_java,
    kafka_classpath,
)

VERSION = "2.15.1"
PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
IN_PACKAGE = "package/deps/librdkafka/"
RAPIDJSON = "python-rapidjson==1.20"
# One node holds one replica: the three in the calls that make a topic, which follow the number of partitions.
THREE_REPLICAS = re.compile(r"(create_topic_wait_exists\([^;]*,\s*)3(,\s*\d+\);)")
# Where the cache holds it; what is built otherwise needs another name.
BUILT = f"librdkafka-{VERSION}-with-rapidjson"
# Tests are chosen by what a broker of this version can do.
BROKER_VERSION = "4.3.0"

# Its own runner would take five. They mostly wait: for a group to form, for nothing to come.
SIDE_BY_SIDE = 4
TIME_LIMIT = 240.0
# Tests that need as long as they allow themselves, on any broker, get this many times as long.
LONGER = {"0059": 2.0}
BUILD_JOBS = "2"
# Without these, the library would differ with what happens to be installed.
LEFT_OUT_OF_BUILD = ("curl", "sasl", "debug-symbols")

STATES: dict[str, Result] = {"PASSED": "passed", "FAILED": "failed", "SKIPPED": "skipped", "RUNNING": "failed"}
NOT_CODE = re.compile(r"^#[^\n]*|/\*.*?\*/", re.MULTILINE | re.DOTALL)
LEFT_OUT = re.compile(r"\bTEST_F_(LOCAL|MANUAL)\b")
SCENARIO = re.compile(r'\.scenario = "([^"]*)"')
OWN_TIME_LIMIT = re.compile(r"timed out \(timeout set to \d+ seconds\)")

SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-run-class.sh": "",
}
PROGRAM = "tests/java/TransactionProducerCli.java"
CLASSES = "tests/java/classes"


@dataclass(frozen=True)
class Split:
    """A test that is run in parts: where its source calls them, and what their functions are called."""

    file: str
    caller: str
    prefix: str
    part: str

    def parts(self, source: str) -> list[str]:
        body = re.search(rf"^[^\n]*\b{self.caller}\([^\n]*{{$.*?^}}", source, re.MULTILINE | re.DOTALL)
        found = re.findall(rf"^\s+{self.prefix}({self.part})\(", body[0] if body else "", re.MULTILINE)
        return list(dict.fromkeys(found))


SPLIT = {
    "0081_admin": Split("0081-admin.c", "do_test_apis", "do_test_", r"\w+"),
    "0103_transactions": Split("0103-transactions.c", "main_0103_transactions", "do_test_", r"\w+"),
    "0113_cooperative_rebalance": Split(
        "0113-cooperative_rebalance.cpp", "main_0113_cooperative_rebalance", "", r"[b-z]_\w+"
    ),
    "0137_barrier_batch_consume": Split(
        "0137-barrier_batch_consume.c", "main_0137_barrier_batch_consume", "do_test_", r"\w+"
    ),
}
# Quick mode leaves nothing, or little, of these.
NOT_QUICK = re.compile("0018|0019|0022|0026|0030|0045|0050|0061|0082|0089|0098|0102|0113|0122|0127|0132|0137")

# The authors' brokers wait three seconds for a group's first members, as Kafka does unless told otherwise; ours and the
# other tests do without. This one fails on Apache Kafka, too, when its two consumers are not in the group's first
# generation together. They may join 50 ms apart: that long the client puts off its second connection, by which the
# first consumer asks for all topics; the second one asks by its first connection, if it is in time.
WITH_DELAY = {"0102_static_group_rebalance": {"group.initial.rebalance.delay.ms": "3000"}}

# By their source, these have consumers that join a group, or tell of groups. Not here are those that leave themselves
# out with the new protocol: 0084, 0118, 0132 and the descriptions of groups in 0081.
IN_A_GROUP = re.compile(
    "0018|0019|0020|0022|0026|0029|0030|0033|0040|0042|0045|0049|0050|0052|0056|0060|0064|0069|0077|0082|0083|0089"
    "|0091|0093|0102|0113|0122|0125|0129|0137"
    r"|0081_admin/(List|Delete|Alter)\w*Group"
    "|0103_transactions/(consumer_producer|basic_producer|fenced|empty)_txn"
    "|0103_transactions/txn_abort_control_message_leader_epoch"
)


class LibrdkafkaUnavailable(Exception):
    """The suite cannot be built on this machine; the message says what is missing."""


@dataclass(frozen=True)
class Case:
    """One test, or one part of a test that is split."""

    test: str
    part: str = ""

    @property
    def name(self) -> str:
        return f"{self.test}/{self.part}" if self.part else self.test

    @property
    def number(self) -> str:
        return self.test.split("_", 1)[0]

    @property
    def function(self) -> str:
        """How the part is called in the source and in the output, with what follows it there."""
        return f"{SPLIT[self.test].prefix}{self.part}:"


def list_cases(scenario: str = "default") -> list[Case]:
    """The tests that need a broker that is set up in this way: `default` or `noautocreate`."""
    tests = suite_directory() / "tests"
    return [case for name in parse_names((tests / "test.c").read_text(), scenario) for case in split(tests, name)]


def list_group_cases() -> list[Case]:
    """The tests for which it matters by which protocol a consumer joins its group."""
    return [case for case in list_cases() if IN_A_GROUP.match(case.name)]


def run_of(name: str) -> str:
    """All tests of one number are run for one of them; parts, each by itself."""
    return name if "/" in name else name.split("_", 1)[0]


def parse_names(source: str, scenario: str) -> list[str]:
    """The names in the table of tests that apply to a scenario and need a broker and a plain network."""
    table = source.split("struct test tests[] = {", 1)[1].split("\n};", 1)[0]
    entries = [entry.partition(",") for entry in NOT_CODE.sub("", table).split("_TEST(")[1:]]
    return [
        name for name, _, rest in entries if not LEFT_OUT.search(rest) and scenario in scenarios_of(rest).split(",")
    ]


def scenarios_of(entry: str) -> str:
    named = SCENARIO.search(entry)
    return named[1] if named else "default"


def split(tests: Path, name: str) -> list[Case]:
    if name not in SPLIT:
        return [Case(name)]
    parts = SPLIT[name].parts((tests / SPLIT[name].file).read_text())
    if not parts:
        raise LibrdkafkaUnavailable(f"the parts of {name} were not found in librdkafka {VERSION}")
    return [Case(name, part) for part in parts]


def run_cases(
    bootstrap: str, cases: Iterable[Case], directory: Path, scenario: str = "default", protocol: str = "classic"
) -> Iterator[Outcome]:
    """Run tests against a broker, with groups of a protocol; their whole output stays in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    runner = Runner(bootstrap, directory.absolute(), scenario, protocol)
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.number, case.part), []).append(case)
    for group in groups.values():
        yield from runner.run(group)


class Runner:
    """Runs the tests of one number, or one part of it, at a time."""

    def __init__(self, bootstrap: str, directory: Path, scenario: str, protocol: str) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.scenario = scenario
        self.protocol = protocol
        self.suite = suite_directory()
        write_scripts(directory, self.suite / CLASSES)

    def run(self, cases: list[Case]) -> list[Outcome]:
        """Run cases that share a number and a part, in one process."""
        log = self.directory / f"{cases[0].name.replace('/', '-')}.log"
        report = self.directory / "report.json"
        report.unlink(missing_ok=True)
        self._configure(cases[0])
        start = time.monotonic()
        with log.open("wb") as output:
            in_time = run_limited(self._command(cases[0]), self._environment(cases[0]), self.directory, output.fileno())
        seconds = time.monotonic() - start
        for left in self.directory.glob("stats_*.json"):
            left.unlink()
        states = read_report(report)
        text = without_colours(log.read_text(errors="replace"))
        return [outcome(case, text, states, in_time, seconds) for case in cases]

    def _configure(self, case: Case) -> None:
        properties = {
            "test.timeout.multiplier": LONGER.get(case.number, 1.0),
            "test.topic.random": "true",
            "bootstrap.servers": self.bootstrap,
        }
        lines = (f"{name}={value}\n" for name, value in properties.items())
        (self.directory / "test.conf").write_text("".join(lines))

    def _command(self, case: Case) -> list[str]:
        command = [str(self.suite / "tests" / "test-runner"), "-p1", "-L"]
        return command if NOT_QUICK.match(case.number) else [*command, "-Q"]

    def _environment(self, case: Case) -> dict[str, str]:
        libraries = f"{self.suite / 'src'}:{self.suite / 'src-cpp'}"
        environment = os.environ | {
            "LD_LIBRARY_PATH": libraries,
            "RDKAFKA_TEST_CONF": "test.conf",
            "TEST_REPORT": "report.json",
            "TEST_KAFKA_VERSION": BROKER_VERSION,
            "TEST_SCENARIO": self.scenario,
            "TESTS": case.number,
            "KAFKA_PATH": str(self.directory / "kafka"),
            "BROKERS": self.bootstrap,
        }
        if self.protocol != "classic":
            environment["TEST_CONSUMER_GROUP_PROTOCOL"] = self.protocol
        # It would change the time limits of the tests.
        environment.pop("CI", None)
        if case.part:
            environment["SUBTESTS"] = case.function
        return environment


def run_limited(command: list[str], environment: dict[str, str], directory: Path, output: int) -> bool:
    """Run a command with all that it starts; tells whether it ended by itself in time."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        process.wait(TIME_LIMIT)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def read_report(report: Path) -> dict[str, tuple[str, float]]:
    """The state and the seconds of each test; empty when the runner died before it could write them."""
    try:
        told = json.loads(report.read_text(errors="replace"))
    except (OSError, ValueError):
        return {}
    return {name: (test["state"], test["duration"]) for name, test in told["tests"].items()}


def outcome(case: Case, text: str, states: dict[str, tuple[str, float]], in_time: bool, seconds: float) -> Outcome:
    state, duration = states.get(case.test, ("FAILED", seconds))
    result = STATES.get(state, "failed")
    if case.test not in states and f"Test {case.test} PASSED" in text:
        result = "passed"
    if result == "failed" and (not in_time or OWN_TIME_LIMIT.search(text)):
        result = "timed out"
    if result == "passed" and case.part and not re.search(rf"\[ {case.function}.*: PASS \(", text):
        # A test passes, too, when the part that was asked for leaves itself out.
        result = "skipped"
    return Outcome(case.name, result, round(duration, 1), tail(text))


def write_scripts(directory: Path, programs: Path) -> None:
    """Stand-ins for the scripts of a Kafka distribution, and for the one that runs a test's own program."""
    options = " ".join([*JVM_OPTIONS, *archive_options()])
    commands = {Path("kafka", "bin", name): main_class for name, main_class in SCRIPTS.items()}
    commands[Path("java", "run-class.sh")] = ""
    for name, main_class in commands.items():
        script = directory / name
        script.parent.mkdir(parents=True, exist_ok=True)
        classpath = f"{kafka_classpath()}{os.pathsep}{programs}"
        script.write_text(f"#!/bin/sh\nexec '{find_java()}' {options} -cp '{classpath}' {main_class} \"$@\"\n")
        script.chmod(0o755)


def suite_directory() -> Path:
    """Where the built suite is; builds it when it is not there yet."""
    suite = cache_directory() / BUILT
    if not suite.is_dir():
        suite.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first, so that an interrupted build is never taken for a whole one.
        with tempfile.TemporaryDirectory(dir=suite.parent, prefix=f"{suite.name}.partial-") as partial:
            built = build(Path(partial))
            try:
                built.rename(suite)
            except OSError:
                # Another run may have finished first; then its build is as good as ours.
                if not suite.is_dir():
                    raise
    return suite


def build(directory: Path) -> Path:
    """Fetch and build librdkafka with its tests."""
    for tool in ("npm", "gcc", "g++", "make"):
        if shutil.which(tool) is None:
            raise LibrdkafkaUnavailable(f"'{tool}' was not found: npm fetches librdkafka, gcc, g++ and make build it")
    call(["npm", "pack", "--silent", PACKAGE], directory)
    (archive,) = directory.glob("*.tgz")
    with tarfile.open(archive) as package:
        members = [member for member in package if member.name.startswith(IN_PACKAGE)]
        package.extractall(directory, members, filter="data")
    source = directory / IN_PACKAGE
    for test in (source / "tests").glob("0*.c*"):
        test.write_text(with_one_replica(test.read_text()))
    headers = fetch_sources(RAPIDJSON, directory) / "rapidjson" / "include"
    call(["./configure", *(f"--disable-{option}" for option in LEFT_OUT_OF_BUILD)], source, headers)
    call(["nice", "make", "-j", BUILD_JOBS, "libs"], source, headers)
    call(["nice", "make", "-j", BUILD_JOBS, "-C", "tests", "build"], source, headers)
    compiled(source / PROGRAM, source / CLASSES)
    for left in source.rglob("*.o"):
        left.unlink()
    return source


def with_one_replica(source: str) -> str:
    return THREE_REPLICAS.sub(r"\g<1>1\g<2>", source)


def call(command: list[str], directory: Path, headers: Path | None = None) -> None:
    run = subprocess.run(
        command,
        env=os.environ | ({"CPLUS_INCLUDE_PATH": str(headers)} if headers else {}),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if run.returncode != 0:
        raise LibrdkafkaUnavailable(f"'{' '.join(command)}' ended with {run.returncode}:\n{tail(run.stdout)}")
