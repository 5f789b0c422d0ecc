"""What is wrong with an app or with what it is given: told in two lines, with exit code 1, and nothing is lost."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from runnel import Broker
from runnel.app.runner import Running
from runnel.cli import main
from runnel.client import Admin, Producer
from runnel.views.opening import open_store

PROGRAM = "from runnel.cli import main; main()"
HEAD = """\
from pyspark.sql import functions as F
from runnel import App

app = App("shop")
clicks = app.stream("clicks", schema="page string, n int")


"""
TYPES = "from pyspark.sql.types import IntegerType\n"
GOOD = 'return clicks.select("page", "n")'


def view(*lines, before=""):
    """An app with one view, whose body these lines are: line 11 of the file and on, where nothing is before."""
    body = "".join(f"    {line}\n" for line in lines)
    return f'{HEAD}{before}@app.view(clicks, key="page")\ndef pages(clicks):\n    # its first line is a comment\n{body}'


class Told(NamedTuple):
    code: object
    error: str
    hint: str


class Desk:
    """An app's file, its data, and the command line, run inside of the test's process."""

    def __init__(self, path, broker, capsys, monkeypatch):
        self.path = path / "shop.py"
        self.data = path / "data"
        self.bootstrap = broker.bootstrap if broker else "127.0.0.1:1"
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def run(self, app, *more):
        self.path.write_text(app)
        command = ["runnel", "run", self.path, "--bootstrap", self.bootstrap, "--data", self.data, "--until-caught-up"]
        self._monkeypatch.setattr("sys.argv", [str(each) for each in (*command, *more)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr().err
        assert "Traceback" not in said
        lines = {kind: re.findall(rf"^{kind}: (.*)$", said, re.MULTILINE) for kind in ("error", "hint")}
        assert all(len(found) <= 1 for found in lines.values())
        return Told(
            ended.value.code or 0, *("".join(found).replace(str(self.path), "shop.py") for found in lines.values())
        )

    def pages(self):
        with open_store(str(self.data)).reader("pages") as reader:
            return {row["page"]: row["n"] for row in reader.rows().to_pylist()}


@pytest.fixture
def make_desk(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("runnel.cli.running.log_to_stderr", lambda **_: None)  # it would keep this test's stderr
    monkeypatch.setattr("sys.path", [*sys.path])
    return lambda broker: Desk(tmp_path, broker, capsys, monkeypatch)


@pytest.fixture
def nowhere(make_desk):
    return make_desk(None)


# --- before anything is started


@pytest.mark.parametrize(
    ("app", "error", "hint"),
    [
        (
            HEAD.replace("page string", "page strin"),
            "shop.py: line 5: stream \"clicks\": schema 'page strin, n int': strin is no type of a column here "
            "(character 6)",
            'write a name and a type for each column, such as "page string, amount decimal(10,2), at timestamp"',
        ),
        (
            view(GOOD).replace('key="page"', ""),
            'shop.py: line 8: view "pages": key is missing',
            'name the columns that tell its rows apart, such as key=["window", "page"]',
        ),
        (
            view(GOOD).replace("app.view(clicks", "app.view(click"),
            "shop.py: line 8: NameError: name 'click' is not defined",
            "mend the file; nothing was started",
        ),
        (
            view("return ("),
            "shop.py: line 11: SyntaxError: '(' was never closed",
            "mend the file; nothing was started",
        ),
        (
            "import prices_of_nobody",
            "shop.py: line 1: ModuleNotFoundError: No module named 'prices_of_nobody'",
            "mend the file; nothing was started",
        ),
        (
            HEAD + HEAD.splitlines()[4],
            'shop.py: line 8: stream "clicks": the app has declared the name clicks already',
            "give one of the two another name",
        ),
        (
            f"{view(GOOD)}\n\n{view(GOOD).removeprefix(HEAD)}",
            'shop.py: line 14: view "pages": the app has declared the name pages already',
            "give one of the two another name",
        ),
        (
            f"{HEAD}@app.stream(clicks)\ndef visits(clicks):\n    return clicks\n\n\n"
            "@app.stream(visits)\ndef clicks(visits):\n    return visits\n",
            "shop.py: line 13: a circle of inputs: visits -> clicks -> visits",
            "let one of them read or write another topic; what feeds itself has no first answer",
        ),
        (HEAD, 'app "shop" has nothing to run', "declare a view or derive a stream"),
        ("x = 1", "shop.py: it makes no App", 'one file, one app: app = App("shop")'),
    ],
)
def test_what_is_wrong_with_the_file_is_told_with_its_line(nowhere, app, error, hint):
    assert nowhere.run(app) == (1, error, hint)


def test_what_needs_spark_before_it_is_started(tmp_path):
    """In a process of its own, in which no other test has started it."""
    path = tmp_path / "shop.py"
    path.write_text(view(GOOD, before='@F.udf("int")\ndef share(n):\n    return n\n\n\n'))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "run", str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            f"error: {path}: line 8: Spark is not started yet, and this needs it",
            "hint: give the type of a UDF as a value, such as udf(IntegerType()), or do it inside of the body",
        ],
    )


def test_a_broker_that_does_not_answer(nowhere):
    assert nowhere.run(view(GOOD)) == (
        1,
        "no broker answers at 127.0.0.1:1: connection refused",
        "start one with `runnel broker start`, or give the address of another",
    )


def test_a_topic_that_is_missing(make_desk):
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        assert make_desk(broker).run(view(GOOD)) == (
            1,
            'there is no topic "clicks"',
            "`runnel topics list` shows those that are there, `runnel topics create` makes one",
        )


@pytest.mark.parametrize("master", ["nonsense", "local[", "local[0]", "local-cluster[2]", "http://host"])
def test_a_master_that_is_none(make_desk, master):
    with Broker() as broker:
        broker.create_topic("clicks")
        assert make_desk(broker).run(view(GOOD), "--master", master) == (
            1,
            f"'{master}' is no master of Spark",
            "expected local[*] (all cores of this machine), local[4], spark://HOST:PORT, yarn or k8s://HOST:PORT",
        )


def test_a_java_that_is_not_there(make_desk, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with Broker() as broker:
        broker.create_topic("clicks")
        assert make_desk(broker).run(view(GOOD)) == (
            1,
            "Spark needs Java, and /nowhere/bin/java (JAVA_HOME) was not found",
            "install Java 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME",
        )


def test_a_java_that_is_too_old(make_desk, monkeypatch, tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with Broker() as broker:
        broker.create_topic("clicks")
        assert make_desk(broker).run(view(GOOD)) == (
            1,
            f"Spark needs Java 17 or newer, and {java} is 11.0.2",
            "install Java 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME",
        )


def test_a_store_that_does_not_answer(make_desk):
    with Broker() as broker:
        broker.create_topic("clicks")
        code, error, hint = make_desk(broker).run(view(GOOD), "--views", "postgresql://me:secret@127.0.0.1:1/views")
    assert code == 1
    assert error.startswith("the view store postgresql://me@127.0.0.1:1/views cannot be reached: connection failed: ")
    assert hint.startswith("see whether it is up and whether the address is right")


def test_a_disk_that_is_full_when_it_starts(nowhere, monkeypatch):
    """A query that runs waits for room: see test_faults."""

    def lock(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("runnel.app.runner.DiskFiles.lock", lock)
    assert nowhere.run(view(GOOD)) == (
        1,
        f"a disk is full: No space left on device: {nowhere.data}",
        "make room where the data directory is, or where Spark keeps its temporary files (SPARK_LOCAL_DIRS); "
        "nothing is lost",
    )


def test_a_store_that_is_none(make_desk):
    with Broker() as broker:
        broker.create_topic("clicks")
        assert make_desk(broker).run(view(GOOD), "--views", "mysql://host/shop") == (
            1,
            "'mysql://host/shop' is no address of a view store: mysql is no kind of store that we know",
            "give a data directory, sqlite:PATH or postgresql://USER@HOST:PORT/DATABASE",
        )


# --- when Spark looks at the body, and when it runs it


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def desk(make_desk, broker, spark, monkeypatch):
    """Clicks, on a broker that other tests have used, for an app in the session that all tests share."""
    with Admin(broker.bootstrap) as admin:
        for topic in admin.topics():
            admin.delete(topic.name)
        admin.create("clicks", partitions=1)
    monkeypatch.setattr("runnel.app.runner.Running", partial(Running, spark=spark))
    return make_desk(broker)


def send(desk, *clicks):
    with Producer(desk.bootstrap) as producer:
        for page, n in clicks:
            producer.produce("clicks", json.dumps({"page": page, "n": n}).encode(), partition=0)


MEND = "mend the function and start again; nothing is lost"
OR_REJECT = (
    'mend the function, or declare on_error="reject": such rows go to {}.rejected then; nothing is lost, it goes on '
    "from here"
)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            ['return clicks.groupBy("pge").count()'],
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `pge` cannot be "
            "resolved. Did you mean one of the following? [`n`, `page`] (shop.py, line 11)",
        ),
        (["names = {}", 'return clicks.select(names["page"])'], "KeyError: 'page' (shop.py, line 12)"),
        (
            ['return open("/nowhere/pages.csv")'],
            "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/pages.csv' (shop.py, line 11)",
        ),
    ],
)
def test_an_error_in_the_body_is_told_with_its_line(desk, lines, error):
    assert desk.run(view(*lines)) == (1, f'view "pages": {error}', MEND)


@pytest.mark.servers
def test_a_body_that_returns_no_frame(desk):
    assert desk.run(view("clicks.count")) == (
        1,
        'view "pages": the body returned a NoneType',
        "return what the inputs become, such as clicks.groupBy(...).count()",
    )


@pytest.mark.servers
def test_what_spark_cannot_do_as_a_stream(desk):
    told = desk.run(f'{HEAD}@app.stream(clicks)\ndef pages(clicks):\n    return clicks.groupBy("page").count()\n')
    assert told == (
        1,
        'stream "pages": [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. This '
        "output mode is not supported for streaming aggregations without watermark on streaming DataFrames/DataSets "
        "(shop.py, line 8)",
        MEND,
    )


@pytest.mark.servers
def test_what_spark_cannot_do_with_an_aggregate_that_never_closes(desk):
    status, said, hint = desk.run(view('return clicks.groupBy("page").agg(F.sum("n").alias("n")).orderBy("n")'))
    assert (status, hint) == (1, MEND)
    assert said.startswith('view "pages": Sorting is not supported on streaming DataFrames/Datasets')


@pytest.mark.servers
def test_a_join_without_an_equality_is_refused_before_its_first_batch(desk):
    """Spark says it in that batch, and who has mended the join would be refused for what was planned."""
    joined = '@app.stream(clicks, app.stream("others", schema="name string"))\ndef pages(clicks, others):\n'
    with Admin(desk.bootstrap) as admin:
        admin.create("others", partitions=1)
    by_filter = "others).where(clicks.page == others.name)"
    for body in (f"clicks.crossJoin({by_filter}", "clicks.join(others, clicks.page > others.name)"):
        assert desk.run(f"{HEAD}{joined}    return {body}\n") == (
            1,
            'stream "pages": two streams are joined by nothing that is equal in both',
            "join them by a column, such as clicks.page == orders.page, or read one of them as a table",
        )
    assert desk.run(f"{HEAD}{joined}    return clicks.join({by_filter}\n") == (0, "", "")


@pytest.mark.servers
def test_an_error_in_a_python_function_is_told_with_its_line_and_no_row_is_lost(desk):
    send(desk, ("a", 1), ("b", 0), ("c", 5))
    function = f"{TYPES}@F.udf(IntegerType())\ndef share(n):\n    return {{}}\n\n\n"
    body = 'return clicks.select("page", share("n").alias("n"))'
    assert desk.run(view(body, before=function.format("100 // n"))) == (
        1,
        "pages has stopped: ZeroDivisionError: integer division or modulo by zero (shop.py, line 11), with the record "
        'at offset 1 of clicks-0: {"page": "b", "n": 0}',
        OR_REJECT.format("clicks"),
    )
    assert desk.run(view(body, before=function.format("100 // n if n else -1"))) == (0, "", "")
    assert desk.pages() == {"a": 100, "b": -1, "c": 20}


@pytest.mark.servers
def test_a_null_in_the_key_stops_the_view_and_no_row_is_lost(desk):
    send(desk, ("a", 1), (None, 2), ("c", 3))
    assert desk.run(view(GOOD)) == (
        1,
        "pages has stopped: view 'pages': column 'page' of row 1: null in the key: {'page': None, 'n': 2}; "
        "nothing of the batch was applied",
        "filter such rows out in the view's function, or give them a key with coalesce",
    )
    assert desk.run(view('return clicks.select(F.coalesce("page", F.lit("none")).alias("page"), "n")')) == (0, "", "")
    assert desk.pages() == {"a": 1, "none": 2, "c": 3}


@pytest.mark.servers
def test_a_key_that_changes_its_type_is_refused_and_the_view_stays(desk):
    send(desk, ("a", 1))
    assert desk.run(view(GOOD)) == (0, "", "")
    send(desk, ("b", 2))
    assert desk.run(view('return clicks.select(F.length("page").alias("page"), "n")')) == (
        1,
        "pages cannot go on from its checkpoint: its column page was string and is now int",
        "`runnel rebuild pages APP.py` reads the log again into a new copy, which then takes its place",
    )
    assert desk.pages() == {"a": 1}
    assert desk.run(view(GOOD)) == (0, "", "")
    assert desk.pages() == {"a": 1, "b": 2}


@pytest.mark.servers
def test_records_that_are_gone_stop_the_app_until_somebody_says_to_go_on(desk, caplog):
    send(desk, ("a", 1), ("b", 2))
    assert desk.run(view(GOOD)) == (0, "", "")
    send(desk, ("c", 3), ("d", 4), ("e", 5))
    with Admin(desk.bootstrap) as admin:
        admin.delete_records("clicks", {0: 4})
    gone = (
        1,
        "pages has stopped: pages cannot go on: records were deleted before it read them: offsets 2 to 3 of clicks-0",
        "run it once with --skip-gone to go on behind them; a longer retention.ms keeps records for longer",
    )
    assert desk.run(view(GOOD)) == gone
    assert desk.run(view(GOOD)) == gone
    assert desk.pages() == {"a": 1, "b": 2}
    caplog.set_level(logging.INFO, "runnel.app.runner")
    assert desk.run(view(GOOD), "--skip-gone") == (0, "", "")
    assert desk.pages() == {"a": 1, "b": 2, "e": 5}
    assert "pages: offsets 2 to 3 of clicks-0 were deleted before they were read: they are skipped" in caplog.messages
    told = re.compile(r"pages: \d+ batch(es)?, 1 row, 0 late, 0 rejected, 2 gone")
    assert any(map(told.fullmatch, caplog.messages))
    assert desk.run(view(GOOD)) == (0, "", "")


@pytest.mark.servers
def test_a_view_that_another_directory_has_begun_is_refused(desk):
    """Nothing was put aside, and its rows are in that one's own file."""
    send(desk, ("a", 1))
    assert desk.run(view(GOOD)) == (0, "", "")
    first, desk.data = desk.data, desk.data.with_name("other")
    code, error, hint = desk.run(view(GOOD))
    assert code == 1
    assert re.fullmatch("pages cannot go on: its output was made by checkpoint .*, and this directory has none", error)
    assert "delete the topic runnel.shop.pages.marker" in hint
    send(desk, ("b", 2))
    desk.data = first
    assert desk.run(view(GOOD)) == (0, "", "")
    assert desk.pages() == {"a": 1, "b": 2}


