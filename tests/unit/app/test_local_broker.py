"""The broker beside an app lives as long as the app, and no longer."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.app.local_broker import local_broker
from runnel.app.owner import LOCK
from runnel.client import Admin
from runnel.errors import DirectoryOwned, UnusableDirectory
from runnel.files import DiskFiles
from tests.abuse.broker_process import wait_until

OWNER = """
import sys
from pathlib import Path
from runnel.app.local_broker import local_broker
with local_broker(Path(sys.argv[1]), "127.0.0.1:0") as bootstrap:
    print(bootstrap, flush=True)
    sys.stdin.read()
"""


def owner_of(data: Path) -> str:
    """The number of the process that has the directory; nothing while it changes."""
    return (data / ".lock").read_text().strip()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_file_in_place_of_the_apps_directory_is_told(tmp_path):
    (tmp_path / "data").write_text("")
    with (
        pytest.raises(UnusableDirectory, match=r"data is a file \(name another"),
        local_broker(tmp_path / "data" / "log", "127.0.0.1:0"),
    ):
        pass


def test_it_ends_when_the_app_is_killed(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "log")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline()
        broker = int(owner_of(tmp_path / "log"))
        owner.kill()
    wait_until(lambda: not is_there(broker), "the broker has ended, too")


def test_a_directory_that_cannot_be_made_is_told_with_what_to_do(tmp_path):
    with (
        pytest.raises(UnusableDirectory, match=r"File name too long: .* \(name one that can be written"),
        local_broker(tmp_path / ("d" * 300) / "log", "127.0.0.1:0"),
    ):
        pass


def test_one_that_ends_is_started_again_at_its_address(tmp_path, caplog):
    data = tmp_path / "log"
    with local_broker(data, "127.0.0.1:0") as bootstrap:
        with Admin(bootstrap) as admin:
            admin.create("clicks", partitions=1)
        first = owner_of(data)
        os.kill(int(first), signal.SIGKILL)
        wait_until(lambda: owner_of(data) not in ("", first), "another process has the directory")
        with Admin(bootstrap) as admin:
            assert [topic.name for topic in admin.topics()] == ["clicks"]
        second = owner_of(data)
    assert not is_there(int(second))
    assert "the broker ended with code -9" in caplog.text


def test_a_log_that_is_served_already_is_refused_before_anything_starts(tmp_path, capfd):
    data = tmp_path / "log"
    with local_broker(data, "127.0.0.1:0") as bootstrap:
        capfd.readouterr()
        with pytest.raises(DirectoryOwned) as refused, local_broker(data, bootstrap):
            pass
        assert refused.value.pid == int(owner_of(data))
        assert capfd.readouterr().err == ""


def test_of_an_app_that_runs_the_app_is_named_and_not_its_broker(tmp_path):
    lock = DiskFiles().lock(str(tmp_path / LOCK))
    try:
        with pytest.raises(DirectoryOwned) as refused, local_broker(tmp_path / "log", "127.0.0.1:0"):
            pass
        assert (refused.value.path, refused.value.pid) == (str(tmp_path), os.getpid())
    finally:
        lock.release()
