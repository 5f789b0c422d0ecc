"""What holds on the server that is installed holds on newer ones: PostgreSQL 16, 17 and 18, out of packages of PyPI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.views.postgres_package import PACKAGES

SUITE = Path(__file__).parents[1]
APART = Path(__file__).with_name("test_newer_versions.py")


@pytest.mark.soak
@pytest.mark.parametrize("version", PACKAGES)
def test_the_whole_suite_holds(version: str):
    chosen = ["-m", "servers and not soak", "-k", "postgres", f"--ignore={APART}"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", str(SUITE), *chosen, "-q", "-n", "0", "-p", "no:cacheprovider"],
        cwd=SUITE.parents[2],
        env={**os.environ, "RUNNEL_POSTGRES": version},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:]
