"""The user's own Python on its way to Spark's workers, which do not have the files."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import sys
import sysconfig
import zipfile
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

from pyspark import cloudpickle
from pyspark.sql import SparkSession

INSTALLED = {os.path.realpath(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib", "purelib", "platlib")}


def ship(spark: SparkSession, modules: Collection[ModuleType]) -> None:
    """Let functions of these modules, and of those beside them, run in the workers.

    Functions of the modules themselves travel as they are. What they import from their own directory is put into a zip
    file that the workers import from.
    """
    shipped: dict[str, Path] = {}
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        if found := getattr(module, "__file__", None):
            shipped |= beside(Path(found).resolve())
    for module in modules:
        shipped.pop(module.__name__, None)
    if shipped:
        spark.sparkContext.addPyFile(str(_zipped(shipped, Path(str(spark.sparkContext._temp_dir)))))


def beside(own: Path) -> dict[str, Path]:
    """The files of the modules that a file imports from its own directory, or may yet: an import can stand inside of a
    function, which a worker is the first to call.
    """
    if str(own.parent) in INSTALLED:  # a zip file of all that is there would have the half of each: no library of C's
        return {}
    found = imported_from(own.parent)
    new = {own, *found.values()}
    while new:
        names = {name for path in new for name in _imported_by(path) if name in found or not _is_another(name)}
        more = {name: path for top in names for name, path in _module(own.parent, top).items() if name not in found}
        found |= more
        new = set(more.values())
    return found


def _is_another(name: str) -> bool:
    """Whether an import of the name finds what is not in the directory."""
    return name in sys.modules or name in sys.stdlib_module_names


def _imported_by(path: Path) -> set[str]:
    """The names of modules, and of packages, that stand in its imports, wherever those stand."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


def _module(directory: Path, name: str) -> dict[str, Path]:
    """The files of a module in the directory: of a package, all of them."""
    alone, package = directory / f"{name}.py", directory / name
    if (package / "__init__.py").is_file():
        parts = {path: path.relative_to(directory).with_suffix("").parts for path in package.rglob("*.py")}
        return {".".join(each[:-1] if each[-1] == "__init__" else each): path for path, each in parts.items()}
    return {name: alone} if alone.is_file() else {}


def imported_from(directory: Path) -> dict[str, Path]:
    """The files of the modules that were imported with this directory on the search path."""
    found: dict[str, Path] = {}
    there = {Path(each).stem for each in os.listdir(directory)}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in there:  # asked first: to look for the file of every module takes long
            continue
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        place = directory.joinpath(*name.split("."))
        if path in (place.with_suffix(".py"), place / "__init__.py"):
            found[name] = path
    return found


def _zipped(modules: dict[str, Path], directory: Path) -> Path:
    """Named by what is in it: Spark takes a name once."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        for name, path in sorted(modules.items()):
            place = name.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
            made.writestr(zipfile.ZipInfo(place), path.read_bytes())
    zipped = directory / f"beside-{hashlib.sha256(content.getvalue()).hexdigest()[:16]}.zip"
    zipped.write_bytes(content.getvalue())
    return zipped
