"""A Python for Spark: forks of a process that has imported everything, and the real one where there is no such."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.serializers import UTF8Deserializer, read_int, write_with_length

from runnel.pipeline import forked_python, forker, forks
from runnel.pipeline.forks import PYTHON, variables_for
from tests.pipeline.waiting import wait_until

PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
MAKER = "pyspark.sql.worker.create_data_source"
SECRET = "a secret"
LIMIT = 120.0
MASTER = "local[2]"
WHO = "import sys; print(sys.executable)"
PROGRAM = """
import os, sys
from runnel.pipeline import forks
print(forks.variables_for("local[2]")[forks.PYTHON], flush=True)
{end}
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    """The script lies in a directory whose name is none for a shell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(PYTHON, raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp('it\'s a "cache" of $HOME')))
        return variables_for(MASTER)


@pytest.fixture
def mortal(variables):
    """With a forker of their own."""
    forks._forker.cache_clear()
    yield {**variables, forked_python.VARIABLE: forks._forker()}
    forks._forker.cache_clear()


@pytest.fixture
def spark():
    """As much of Spark as a planner meets: it says its secret, and then who it is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT)
        yield server


class Asked:
    """A planner that Spark has asked for."""

    def __init__(self, spark, variables, **more):
        port = str(spark.getsockname()[1])
        secret = {"PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": SECRET}
        self.started = started(variables, "-m", PLANNER, **secret, **more)
        connection, _ = spark.accept()
        self.file = connection.makefile("rwb")
        connection.close()
        assert UTF8Deserializer().loads(self.file) == SECRET
        write_with_length(b"ok", self.file)
        self.file.flush()
        self.process = read_int(self.file)

    def end(self):
        """What it told on its streams. Java only lets go of the connection."""
        self.file.close()
        return self.started.communicate(timeout=LIMIT)


def started(variables, *arguments, **more):
    pipe = subprocess.PIPE
    environment = {**os.environ, **variables, "PYTHONHASHSEED": "0", **more}
    return subprocess.Popen([variables[PYTHON], *arguments], env=environment, stdin=pipe, stdout=pipe, stderr=pipe)


def daemon(variables, module=MAKER, **more):
    """One that has told where it listens."""
    made = started(variables, "-m", "pyspark.daemon", module, **more)
    assert made.stdout.read(4)
    return made


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def command_of(process):
    return Path(f"/proc/{process}/cmdline").read_text()


def is_a_fork(asked):
    return asked.process != asked.started.pid


def forker_of(variables, spark):
    asked = Asked(spark, variables)
    parent = parent_of(asked.process)
    asked.end()
    return parent


def test_planners_are_forks_of_one_process(spark, variables):
    first, second = Asked(spark, variables), Asked(spark, variables)
    assert first.process != second.process
    assert parent_of(first.process) == parent_of(second.process)
    assert "runnel.pipeline.forker" in command_of(parent_of(first.process))
    first.end()
    second.end()


def test_whatever_else_is_asked_for_is_done_by_the_real_python(variables):
    assert started(variables, "-c", WHO).communicate(timeout=LIMIT) == (f"{sys.executable}\n".encode(), b"")


def test_without_the_forker_the_real_python_plans(spark, mortal):
    os.kill(forker_of(mortal, spark), signal.SIGKILL)
    asked = Asked(spark, mortal)
    assert not is_a_fork(asked)
    asked.end()


def test_a_forker_that_dies_of_a_request_leaves_it_to_the_real_python(spark, mortal):
    parent = forker_of(mortal, spark)
    os.kill(parent, signal.SIGSTOP)
    planner = started(mortal, "-m", PLANNER, PYTHON_WORKER_FACTORY_PORT=str(spark.getsockname()[1]))
    wait_until(lambda: b"forked_python" in Path(f"/proc/{planner.pid}/cmdline").read_bytes(), lambda: "it asks")
    os.kill(parent, signal.SIGKILL)
    connection, _ = spark.accept()
    assert command_of(planner.pid).startswith(sys.executable)
    connection.close()
    planner.communicate(timeout=LIMIT)


