"""What a suite's tests did on Apache Kafka, and how another broker compares.

A baseline holds the results of every run, because some tests depend on chance: a test is required of our broker when
it passed in every run on Apache Kafka. One that passed only sometimes is kept, and required of nobody.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.outcome import Outcome


@dataclass(frozen=True)
class Baseline:
    """The results of each test, in the order of the runs, and the seconds that it took at most."""

    about: Mapping[str, object]
    results: Mapping[str, list[str]]
    seconds: Mapping[str, float]

    def requires(self, name: str) -> bool:
        return set(self.results.get(name, ())) == {"passed"}

    @property
    def required(self) -> list[str]:
        return [name for name in self.results if self.requires(name)]

    def limited_to(self, names: Collection[str]) -> "Baseline":
        """The same without tests that are no longer there, or have another name."""
        results = {name: told for name, told in self.results.items() if name in names}
        return Baseline(self.about, results, self.seconds)

    def expected(self, name: str) -> str:
        """What Apache Kafka did, for people."""
        return " / ".join(dict.fromkeys(self.results.get(name, ["unknown"])))


def load(path: Path) -> Baseline:
    stored = json.loads(path.read_text())
    tests = stored["tests"]
    return Baseline(
        stored["about"],
        {name: test["results"] for name, test in tests.items()},
        {name: test["seconds"] for name, test in tests.items()},
    )


def store(
    path: Path, about: Mapping[str, object], runs: Iterable[Iterable[Outcome]], kept: Baseline | None = None
) -> None:
    """Write what some runs against Apache Kafka gave, beside what is kept of an older baseline."""
    runs = [list(run) for run in runs]
    new = {outcome.name for run in runs for outcome in run}
    old = kept.results if kept else {}
    results = {name: list(told) for name, told in old.items() if name not in new}
    seconds = {name: kept.seconds[name] for name in results} if kept else {}
    for run in runs:
        for outcome in run:
            results.setdefault(outcome.name, []).append(outcome.result)
            seconds[outcome.name] = max(outcome.seconds, seconds.get(outcome.name, 0.0))
    lines = [
        f"    {json.dumps(name)}: {json.dumps({'results': results[name], 'seconds': seconds[name]})}"
        for name in sorted(results)
    ]
    tests = ",\n".join(lines)
    path.write_text(f'{{\n  "about": {json.dumps(about)},\n  "tests": {{\n{tests}\n  }}\n}}\n')


@dataclass(frozen=True)
class Difference:
    """A test that passes on Apache Kafka and not here, or that was excused and passes."""

    outcome: Outcome
    expected: str
    excuse: str = ""


def differences(baseline: Baseline, outcomes: Iterable[Outcome], exceptions: Mapping[str, str]) -> list[Difference]:
    """What has to be explained: required tests that did not pass, and exceptions that are none."""
    found = []
    for outcome in outcomes:
        passed = outcome.result == "passed"
        excuse = exceptions.get(outcome.name, "")
        if baseline.requires(outcome.name) and passed == bool(excuse):
            found.append(Difference(outcome, baseline.expected(outcome.name), excuse))
    return found
