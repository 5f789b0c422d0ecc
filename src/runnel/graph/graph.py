"""What an app declared, in the order of its making: an output comes behind its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from runnel.graph.derived import Derived
from runnel.graph.errors import Cycle, InvalidDeclaration, NameTaken
from runnel.graph.inputs import Input
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.view import View

Declared: TypeAlias = Stream | Table
Output: TypeAlias = Derived | View


class Graph:
    def __init__(self) -> None:
        self._declared: dict[str, Declared] = {}
        self._outputs: dict[str, Output] = {}

    @property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(self._outputs.values())

    def declare(self, noun: Declared) -> None:
        if noun.name in self._declared:
            raise NameTaken(str(noun), noun.name)
        self._declared[noun.name] = noun
        self._check_for_cycles()

    def derive(self, output: Output) -> None:
        if output.name in self._outputs:
            raise NameTaken(str(output), output.name)
        self._check_case(output)
        for each in output.inputs:
            self._check_ours(output, each)
        self._outputs[output.name] = output
        try:
            self._check_for_cycles()
        except Cycle:
            del self._outputs[output.name]
            raise

    def sources(self, output: Output) -> Iterator[Output]:
        """The outputs that feed it, by object or by a topic that another one declared over what they write, by its name
        or by a pattern.
        """
        for writer in self._outputs.values():
            if any(_feeds(writer, each.noun) for each in output.inputs):
                yield writer

    def generations(self) -> list[list[Output]]:
        """The outputs, such that each comes in a later list than all that feed it."""
        found: dict[str, int] = {}

        def generation(output: Output) -> int:
            if output.name not in found:
                found[output.name] = max((generation(source) + 1 for source in self.sources(output)), default=0)
            return found[output.name]

        lists: dict[int, list[Output]] = {}
        for output in self.outputs:
            lists.setdefault(generation(output), []).append(output)
        return [lists[number] for number in sorted(lists)]

    def _check_case(self, output: Output) -> None:
        """A view is a table, and SQLite does not tell the names of tables apart by their case."""
        names = {each.name.lower(): each.name for each in self._outputs.values() if isinstance(each, View)}
        if isinstance(output, View) and (other := names.get(output.name.lower())):
            what = f'differs from that of view "{other}" by its case alone, and a store may not tell their tables apart'
            raise InvalidDeclaration(str(output), "name", what, hint="give one of the two another name")

    def _check_ours(self, output: Output, given: Input) -> None:
        noun = given.noun
        ours = self._outputs if isinstance(noun, Derived | View) else self._declared
        if ours.get(noun.name) is not noun:
            raise InvalidDeclaration(
                str(output), "inputs", f"name {noun}, which another app declared", hint="declare it in this app as well"
            )

    def _check_for_cycles(self) -> None:
        done: set[str] = set()
        for output in self._outputs.values():
            self._walk(output, [], done)

    def _walk(self, output: Output, way: list[str], done: set[str]) -> None:
        if output.name in way:
            raise Cycle(way[way.index(output.name) :])
        if output.name in done:
            return
        for source in self.sources(output):
            self._walk(source, [*way, output.name], done)
        done.add(output.name)


def _feeds(writer: Output, noun: Declared | Output) -> bool:
    if writer is noun:
        return True
    if not isinstance(writer, Derived):
        return False
    return noun.reads(writer.topic) if isinstance(noun, Stream) else noun.name == writer.topic
