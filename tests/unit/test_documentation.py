"""The documents cannot go stale: targets are described, pages are listed, links lead somewhere, and programs run.

- A page's ```python blocks are one program, run from its top to its end. A ```text block right after one of them is
  what it prints.
- A tutorial's ```python blocks are files, named by their first line. Its ```console blocks are what a reader types,
  and sees; `...` stands for anything. What runs in the background ends with the page; port 9092 is a free one.
- A ```sh block is not run.
"""

import contextlib
import doctest
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from runnel.settings import TopicSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
FILE_OR_SESSION = re.compile(r"^```(?:python\n# (\S+)|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)

SECONDS_FOR_A_COMMAND = 120

TUTORIALS = [page for page in PAGES if page.parent.name == "tutorial"]
NEED_JAVA = ("first-app",)
PROGRAMS = [
    page for page in [ROOT / "README.md", *PAGES] if page not in TUTORIALS and PYTHON.search(page.read_text("utf-8"))
]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> set[Path]:
    """The files that a page links to, without those on other hosts."""
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return {(page.parent / link).resolve() for link in found if "://" not in link}


def test_every_target_of_the_makefile_is_described():
    targets = TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    reference = (DOCS / "reference" / "make.md").read_text(encoding="utf-8")
    assert [target for target in targets if f"`make {target}`" not in reference] == []
    assert "test" in targets


def test_every_setting_of_a_topic_is_described():
    page = (DOCS / "howto" / "use-the-log-alone.md").read_text(encoding="utf-8")
    assert [setting.name for setting in fields(TopicSettings) if f"| `{setting.name}` |" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_of_a_page_leads_to_a_file(page):
    assert [link for link in sorted(links(page)) if not link.exists()] == []


def test_every_page_is_listed_in_the_index_or_in_the_index_of_its_folder():
    indexes = [page for page in PAGES if page.name == "README.md"]
    listed = set().union(*(links(index) for index in indexes))
    missing = [page for page in PAGES if page not in listed and page != DOCS / "README.md"]
    assert [str(page.relative_to(ROOT)) for page in missing] == []


@pytest.mark.parametrize("page", PROGRAMS, ids=name)
def test_the_python_blocks_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in PYTHON.finditer(text):
        lines_before = "\n" * text.count("\n", 0, block.start(1))  # so that an error names the line of the page
        exec(compile(lines_before + block[1], page, "exec"), names)
        printed = capsys.readouterr().out
        assert block[2] is None or printed == block[2]
    names.clear()  # a client of a page would go on, and look for its broker


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.servers if page.stem in NEED_JAVA else ()) for page in TUTORIALS],
    ids=name,
)
def test_a_tutorial_can_be_followed(page, tmp_path, shell):
    text = page.read_text(encoding="utf-8").replace("9092", str(shell.port))
    for file, content in FILE_OR_SESSION.findall(text):
        if file:
            (tmp_path / file).write_text(content, encoding="utf-8")
            continue
        for command, shown in COMMAND.findall(content):
            run = shell.run(command)
            same = doctest.OutputChecker().check_output(shown, run.stdout, doctest.ELLIPSIS)
            assert same, f"$ {command}\n{run.stdout}{run.stderr}"


class Shell:
    """Runs commands one by one, as a reader types them."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._sessions: list[int] = []
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        self._environment = os.environ | {"PATH": path, "RUNNEL_BOOTSTRAP": f"127.0.0.1:{self.port}"}

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        # Files and not pipes: what runs on in the background would keep those open.
        with (self._folder / ".stdout").open("w+") as stdout, (self._folder / ".stderr").open("w+") as stderr:
            bash = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            self._sessions.append(bash.pid)
            code = bash.wait(SECONDS_FOR_A_COMMAND)
            stdout.seek(0)
            stderr.seek(0)
            return subprocess.CompletedProcess(command, code, stdout.read(), stderr.read())

    def end(self) -> None:
        for session in self._sessions:
            with contextlib.suppress(ProcessLookupError):  # nothing of it runs any more
                os.killpg(session, signal.SIGKILL)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.end()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
