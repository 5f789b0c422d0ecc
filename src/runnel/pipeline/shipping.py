"""The user's own Python on its way to Spark's workers, which do not have the files."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

from pyspark import cloudpickle
from pyspark.sql import SparkSession


def ship(spark: SparkSession, modules: Collection[ModuleType]) -> None:
    """Let functions of these modules, and of those beside them, run in the workers.

    Functions of the modules themselves travel as they are. What they import from their own directory is put into a zip
    file that the workers import from.
    """
    beside: dict[str, Path] = {}
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        if found := getattr(module, "__file__", None):
            beside |= imported_from(Path(found).resolve().parent)
    for module in modules:
        beside.pop(module.__name__, None)
    if beside:
        spark.sparkContext.addPyFile(str(_zipped(beside, Path(str(spark.sparkContext._temp_dir)))))


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
