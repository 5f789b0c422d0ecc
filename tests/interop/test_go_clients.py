"""Go's clients on our broker: franz-go and sarama, each before the eyes of the other.

`go/` is a program that uses both, in the newest versions that Go 1.19 builds, which is the Go of Debian 12.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.java_programs import broker_of

HERE = Path(__file__).parent / "go"
BUILD_LIMIT = 900.0  # seconds: the first time it fetches and compiles the libraries, too
LIMIT = 600.0
# No other Go is fetched than the one that is here.
ENVIRONMENT = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}
STRATEGIES = {
    "franz-go": ["range", "round-robin", "sticky", "cooperative-sticky"],
    "sarama": ["range", "round-robin", "sticky"],
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.fail("Go is missing: install it ('apt-get install golang-go' on Debian and Ubuntu, 'brew install go')")
    built = tmp_path_factory.mktemp("go") / "interop"
    run = subprocess.run(
        [go, "build", "-o", str(built), "."],
        cwd=HERE,
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=BUILD_LIMIT,
    )
    assert run.returncode == 0, f"{HERE} was not built:\n{run.stdout}"
    return built


@pytest.mark.parametrize(
    "kind", [pytest.param("runnel", marks=pytest.mark.servers), pytest.param("kafka", marks=pytest.mark.soak)]
)
def test_they_write_read_in_groups_copy_in_transactions_and_administer(
    program: Path, kind: str, tmp_path: Path
) -> None:
    with broker_of(kind, tmp_path / "broker", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        run = subprocess.run([program, broker.bootstrap], capture_output=True, text=True, check=False, timeout=LIMIT)
        broker.check()
    steps = [f"{client} {step}" for client in STRATEGIES for step in steps_of(client)]
    assert (run.stdout.splitlines(), run.stderr, run.returncode) == (steps, "", 0)


def steps_of(client: str) -> list[str]:
    return [
        "made topics",
        "wrote with none, gzip, snappy, lz4, zstd",
        *(f"read by {strategy}" for strategy in STRATEGIES[client]),
        "copied in transactions",
        "deleted what it made",
    ]