def test_others_that_have_the_address_are_not_served(variables, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert forked_python.ask(variables[forked_python.VARIABLE], ["-m", PLANNER]) is None


@pytest.mark.parametrize("name", forker.AT_THE_START)
def test_what_a_fork_could_not_follow_is_started(spark, variables, name):
    asked = Asked(spark, variables, **{name: "7"})
    assert not is_a_fork(asked)
    asked.end()


def test_what_a_fork_tells_goes_where_spark_reads_it(variables):
    asked = started(variables, "-m", PLANNER, PYTHON_WORKER_FACTORY_PORT="0")
    _, told = asked.communicate(timeout=LIMIT)
    assert b"Traceback" in told
    assert asked.returncode == 1


def test_a_fork_that_java_does_not_wait_for_any_more_ends_without_a_word(variables, tmp_path):
    """A query that is stopped while it begins takes its socket away."""
    abandoned = started(variables, "-m", PLANNER, PYTHON_WORKER_FACTORY_SOCK_PATH=str(tmp_path / "gone.sock"))
    assert abandoned.communicate(timeout=LIMIT) == (b"", b"")
    assert abandoned.returncode == 1


@pytest.mark.parametrize(
    ("raised", "is_let_go"),
    [
        ((EOFError(), BrokenPipeError(), BrokenPipeError()), True),  # a query is stopped: Java has closed the socket
        ((EOFError(), ConnectionResetError()), True),
        ((BrokenPipeError(),), True),
        ((EOFError(),), False),
        ((ValueError(), BrokenPipeError()), False),
    ],
)
def test_of_a_socket_that_java_has_taken_away_nothing_is_told_and_of_all_else_it_is(raised, is_let_go):
    for before, error in pairwise(raised):
        error.__context__ = before
    assert forker.is_let_go(raised[-1]) is is_let_go


def test_a_planner_that_java_lets_go_ends_without_a_word(variables, tmp_path):
    """As it does whenever a query stops: what the planner would say then cannot be written."""
    path = str(tmp_path / "spark.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        listening.settimeout(LIMIT)
        planner = started(variables, "-m", PLANNER, PYTHON_WORKER_FACTORY_SOCK_PATH=path)
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as file:
            assert read_int(file) not in (planner.pid, -1)
    assert planner.communicate(timeout=LIMIT) == (b"", b"")
    assert planner.returncode == 1


def test_a_fork_imports_what_spark_puts_in_its_way_with_the_environment_that_spark_gives(variables, tmp_path):
    (tmp_path / "pyspark_given.py").write_text("import os; print(os.environ['GIVEN'], flush=True)\nmain = print")
    more = {"GIVEN": "to the fork", "PYTHONPATH": str(tmp_path), "PYTHON_WORKER_FACTORY_SECRET": SECRET}
    made = started(variables, "-m", "pyspark.daemon", "pyspark_given", **more)
    with socket.create_connection(("127.0.0.1", read_int(made.stdout)), LIMIT) as connection:
        file = connection.makefile("rwb")
        assert read_int(file) not in (made.pid, -1)
        write_with_length(SECRET.encode(), file)
        file.flush()
        assert made.stdout.readline() == b"to the fork\n"
        file.close()
    made.communicate(timeout=LIMIT)


def test_a_daemon_lives_as_long_as_java_holds_its_stream(variables):
    made = daemon(variables)
    wait_until(lambda: command_of(made.pid).startswith("sh"), lambda: f"a shell instead of {command_of(made.pid)}")
    assert made.communicate(timeout=LIMIT) == (b"", b"")  # which ends the stream


def test_java_sees_that_a_daemon_has_died(variables, spark):
    parent = forker_of(variables, spark)
    before = children_of(parent)
    made = daemon(variables)
    os.kill(new_child_of(parent, before), signal.SIGKILL)
    assert made.wait(LIMIT) == 1
    made.communicate()


def test_a_daemon_that_java_ends_is_gone(variables, spark):
    parent = forker_of(variables, spark)
    before = children_of(parent)
    made = daemon(variables)
    fork = new_child_of(parent, before)
    made.terminate()
    made.communicate(timeout=LIMIT)  # as Java does it with the streams of a process that is gone
    wait_until(lambda: not Path(f"/proc/{fork}").exists(), lambda: "the fork has ended")


def children_of(parent):
    """Spark's own daemon may be among them, and those of tests before, which end by and by."""
    return set(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))


def new_child_of(parent, before):
    wait_until(lambda: children_of(parent) - before, lambda: f"another child than {before}")
    (new,) = children_of(parent) - before
    return new


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"])
def test_nothing_is_left_of_it(end, tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment.pop(PYTHON, None)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )  # which waits for all that has its stderr: the forker, too
    assert run.stderr == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "runnel"]
    assert list((tmp_path / "runnel").iterdir()) == [Path(run.stdout.strip())]


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://host", "local-cluster[2,1,1024]"])
def test_executors_elsewhere_are_not_given_a_script_of_this_machine(master, monkeypatch):
    monkeypatch.delenv(PYTHON, raising=False)
    assert variables_for(master) == {}


def test_a_python_that_the_user_chose_stays(monkeypatch):
    monkeypatch.setenv(PYTHON, "/usr/bin/python3")
    assert variables_for(MASTER) == {}


def test_where_nothing_can_be_kept_the_real_python_serves(tmp_path, monkeypatch):
    monkeypatch.delenv(PYTHON, raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert variables_for(MASTER) == {}