@pytest.mark.servers
def test_a_checkpoint_of_another_app_is_refused_and_that_one_goes_on(desk):
    """As of two files in one directory, or of an app that was renamed."""
    send(desk, ("a", 1))
    assert desk.run(view(GOOD)) == (0, "", "")
    send(desk, ("b", 2))
    assert desk.run(view(GOOD).replace('App("shop")', 'App("bookshop")')) == (
        1,
        'pages cannot go on: its checkpoint is of app "shop", and this is app "bookshop"',
        "give each app a data directory of its own by --data; an app that has run keeps its name",
    )
    assert desk.run(view(GOOD)) == (0, "", "")
    assert desk.pages() == {"a": 1, "b": 2}


@pytest.mark.servers
def test_a_checkpoint_of_a_newer_spark_is_refused(desk):
    send(desk, ("a", 1))
    assert desk.run(view(GOOD)) == (0, "", "")
    declared = desk.data / "queries" / "pages" / "declared.json"
    told = json.loads(declared.read_text())
    declared.write_text(json.dumps({**told, "spark": "99.1.0"}))
    assert desk.run(view(GOOD)) == (
        1,
        f"pages cannot go on: its checkpoint is of Spark 99.1.0, and this is Spark {told['spark']}, which is older",
        "run it with the Spark that it had; nothing was changed",
    )
    assert desk.pages() == {"a": 1}


