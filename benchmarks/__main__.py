"""Runs the benchmarks: python -m benchmarks [NAME ...] [--check] [--quick].

Without a name it runs every module of this package that has a function `run`; harness.py describes it. A name can also
be the first part of several, as `pipeline` is of `pipeline_counts` and `pipeline_latency`.
A quick run only shows that the programs work: its numbers are not kept and cannot be checked.
"""

import argparse
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from types import ModuleType

from rich.console import Console

import benchmarks
from benchmarks import harness

# Wide enough for a table in a file or a pipe, which have no width of their own.
WIDTH_WITHOUT_TERMINAL = 140


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and print the tables.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark; all of them when none is named")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--quick", action="store_true", help="one round with small sizes; keeps no numbers")
    chosen = parser.parse_args(arguments)
    if chosen.check and chosen.quick:
        parser.error("--quick measures too little to check a target; give one of --check and --quick")

    programs = discover()
    if unknown := [name for name in chosen.names if not named(name, programs)]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(programs) or 'none'}")
    names = [each for name in chosen.names for each in named(name, programs)] or programs

    options = harness.Options(rounds=1, quick=True) if chosen.quick else harness.Options()
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH_WITHOUT_TERMINAL)
    figures = [figure for name in dict.fromkeys(names) for figure in run(name, programs[name], options, console)]
    if chosen.quick:
        return 0
    missed = harness.missed(figures)
    for figure in missed:
        console.print(f"missed: {figure.name}: {figure.ratio:.2f}, target {figure.target}", style="red")
    return 1 if missed and chosen.check else 0


def discover() -> dict[str, ModuleType]:
    """The modules of this package that have a function `run`, by name."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in sorted(names)}
    return {name: module for name, module in modules.items() if inspect.isfunction(getattr(module, "run", None))}


def named(name: str, programs: Iterable[str]) -> list[str]:
    """The program of that name, or those whose names begin with it."""
    found = [each for each in programs if each.startswith(f"{name}_")]
    return [name] if name in programs else found


def run(name: str, program: ModuleType, options: harness.Options, console: Console) -> list[harness.Figure]:
    title = (inspect.getdoc(program) or name).splitlines()[0]
    console.print(f"[dim]{name}, rounds: {options.rounds} ...[/dim]")
    figures: list[harness.Figure] = program.run(options)
    harness.show(title, figures, console)
    if not options.quick:
        path = harness.save(name, figures, now=datetime.now(UTC))
        console.print(f"[dim]raw numbers: {os.path.relpath(path)}[/dim]\n")
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
