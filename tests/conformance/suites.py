"""The suites of others that our broker has to pass, and how a broker is set up for each."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance import kafka_python, librdkafka
from tests.conformance.outcome import Outcome

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Suite:
    """A suite: its tests by name, how to run some of them, and what they did on Apache Kafka."""

    name: str
    about: str
    baseline: Path
    list_names: Callable[[], list[str]]
    run: Callable[[str, Iterable[str], Path], Iterator[Outcome]]
    settings: Mapping[str, str] = field(default_factory=dict)
    side_by_side: int = 1
    """How many of its tests may run at the same time."""
    run_of: Callable[[str], str] = str
    """By its name, what is run for a test: others may be run with it."""
    own_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By its name, what a test needs of a broker beside the settings."""

    def by_settings(self, names: Iterable[str]) -> list[tuple[Mapping[str, str], list[str]]]:
        """The settings of each broker that is needed, and the tests that are run on it."""
        brokers: list[tuple[Mapping[str, str], list[str]]] = []
        for name in names:
            settings = {**self.settings, **self.own_settings.get(name, {})}
            for known, alike in brokers:
                if known == settings:
                    alike.append(name)
                    break
            else:
                brokers.append((settings, [name]))
        return brokers


def librdkafka_suite(
    name: str,
    scenario: str,
    settings: Mapping[str, str],
    protocol: str = "classic",
    own_settings: Mapping[str, Mapping[str, str]] | None = None,
) -> Suite:
    def cases() -> list[librdkafka.Case]:
        return librdkafka.list_group_cases() if protocol == "consumer" else librdkafka.list_cases(scenario)

    def run(bootstrap: str, names: Iterable[str], directory: Path) -> Iterator[Outcome]:
        wanted = set(names)
        chosen = [case for case in cases() if case.name in wanted]
        return librdkafka.run_cases(bootstrap, chosen, directory, scenario, protocol)

    return Suite(
        name,
        f"librdkafka {librdkafka.VERSION}, test-runner -p1 -L, -Q where it leaves something, scenario {scenario}, "
        f"groups of the {protocol} protocol, one replica where a test asks for three",
        HERE / f"baseline_{name.replace('-', '_')}.json",
        lambda: [case.name for case in cases()],
        run,
        settings,
        librdkafka.SIDE_BY_SIDE,
        librdkafka.run_of,
        own_settings or {},
    )


# What the tests of both expect of a broker.
FOUR_PARTITIONS = {"num.partitions": "4", "auto.create.topics.enable": "true"}

SUITES = {
    suite.name: suite
    for suite in (
        librdkafka_suite("librdkafka", "default", FOUR_PARTITIONS, own_settings=librdkafka.WITH_DELAY),
        librdkafka_suite(
            "librdkafka-noautocreate", "noautocreate", FOUR_PARTITIONS | {"auto.create.topics.enable": "false"}
        ),
        librdkafka_suite("librdkafka-consumer", "default", FOUR_PARTITIONS, "consumer"),
        Suite(
            "kafka-python",
            f"kafka-python {kafka_python.VERSION}, test/integration",
            HERE / "baseline_kafka_python.json",
            kafka_python.list_names,
            kafka_python.run_names,
            FOUR_PARTITIONS | kafka_python.SETTINGS,
        ),
    )
}
