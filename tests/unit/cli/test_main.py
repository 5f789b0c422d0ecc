"""The command line as a whole: exit codes, and no traceback whatever happens."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from runnel import __version__, cli
from runnel.cli.rows import as_time, printable
from runnel.errors import RunnelError
from runnel.records import Record, build_batch
from tests.unit.log.data_directory import clean_directory

RUNNEL = [sys.executable, "-c", "from runnel.cli import main; main()"]


def exit_code_of(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> object:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_the_version_is_printed(runnel):
    assert runnel("--version") == (0, f"runnel {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments", ["nonsense", "log dump", "log verify --nonsense .", "log dump x.log --limit 0", "log dump --offset x"]
)
def test_wrong_usage_exits_with_2_and_points_to_the_help(runnel, arguments):
    result = runnel(*arguments.split())
    assert (result.code, result.out) == (2, "")
    assert re.search(r"^Try 'runnel.* --help' for help.$", result.err, re.MULTILINE)


def test_an_error_of_ours_is_told_with_its_hint(monkeypatch, capsys):
    assert exit_code_of(monkeypatch, RunnelError("the kettle is empty", hint="fill it")) == 1
    assert capsys.readouterr() == ("", "error: the kettle is empty\nhint: fill it\n")


def test_an_error_without_a_hint_is_one_line(monkeypatch, capsys):
    assert exit_code_of(monkeypatch, RunnelError("the kettle is empty")) == 1
    assert capsys.readouterr().err == "error: the kettle is empty\n"


def test_an_error_cannot_command_the_terminal(monkeypatch, capsys):
    error = RunnelError('there is no group "a\x1b[2Jb"', hint="see\x07")
    assert exit_code_of(monkeypatch, error) == 1
    assert capsys.readouterr().err == 'error: there is no group "a\\x1b[2Jb"\nhint: see\\x07\n'


def test_an_error_of_the_disk_is_told(monkeypatch, capsys):
    assert exit_code_of(monkeypatch, OSError(5, "Input/output error", "x.log")) == 1
    assert capsys.readouterr().err == "error: [Errno 5] Input/output error: 'x.log'\n"


def test_an_argument_that_is_no_text_is_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["runnel", os.fsdecode(b"\xff")])
    assert exit_code_of(monkeypatch, UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no")) == 1
    assert capsys.readouterr().err == "error: an argument is no text\nhint: give names and values in UTF-8\n"


def test_a_defect_that_no_argument_is_the_reason_of_is_not_hidden(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["runnel", "grün"])
    monkeypatch.setattr(cli, "app", Mock(side_effect=UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no")))
    with pytest.raises(UnicodeEncodeError):
        cli.main()


def test_an_interrupt_exits_with_130(monkeypatch, capsys):
    assert exit_code_of(monkeypatch, KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "")


def large_segment(path: Path) -> Path:
    path.write_bytes(b"".join(build_batch([Record(b"x" * 1000)], base_offset=number) for number in range(2_000)))
    return path


def test_a_reader_that_has_had_enough_is_no_error(tmp_path):
    segment = large_segment(tmp_path / "00000000000000000000.log")
    process = subprocess.Popen([*RUNNEL, "log", "dump", str(segment)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


def test_ctrl_c_exits_with_130_and_says_nothing(tmp_path):
    segment = large_segment(tmp_path / "00000000000000000000.log")
    process = subprocess.Popen([*RUNNEL, "log", "dump", str(segment)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it is at work, and waits for us to read on
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert (process.returncode, error) == (130, b"")


def test_a_terminal_shows_the_progress(tmp_path):
    clean_directory(tmp_path / "data")
    terminal, its_end = pty.openpty()
    command = [*RUNNEL, "log", "verify", str(tmp_path / "data")]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=its_end, check=False)
    os.close(its_end)
    shown = os.read(terminal, 100_000)
    os.close(terminal)
    assert b"checking" in shown
    assert result.stdout.startswith(b"no problems in 2 partitions")


def test_a_stream_that_cannot_show_a_character_escapes_it(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record("Tee für zwei ☕".encode())]))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [*RUNNEL, "log", "dump", str(path)]
    result = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert result.returncode == 0
    assert rb'value "Tee f\xfcr zwei \u2615"' in result.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_as_an_empty_one(tmp_path, closed):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(b"tea")]))
    command = ["sh", "-c", f'"$@" {closed}', "sh", *RUNNEL, "log", "dump", str(path)]
    result = subprocess.run(command, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_is_opened_does_not_get_the_number_of_a_stream_that_is_closed(tmp_path, closed):
    """Or what is told on the stream would be written into it. The same holds for a process that a command starts."""
    opens = "import os; os._exit(os.open('x', os.O_CREAT))"
    starts = "import subprocess, sys; os._exit(subprocess.run([sys.executable, '-c', OPENS]).returncode)"
    for does in (opens, f"OPENS = {opens!r}; import os; {starts}"):
        program = f"from runnel import cli; cli.app = lambda **_: exec({does!r}, {{}}); cli.main()"
        command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", program]
        assert subprocess.run(command, cwd=tmp_path, check=False).returncode > 2


def test_the_help_says_what_a_noun_is_for(runnel):
    assert re.search(r"^ +log +Look into the files of a log\.$", runnel("--help").out, re.MULTILINE)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "-1"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_times_are_shown_as_people_read_them(milliseconds, text):
    assert as_time(milliseconds) == text


def test_what_does_not_print_is_escaped():
    assert printable("a\x1bb\u202ec\udc80 ü") == "a\\x1bb\\u202ec\\udc80 ü"
