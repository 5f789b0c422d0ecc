"""The layers of the design hold: who may import whom, and what stays out of `import runnel`."""

import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("runnel", include_external_packages=True, cache_dir=None)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def importers(graph: grimp.ImportGraph, *packages: str) -> set[str]:
    present = [package for package in packages if package in graph.modules]
    return set().union(*(graph.find_modules_that_directly_import(package) for package in present))


def within(module: str, *layers: str) -> bool:
    return any(module == layer or module.startswith(f"{layer}.") for layer in layers)


def test_every_layer_imports_only_what_the_design_allows():
    check = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    result = run("-c", check, "--no-logo", "--no-cache")
    assert result.returncode == 0, result.stdout + result.stderr


def test_import_runnel_does_not_import_pyspark():
    result = run("-c", "import sys, runnel; print(sorted(name for name in sys.modules if 'pyspark' in name))")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_only_pipeline_and_the_kit_for_users_import_pyspark(graph):
    strangers = {
        module for module in importers(graph, "pyspark") if not within(module, "runnel.pipeline", "runnel.testing")
    }
    assert strangers == set()


def test_the_log_knows_no_sockets(graph):
    strangers = {
        module
        for module in importers(graph, "socket", "socketserver", "ssl")
        if within(module, "runnel.log", "runnel.records", "runnel.replay")
    }
    assert strangers == set()
