"""Whether two starts of an app run the same code: its files, and those beside it that it imports."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import CodeType, EllipsisType, ModuleType
from typing import Any

from runnel.graph.body import function_of
from runnel.graph.derived import Derived
from runnel.graph.view import View
from runnel.pipeline.shipping import beside

FILE = "code"  # beside the checkpoint: where that goes, it goes
PLAIN = str | bytes | int | float | complex | bool | EllipsisType | None


def code_of(output: Derived | View) -> str:
    """A digest. It is that of the moment, so it should be asked for when the app was just loaded."""
    digest = hashlib.sha256()
    module = sys.modules.get(function_of(output.body).__module__)
    if file := getattr(module, "__file__", None):
        own = Path(file).resolve()
        for path in sorted({own, *beside(own).values()}):
            digest.update(path.read_bytes())
    for part in _parts(output.body):
        digest.update(part.encode())
    return digest.hexdigest()


def modules_of(outputs: Iterable[Derived | View]) -> set[ModuleType]:
    """Where their bodies are written."""
    return {sys.modules[function_of(output.body).__module__] for output in outputs}


def keep_code(directory: Path, code: str) -> None:
    """As that which runs the query whose directory it is."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FILE).write_text(code)


def last_code(directory: Path) -> str | None:
    try:
        return (directory / FILE).read_text()
    except FileNotFoundError:
        return None


def _parts(body: Any) -> list[str]:
    """Of a function that was made by another, what tells it from its sisters."""
    if isinstance(body, partial):
        given = (*body.args, *sorted(body.keywords.items()))
        return [*_parts(body.func), *map(_text, given)]
    code = getattr(body, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(body, "__closure__", None) or ()]
    plain = [_text(each) for each in cells if isinstance(each, PLAIN | tuple | frozenset)]
    return [*(_of_code(code) if code is not None else ()), *plain]


def _of_code(code: CodeType) -> list[str]:
    found = [code.co_code.hex(), repr(code.co_names)]
    for const in code.co_consts:
        found += _of_code(const) if isinstance(const, CodeType) else [_text(const)]
    return found


def _text(value: object) -> str:
    """The same in every process: the order of a set follows the hash seed, and an object tells where it is."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    return repr(value) if isinstance(value, PLAIN) else type(value).__qualname__
