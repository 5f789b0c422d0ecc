"""The live screen: what it shows on terminals of every size, and what else is written meanwhile."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from runnel.app.progress import AppProgress, CaptureProgress, QueryProgress, State
from runnel.cli.screen import lines_of

QUERIES = (
    QueryProgress(
        "clicks_per_minute",
        State.RUNS,
        batches=7,
        in_time=1_234_567,
        late=12,
        rejected=3,
        rows_per_second=12_345.6,
        lag={"clicks": 98_765},
        watermark=1_767_225_590_000,
        open_windows=4,
        state_bytes=5 * 1024 * 1024,
        seconds=0.35,
        steps={"plan": 0.05, "body": 0.2, "disk": 0.01, "keep": 0.09},
        under_way=2.5,
        age=3.0,
    ),
    QueryProgress("long_stays"),
)
PROGRESS = AppProgress("shop", 1_767_225_600_000, 65, QUERIES, 10 * 1024**3, ("long_stays: too many behind",))
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown(width=200, height=50, progress=PROGRESS):
    return [line.plain for line in lines_of(progress, width, height)]


def test_a_wide_terminal_shows_all():
    assert shown() == [
        "shop  runs for 1 min 5 s  10.0 GiB free on disk",
        "query               state  rows/s     lag  watermark  open  late  rejected   batch  state size  last",
        "clicks_per_minute    runs  12,346  98,765   10 s ago     4    12         3  350 ms     5.0 MiB   3 s",
        "  plan 50 ms  body 200 ms  disk 10 ms  keep 90 ms  under way 2.5 s",
        "long_stays         begins       0       -          -     -     0         0       -           -     -",
        "long_stays: too many behind",
    ]


def test_an_app_that_starts_says_for_how_long_already():
    starting = AppProgress("shop", 1_767_225_600_000, 12.3, (QueryProgress("long_stays"), QueryProgress("pages")))
    assert shown(progress=starting)[0] == "shop  has been starting for 12 s"
    assert shown(progress=AppProgress("shop", 1_767_225_600_000, 12.3, QUERIES))[0] == "shop  runs for 12 s"


def test_captures_stand_above_the_queries():
    captures = (CaptureProgress("shop", "reads tables", 1_200, 48.0),)
    assert shown(progress=AppProgress("shop", 0, 65, QUERIES, captures=captures))[1] == (
        "capture shop reads tables, 1,200 rows read, 48 %"
    )


@pytest.mark.parametrize("width", range(1, 140))
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, shown(width))) <= width


@pytest.mark.parametrize("height", range(12))
def test_there_are_no_more_lines_than_the_terminal_has(height):
    assert 1 <= len(shown(height=height)) <= max(1, height)


def test_a_narrow_terminal_keeps_what_matters_most():
    header = next(line for line in shown(50) if line.startswith("query"))
    assert {"rows/s", "lag"} <= set(header.split())
    assert "size" not in header
    assert shown(28)[1].split() == ["query", "lag"]


def test_a_low_terminal_shows_the_queries_without_their_steps():
    assert shown(height=5) == [line for line in shown() if not line.startswith("  ")]


def test_an_app_that_starts_is_shown():
    starting = AppProgress("shop", 0, 0, (QueryProgress("pages"),))
    assert shown(progress=starting)[2].split()[:2] == ["pages", "begins"]


# --- on a terminal

PROGRAM = """
import os, subprocess, sys, time
from runnel.app.progress import AppProgress, QueryProgress, State
from runnel.cli.screen import screen

asked = 0

def progress():
    global asked
    asked += 1
    return AppProgress("shop", 0, 1, (QueryProgress("pages", State.RUNS, late=7),))

with screen(wanted={wanted}) as drawn:
    drawn.ask = progress
    print("said by the log", file=sys.stderr, flush=True)
    subprocess.run(["sh", "-c", "echo said by a child >&2; printf '\\\\033[2Jno commands' >&2"], check=True)
    print("is on" if drawn.is_on else "is off", file=sys.stderr, flush=True)
    pictures = asked + 3 if drawn.is_on else 0  # one may be under way
    while asked < pictures:
        time.sleep(0.01)
print("said behind", file=sys.stderr, flush=True)
os.write(2, str(os.isatty(2)).encode())
"""


def on_terminal(wanted=True, columns=60, **environment):
    """All that the program writes to a terminal of so many columns."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    chosen = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(wanted=wanted)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=child,
        env=chosen | {"TERM": "xterm", **environment},
    )
    os.close(child)
    said = b""
    while True:
        try:
            piece = os.read(parent, 65_536)
        except OSError:  # so Linux tells that the last one has closed it
            break
        if not piece:
            break
        said += piece
    os.close(parent)
    assert program.wait(60) == 0, said
    return said.decode()


def test_on_a_terminal_the_screen_is_drawn_below_what_is_said():
    said = on_terminal()
    plain = COLOURS.sub("", said)
    for words in ("said by the log", "said by a child", r"\x1b[2Jno commands", "is on", "said behind", "True"):
        assert words in plain
    assert "\x1b[2J" not in said
    assert plain.count("shop  runs for 1 s") >= 2
    assert max(map(len, re.split(r"[\r\n]+", plain))) <= 60
    assert plain.index("said by a child") < plain.rindex("pages") < plain.index("said behind")


def test_on_a_terminal_of_ten_columns_it_is_drawn_as_well():
    plain = COLOURS.sub("", on_terminal(columns=10))
    assert "shop  run" in plain
    assert "said behind" in plain


@pytest.mark.parametrize(("wanted", "environment"), [(False, {}), (True, {"TERM": "dumb"})])
def test_without_a_screen_all_is_written_as_it_comes(wanted, environment):
    assert on_terminal(wanted, **environment).splitlines() == [
        "said by the log",
        "said by a child",
        "\x1b[2Jno commandsis off",
        "said behind",
        "True",
    ]


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}], ids=str)
def test_what_is_no_terminal_gets_no_screen(environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(wanted=True)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | environment,
    )
    assert done.stderr.splitlines()[0] == "said by the log"
    assert "is off" in done.stderr


LONG_LIVED = """
import os, sys
from runnel.cli.screen import screen

with screen(wanted=True):
    print("has begun", flush=True)
    sys.stdin.read()
    for _ in range(5_000):
        os.write(2, b"said to nobody, and longer than a pipe takes\\n")
    print("goes on", flush=True)
print("has ended", flush=True)
"""


def test_when_the_terminal_is_gone_nobody_waits_for_it():
    """As after `runnel up shop.py & disown`, when its window is closed."""
    parent, child = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", LONG_LIVED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=child,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(child)
    try:
        assert program.stdout.readline() == b"has begun\n"
        os.close(parent)
        said, _ = program.communicate(timeout=60)
    finally:
        program.kill()
        program.wait()
    assert (said, program.returncode) == (b"goes on\nhas ended\n", 0)
