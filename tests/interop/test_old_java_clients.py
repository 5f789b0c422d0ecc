"""Java's clients of other days on our broker: each knows less of the protocol, and asks for it in its own way.

2.1 is the oldest that Apache Kafka 4 serves; 3.7 is the last that cannot read features whose least version is 0.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.java_programs import broker_of
from tests.interop.kafka_distribution import (
    cache_directory,
    compiled_with,
    fetch_jars,
    find_java,
    java_command,
    java_environment,
)

HERE = Path(__file__).parent / "old_clients"
RECORDS = 40
LIMIT = 420.0  # seconds: of a program that waits two minutes for each of three things


def classpath_of(version: str) -> str:
    find_java()
    jars = cache_directory() / f"kafka-clients-{version}"
    if not jars.is_dir():
        fetch_jars(jars, HERE / "pom.xml", f"Kafka's client {version}", version=version)
    return str(jars / "*")


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        pytest.param("2.1.1", "runnel", marks=pytest.mark.servers),
        pytest.param("2.8.2", "runnel", marks=pytest.mark.soak),
        pytest.param("3.7.1", "runnel", marks=pytest.mark.servers),
        *(pytest.param(each, "kafka", marks=pytest.mark.soak) for each in ("2.1.1", "2.8.2", "3.7.1")),
    ],
)
def test_it_makes_topics_joins_a_group_and_copies_in_transactions(version: str, kind: str, tmp_path: Path) -> None:
    classpath = compiled_with(classpath_of(version), HERE / "Copy.java", tmp_path / "classes")
    with broker_of(kind, tmp_path / "broker", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        run = subprocess.run(
            java_command("Copy", broker.bootstrap, str(RECORDS), classpath=classpath),
            env=java_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        broker.check()
    copied = [f"v{number}" for number in range(RECORDS)]
    assert run.stdout.splitlines() == ["topics [from, to]", f"committed {RECORDS}", *copied], run.stderr
    assert run.returncode == 0
