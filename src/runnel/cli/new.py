"""`runnel new`: a small app to start from, with its test and a README."""

from __future__ import annotations

import keyword
import re
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from runnel.cli.nouns import noun
from runnel.errors import Permanent

NAME = re.compile(r"[a-z][a-z0-9_-]{0,99}")
FILES = {"app.py.txt": "{}.py", "test_app.py.txt": "test_{}.py", "README.md.txt": "README.md"}
IGNORED = ".runnel/\n__pycache__/\n"

new = noun()


class NotEmpty(Permanent):
    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}", hint="choose another name, or go to another directory")
        self.path = path


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise typer.BadParameter(f"'{name}' cannot be an app's name: use a-z, 0-9, _ and -, a letter first.")
    module = name.replace("-", "_")
    if keyword.iskeyword(module):
        raise typer.BadParameter(f"'{name}' is a word of Python's: choose another one.")
    if _is_taken(module):
        raise typer.BadParameter(f"'{name}' is a module that Python has already: choose another name.")
    return name


class NotWritten(Permanent):
    def __init__(self, path: Path, why: OSError) -> None:
        hint = "go to a directory where you may write, on a disk that has room"
        super().__init__(f"{path} cannot be written: {why.strerror}", hint=hint)
        self.path = path


@new.command()
def write(
    name: Annotated[
        str, typer.Argument(metavar="NAME", callback=_checked, help="The name of the app, and of its directory.")
    ],
) -> None:
    """Write a small app, its test and a README into a new directory."""
    directory = Path(name)
    module = name.replace("-", "_")
    try:
        _write(directory, name, module)
    except OSError as error:
        raise NotWritten(directory, error) from None
    print(f"{directory}: a small app. Next: cd {directory}, pytest, runnel up {module}.py")


def _write(directory: Path, name: str, module: str) -> None:
    if directory.exists() and not directory.is_dir():
        raise NotEmpty(directory, "is there already, and is no directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise NotEmpty(directory, "is not empty")
    directory.mkdir(exist_ok=True)
    templates = resources.files("runnel.cli") / "new_app"
    for template, file in FILES.items():
        text = (templates / template).read_text(encoding="utf-8")
        (directory / file.format(module)).write_text(_filled(text, name, module), encoding="utf-8")
    (directory / ".gitignore").write_text(IGNORED, encoding="utf-8")


def _filled(text: str, name: str, module: str) -> str:
    words = {"NAME": name, "MODULE": module}
    return re.sub(r"\b(?:NAME|MODULE)\b|(?<=test_)MODULE\b", lambda found: words[found[0]], text)


def _is_taken(module: str) -> bool:
    """Whether an import of this name would find something else than the app."""
    if module in sys.stdlib_module_names:
        return True
    found = find_spec(module)
    return found is not None and found.origin is not None
