"""`runnel broker`: it says when it is ready, stops in good order, and tells every mistake in two lines."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runnel.broker.embedded import Broker
from runnel.broker.sockets import _has_six
from runnel.log import open_log

RUNNEL = [sys.executable, "-c", "from runnel.cli import main; main()"]


@contextmanager
def started(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of a broker, and its address."""
    command = [*RUNNEL, "broker", "start", "--listen", "127.0.0.1:0", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"listening on (127\.0\.0\.1:\d+)\n", line)
            assert found, (line, process.stderr and process.stderr.read())
            yield process, found[1]
        finally:
            process.kill()


def refused(*arguments: object) -> tuple[int, str]:
    command = [*RUNNEL, "broker", "start", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_it_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        with started("--data", tmp_path / "data") as (process, _):
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path, runnel) -> None:
    with started("--data", tmp_path / "data") as (process, address):
        status = runnel("broker", "status", "--bootstrap", address, "--json")
        assert status.code == 0
        facts = json.loads(status.out)
        assert facts["brokers"] == [f"1 at {address}"]
        assert (facts["topics"], facts["partitions"], facts["groups"]) == (0, 0, 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        log = process.stderr.read()
    assert "INFO runnel.broker.running: stopping" in log
    assert "Traceback" not in log
    with open_log(tmp_path / "data") as again:
        assert again.was_clean


def test_its_log_tells_how_it_started(tmp_path: Path) -> None:
    with started("--data", tmp_path / "data", "--log-json") as (process, address):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    messages = [line["message"] for line in lines]
    assert any(f"process {process.pid}, serves {tmp_path}/data, which is new" in each for each in messages)
    assert f"clients of listener PLAINTEXT are told to use {address}" in messages
    assert {line["level"] for line in lines} == {"INFO"}
    with started("--data", tmp_path / "data") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert f"process {process.pid}, serves {tmp_path}/data, after a clean stop" in process.stderr.read()


def test_both_families_are_told_where_both_are_listened_on(tmp_path: Path) -> None:
    command = [*RUNNEL, "broker", "start", "--listen", ":0", "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        others = process.stdout.read()
    found = re.fullmatch(r"listening on 0\.0\.0\.0:(\d+)\n", first)
    assert found
    assert others == (f"listening on [::]:{found[1]}\n" if _has_six() else "")


def test_metrics_and_health_are_served(tmp_path: Path) -> None:
    with started("--data", tmp_path / "data", "--metrics", "127.0.0.1:0", "--log-json") as (process, _):
        assert process.stderr is not None
        told = json.loads(process.stderr.readline())["message"]
        url = told.removeprefix("metrics on ").removesuffix("/metrics")
        for path, text in (("/metrics", "runnel_connections"), ("/health", "healthy"), ("/ready", "ready")):
            with urllib.request.urlopen(url + path, timeout=60) as answer:
                assert (answer.status, text in answer.read().decode()) == (200, True)


def test_settings_come_from_a_file_and_the_command_line_wins(tmp_path: Path, runnel) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# ours\nnum.partitions=3\nnode.id = 7\n")
    with started("--data", tmp_path / "data", "--config", file, "--set", "num.partitions=5") as (_, address):
        assert runnel("topics", "create", "orders", "--bootstrap", address).code == 0
        described = json.loads(runnel("topics", "describe", "orders", "--json", "--bootstrap", address).out)
        assert len(described[0]["partitions"]) == 5
        assert described[0]["partitions"][0]["leader"] == 7


def test_a_setting_that_means_nothing_to_us_is_ignored_with_one_line(tmp_path: Path) -> None:
    with started("--data", tmp_path / "data", "--set", "num.io.threads=8") as (process, _):
        process.terminate()
        assert process.wait(60) == 0
        assert process.stderr is not None
        lines = [line for line in process.stderr.read().splitlines() if "num.io.threads" in line]
    assert len(lines) == 1
    assert "is ignored" in lines[0]


def test_status_is_a_table_for_people(runnel) -> None:
    with Broker() as broker:
        broker.create_topic("orders", 3)
        result = runnel("broker", "status", "--bootstrap", broker.bootstrap)
        assert result.code == 0
        assert re.search(rf"^brokers\s+1 at {re.escape(broker.bootstrap)}\s*$", result.out, re.MULTILINE)
        assert re.search(r"^partitions\s+3\s*$", result.out, re.MULTILINE)


# --- mistakes, each with its exact text and exit code


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused("--data", tmp_path / "data", "--listen", f"127.0.0.1:{port}") == (
            1,
            f"error: cannot listen on 127.0.0.1:{port}: another process does already\n"
            "hint: stop that process, or name another port; port 0 picks a free one\n",
        )
    assert not (tmp_path / "data").exists()


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    code, told = refused("--data", tmp_path / "data", "--listen", "192.0.2.1:9092")
    assert code == 1
    assert told.startswith("error: cannot listen on 192.0.2.1:9092: ")
    assert "\nhint: name an address of this machine; 0.0.0.0 stands for all of them" in told


def test_a_metrics_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--metrics", f"127.0.0.1:{port}")
        code, told = refused(*arguments)
    assert code == 1
    assert f"error: cannot listen on 127.0.0.1:{port}: another process does already\n" in told
    assert "Traceback" not in told


def test_a_data_directory_that_another_process_owns(tmp_path: Path) -> None:
    with open_log(tmp_path / "data"):
        assert refused("--data", tmp_path / "data", "--listen", "127.0.0.1:0") == (
            1,
            f"error: data directory {tmp_path}/data is in use by process {os.getpid()}\n"
            "hint: stop that process, or use another directory\n",
        )


def test_a_data_directory_of_a_newer_format(tmp_path: Path) -> None:
    with open_log(tmp_path / "data"):
        pass
    (tmp_path / "data" / "runnel-log.json").write_text('{"format": 99, "epoch": 0}')
    assert refused("--data", tmp_path / "data", "--listen", "127.0.0.1:0") == (
        1,
        f"error: {tmp_path}/data cannot be used as a data directory: "
        "it has format 99, this version of Runnel knows 1\n"
        "hint: use the version of Runnel that wrote it, or a newer one\n",
    )


def test_a_directory_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear all")
    assert refused("--data", tmp_path, "--listen", "127.0.0.1:0") == (
        1,
        f"error: {tmp_path} cannot be used as a data directory: "
        "it is no data directory of Runnel, but holds letters.txt\n"
        "hint: name an empty or a new directory\n",
    )


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, told = refused("--data", tmp_path / "file" / "data", "--listen", "127.0.0.1:0")
    assert (code, told) == (
        1,
        f"error: {tmp_path}/file/data cannot be used as a data directory: a file is above it\n"
        "hint: name another one, or move the file away\n",
    )


def test_a_data_directory_that_is_not_writable() -> None:
    code, told = refused("--data", "/sys/runnel-data", "--listen", "127.0.0.1:0")  # not even root may write there
    assert code == 1
    assert re.fullmatch(
        r"error: /sys/runnel-data cannot be used as a data directory: it cannot be made: \[Errno (1|13|30)\] .*\n"
        r"hint: make /sys and give yourself access\n",
        told,
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "num.partitons=3",
            "error: setting num.partitons = '3'\n"
            "hint: expected a broker configuration that Kafka knows, such as num.partitions\n",
        ),
        ("num.partitions=many", "error: setting num.partitions = 'many'\nhint: expected a whole number\n"),
        (
            "num.partitions=0",
            "error: setting num.partitions = 0\nhint: expected a whole number of at least 1\n",
        ),
        (
            "authorizer.class.name=x",
            "error: setting authorizer.class.name = 'x'\n"
            "hint: expected it to be left out: there is no access control yet\n",
        ),
    ],
)
def test_a_bad_setting(tmp_path: Path, given: str, told: str) -> None:
    assert refused("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--set", given) == (1, told)
    assert not (tmp_path / "data").exists()


