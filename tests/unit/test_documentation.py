"""The documents cannot go stale: targets and public names are described, pages are listed, links lead somewhere, and
programs run.

- A page's ```python blocks are one program, run from its top to its end. A ```text block right after one of them is
  what it prints.
- A tutorial's ```python blocks are files, named by their first line. Its ```console blocks are what a reader types,
  in one shell, and sees; `...` stands for anything. What runs in the background ends with the page; port 9092 is a free
  one, and a folder of the test is the reader's home.
- A ```sh block is not run.
- "Your first app" begins with an installation: it is followed with nothing but Python, Java and the checkout.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import runnel
from runnel import client, testing
from runnel.client.asynchronous import AsyncConsumer, AsyncProducer
from runnel.graph.inputs import Input, Keyed, Readable
from runnel.pipeline.errors import NoLongerFits
from runnel.settings import TopicSettings
from runnel.views import errors as view_errors
from runnel.views.changes import Change
from runnel.views.serving import Selection, View, Views
from runnel.views.watching import Step, Watch
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
FILE_OR_SESSION = re.compile(r"^```(?:python\n# (\S+)|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SIGNATURE = re.compile(r"^#+ `(?:runnel\.)?(\w+)(\([^`]+\))`$", re.MULTILINE)
CODE = re.compile(r"`([A-Za-z_][\w.]*)[^`\n]*`")

SECONDS_FOR_A_COMMAND = 600

TUTORIALS = [page for page in PAGES if page.parent.name == "tutorial"]
FROM_NOTHING = DOCS / "tutorial" / "first-app.md"
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


def members(*classes: type) -> set[str]:
    """What they have for everybody, without what they inherit."""
    own = {member for each in classes for member in (*vars(each), *inspect.get_annotations(each))}
    return {member for member in own if not member.startswith("_")}


def classes_of(module: ModuleType) -> set[str]:
    every = inspect.getmembers(module, inspect.isclass)
    return {name for name, each in every if each.__module__ == module.__name__}


def offered(module: ModuleType) -> set[str]:
    """The names that a module offers, and the members of the classes among them."""
    every = {each: getattr(module, each) for each in module.__all__}
    return every.keys() | members(*filter(inspect.isclass, every.values()))


@pytest.mark.parametrize(
    ("pages", "names"),
    [  # functions, since the first of them loads PySpark
        pytest.param(["app", "functions", "views"], lambda: offered(runnel) | runnel.HOMES.keys(), id="runnel"),
        pytest.param(["app"], lambda: members(Input, Keyed, Readable), id="inputs of a body"),
        pytest.param(["client"], lambda: offered(client), id="runnel.client"),
        pytest.param(["client"], lambda: {"AsyncProducer", *members(AsyncProducer)}, id="AsyncProducer"),
        pytest.param(["client"], lambda: {"AsyncConsumer", *members(AsyncConsumer)}, id="AsyncConsumer"),
        pytest.param(["testing"], lambda: {*testing.__all__, *testing.HOMES}, id="runnel.testing"),
        pytest.param(["testing"], lambda: members(testing.Played, testing.Written, testing.Rejected), id="Played"),
        pytest.param(["views"], lambda: members(Views, Selection, View, Watch, Step, Change), id="runnel.views"),
        pytest.param(["views", "app"], lambda: classes_of(view_errors), id="runnel.views.errors"),
    ],
)
def test_every_public_name_is_described(pages, names):
    texts = [(DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8") for page in pages]
    described = {word for text in texts for code in CODE.findall(FENCED.sub("", text)) for word in code.split(".")}
    missing = sorted(names() - described)
    assert not missing, f"docs/reference/{pages[0]}.md does not tell of {', '.join(missing)}"


def test_a_signature_in_a_heading_of_the_reference_is_that_of_the_code():
    checked = []
    for page in sorted((DOCS / "reference").glob("*.md")):
        for called, told in SIGNATURE.findall(page.read_text(encoding="utf-8")):
            found = Views if called == "views" else getattr(runnel, called, None) or getattr(client, called, None)
            if found is None or "..." in told:
                continue
            given = inspect.signature(found).parameters.values()
            parsed = ast.parse(f"def f{told}: pass").body[0]
            assert isinstance(parsed, ast.FunctionDef)
            by_name = [each.name for each in given if each.kind is each.KEYWORD_ONLY]
            by_place = [each.name for each in given if each.kind is each.POSITIONAL_OR_KEYWORD]
            assert [each.arg for each in parsed.args.kwonlyargs] == by_name, f"{page.name}: {called}"
            assert [each.arg for each in parsed.args.args] == by_place, f"{page.name}: {called}"
            checked.append(called)
    assert {"views", "Admin", "Producer"} <= set(checked)


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


@pytest.mark.parametrize("page", [page for page in TUTORIALS if page != FROM_NOTHING], ids=name)
def test_a_tutorial_can_be_followed(page, tmp_path, shells):
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    for run in followed(page, shells(tmp_path, os.environ | {"PATH": path}), tmp_path):
        assert run.shows_what_the_page_does, run


@pytest.mark.servers
def test_a_newcomer_goes_from_nothing_to_a_tested_app(tmp_path, shells):
    try:
        for run in followed(FROM_NOTHING, shells(ROOT, newcomers_environment(tmp_path)), tmp_path):
            assert run.code == 0, run
            assert run.shows_what_the_page_does, run
    finally:
        shutil.rmtree(tmp_path / "first-app" / "venv", ignore_errors=True)  # a gigabyte, which pytest would keep


def test_the_tutorial_tells_how_a_changed_view_is_refused():
    what = "what Aggregate remembers has changed: its keys, its values, their types or their order"
    refused = NoLongerFits("clicks_per_minute", what, is_view=True)
    assert f"```text\nerror: {refused.what}\nhint: {refused.hint}\n```" in FROM_NOTHING.read_text(encoding="utf-8")


def newcomers_environment(folder: Path) -> dict[str, str]:
    """Without what is installed here, and what would lead Python to it. The versions that are chosen are those of here,
    so that a new one of something else is not found out by this test. Python compiles what it imports; pip would do it
    with ten times as many files.
    """
    versions = {each.name: each.version for each in metadata.distributions() if each.name != "runnel"}
    constraints = folder / "versions.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in sorted(versions.items())))
    programs = folder / "programs"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(sys._base_executable)} "$@"\n')
    (programs / "python3").chmod(0o755)
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    own = os.path.dirname(sys.executable)
    path = [each for each in os.environ["PATH"].split(os.pathsep) if each != own]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {
        "PATH": os.pathsep.join([str(programs), *path]),
        "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(caches / "pip")),
        "PIP_CONSTRAINT": str(constraints),
        "PIP_COMPILE": "no",
        "XDG_CACHE_HOME": str(folder / "caches"),
    }


class Run(NamedTuple):
    """A command of a page, what the page shows, and what there is to see."""

    command: str
    shown: str
    code: int
    stdout: str
    stderr: str

    @property
    def shows_what_the_page_does(self) -> bool:
        return doctest.OutputChecker().check_output(self.shown, self.stdout, doctest.ELLIPSIS)

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.stdout}{self.stderr}(exit code {self.code})\nthe page shows:\n{self.shown}"


def followed(page: Path, shell: Shell, home: Path) -> Iterator[Run]:
    text = page.read_text(encoding="utf-8").replace("9092", str(shell.port)).replace("~/", f"{home}/")
    for file, content in FILE_OR_SESSION.findall(text):
        if file:
            (shell.folder / file).write_text(content, encoding="utf-8")
            continue
        for command, shown in COMMAND.findall(content):
            yield Run(command, shown, *shell.run(command))


class Shell:
    """One that a reader types into: where it is, and what was set in it, stays for the next command."""

    def __init__(self, folder: Path, output: Path, environment: Mapping[str, str]) -> None:
        self.port = free_port()
        self._output = output
        self._codes, codes = os.pipe()
        self._tell = f"echo $? >&{codes}"
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**environment, "RUNNEL_BOOTSTRAP": f"127.0.0.1:{self.port}"},
            stdin=subprocess.PIPE,
            text=True,
            pass_fds=[codes],
            start_new_session=True,
        )
        os.close(codes)

    @property
    def folder(self) -> Path:
        """Where it is."""
        return Path(self.run("pwd")[1].rstrip("\n"))

    def run(self, command: str) -> tuple[int, str, str]:
        # Files and not pipes: what runs on in the background would keep those open.
        stdout, stderr = self._output / ".stdout", self._output / ".stderr"
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{{ {command}\n}} > {stdout} 2> {stderr} < /dev/null; {self._tell}\n")
        self._bash.stdin.flush()
        is_done, _, _ = select.select([self._codes], [], [], SECONDS_FOR_A_COMMAND)
        code = int(os.read(self._codes, 100)) if is_done else -1
        assert is_done, f"$ {command}\n{stdout.read_text()}{stderr.read_text()}(it goes on)"
        return code, stdout.read_text(encoding="utf-8"), stderr.read_text(encoding="utf-8")

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # nothing of it runs any more
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
        os.close(self._codes)


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Callable[[Path, Mapping[str, str]], Shell]]:
    """Makes shells that begin in a folder, with an environment."""
    made = []

    def shell(folder: Path, environment: Mapping[str, str]) -> Shell:
        made.append(Shell(folder, tmp_path, environment))
        return made[-1]

    yield shell
    for each in made:
        each.end()
