"""A Python for Spark that has its planners ready: forks where Spark asks for one, and the real one for all else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.serializers import UTF8Deserializer, read_int, write_with_length

from runnel.testing.planners import PLANNER, python_with_planners

SECRET = "a secret"
LIMIT = 120.0
PROGRAM = """
import os
from runnel.testing.planners import python_with_planners
print(python_with_planners(), flush=True)
{end}
"""


@pytest.fixture
def spark():
    """As much of Spark as a planner meets: it says its secret, and then who it is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT)
        yield server


def asked(spark, python):
    """The process that answers, and the connection to it, when Spark asks for a planner."""
    port = str(spark.getsockname()[1])
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": SECRET}
    subprocess.run([python, "-m", PLANNER], env=environment, check=True, timeout=LIMIT)
    connection, _ = spark.accept()
    file = connection.makefile("rwb")
    connection.close()
    assert UTF8Deserializer().loads(file) == SECRET
    write_with_length(b"ok", file)
    file.flush()
    return read_int(file), file


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_planners_are_forks_of_one_process(spark):
    python = python_with_planners()
    (first, one), (second, other) = (asked(spark, python) for _ in range(2))
    assert first != second
    assert parent_of(first) == parent_of(second)
    assert "runnel.testing.planners" in Path(f"/proc/{parent_of(first)}/cmdline").read_text()
    assert [path.name for path in Path(python).parent.iterdir() if path.name.startswith("request.")] == []
    one.close()
    other.close()


def test_whatever_else_is_asked_for_is_done_by_the_real_python():
    told = subprocess.run([python_with_planners(), "-c", "import sys; print(sys.executable)"], capture_output=True)
    assert told.stdout.decode().strip() == sys.executable


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"])
def test_nothing_is_left_of_it(end):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)], capture_output=True, text=True, timeout=LIMIT, check=False
    )  # which waits for all that has its stderr: the process that forks, too
    directory = Path(run.stdout.strip()).parent
    assert run.stderr == ""
    assert not directory.exists()