def test_a_setting_without_a_value_is_wrong_usage(tmp_path: Path) -> None:
    code, told = refused("--data", tmp_path / "data", "--set", "num.partitions")
    assert code == 2
    assert "Invalid value for '--set': 'num.partitions' is not of the form NAME=VALUE." in told


def test_listen_and_listeners_together_are_wrong_usage(tmp_path: Path) -> None:
    code, told = refused("--data", tmp_path / "d", "--listen", "127.0.0.1:0", "--set", "listeners=A://127.0.0.1:0")
    assert code == 2
    assert "Invalid value for '--listen': listeners are set already; use one of both." in told


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
def test_an_address_without_a_port_is_wrong_usage(tmp_path: Path, option: str) -> None:
    code, told = refused("--data", tmp_path / "data", option, "localhost")
    assert code == 2
    assert f"Invalid value for '{option}': 'localhost' is not of the form HOST:PORT." in told


def test_a_file_of_settings_that_is_not_there(tmp_path: Path) -> None:
    code, told = refused("--data", tmp_path / "data", "--config", tmp_path / "missing")
    assert code == 1
    assert told.startswith(f"error: {tmp_path}/missing ") or f"'{tmp_path}/missing'" in told
    assert "Traceback" not in told


def test_without_a_data_directory_it_is_wrong_usage() -> None:
    code, told = refused()
    assert (code, "Missing option '--data'" in told) == (2, True)