@pytest.mark.servers
def test_functions_from_files_beside_the_app_run_in_workers(desk):
    """A module, and a package."""
    send(desk, ("a", 1))
    (desk.path.parent / "sizes").mkdir()
    (desk.path.parent / "sizes" / "__init__.py").write_text("from sizes.big import larger\n")
    (desk.path.parent / "sizes" / "big.py").write_text("def larger(n):\n    return n + 10\n")
    (desk.path.parent / "prices.py").write_text("import sizes\n\n\ndef price(n):\n    return sizes.larger(n) * 2\n")
    function = f"import prices\n{TYPES}@F.udf(IntegerType())\ndef cost(n):\n    return prices.price(n)\n\n\n"
    try:
        assert desk.run(view('return clicks.select("page", cost("n").alias("n"))', before=function)) == (0, "", "")
    finally:
        for name in ("prices", "sizes", "sizes.big"):
            sys.modules.pop(name, None)
    assert desk.pages() == {"a": 22}


@pytest.mark.servers
def test_a_terminal_shows_what_is_wrong_and_not_where_java_was(broker, tmp_path):
    """In a process of its own: nothing else is said."""
    with Admin(broker.bootstrap) as admin:
        admin.create("shown", partitions=1)
    with Producer(broker.bootstrap) as producer:
        producer.produce("shown", b'{"page": "a", "n": 0}', partition=0)
    path = tmp_path / "shop.py"
    function = f"{TYPES}@F.udf(IntegerType())\ndef share(n):\n    return 100 // n\n\n\n"
    path.write_text(
        view('return clicks.select("page", share("n").alias("n"))', before=function)
        .replace('clicks"', 'shown"')
        .replace('App("shop")', 'App("shown")')  # that of the other tests has its own directory
    )
    command = [sys.executable, "-c", PROGRAM, "run", str(path), "--bootstrap", broker.bootstrap]
    done = subprocess.run(
        [*command, "--master", "local[1]"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert said[-2:] == [
        f"error: pages has stopped: ZeroDivisionError: integer division or modulo by zero ({path}, line 11), with the "
        'record at offset 0 of shown-0: {"page": "a", "n": 0}',
        f"hint: {OR_REJECT.format('shown')}",
    ]
    assert not [line for line in said if "Traceback" in line or line.startswith("\tat ")]
    progress = [line for line in said if " INFO runnel.app." in line]
    assert len(said) - len(progress) < 6, done.stderr
