"""What an app declared, in the order of its making: an output comes behind its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from runnel.graph.derived import Derived
from runnel.graph.errors import Cycle, InvalidDeclaration, NameTaken
from runnel.graph.inputs import Input
from runnel.graph.names import LATE, REJECTED
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.view import View

Declared: TypeAlias = Stream | Table
Output: TypeAlias = Derived | View
Noun: TypeAlias = Declared | Output


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
        """The outputs, such that each comes in a later list than all that feed it, and than all that put rows aside
        where it reads them. (Two may do that for each other, by what both reject of one topic: they have no order.)
        """
        found: dict[str, int] = {}

        def generation(output: Output) -> int:
            if output.name not in found:
                found[output.name] = 0  # while its sources are looked at
                before = [*self.sources(output), *self._putting_aside_for(output)]
                found[output.name] = max((generation(source) + 1 for source in before), default=0)
            return found[output.name]

        lists: dict[int, list[Output]] = {}
        for output in self.outputs:
            lists.setdefault(generation(output), []).append(output)
        return [lists[number] for number in sorted(lists)]

    def _putting_aside_for(self, output: Output) -> Iterator[Output]:
        for writer in self._outputs.values():
            if writer is not output and any(
                _reads(each.noun, side) for side in sides(writer) for each in output.inputs
            ):
                yield writer

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
        """Of what is made of what: a row that is late stays so, and would come back without an end."""
        made_of: dict[str, tuple[Noun, ...]] = {}
        for output in self._outputs.values():
            made_of |= {output.name: tuple(each.noun for each in output.inputs), **sides(output)}
        done: set[str] = set()
        for name in made_of:
            self._walk(name, made_of, [], done)

    def _walk(self, name: str, made_of: Mapping[str, tuple[Noun, ...]], way: list[str], done: set[str]) -> None:
        if name in way:
            raise Cycle(way[way.index(name) :])
        if name in done:
            return
        for source in made_of:
            writer = self._outputs.get(source)
            if any(_reads(noun, source) if writer is None else _feeds(writer, noun) for noun in made_of[name]):
                self._walk(source, made_of, [*way, name], done)
        done.add(name)


def sides(output: Output) -> dict[str, tuple[Noun, ...]]:
    """The topics where it puts rows aside, each with the inputs whose rows those are."""
    nouns = [each.noun for each in output.inputs]
    timed = tuple(noun for noun in nouns if isinstance(noun, Stream | Derived) and noun.time is not None)
    late = {output.name + LATE: timed} if timed else {}
    return late | {noun.topic + REJECTED: (noun,) for noun in nouns if not isinstance(noun, View)}


def _feeds(writer: Output, noun: Noun) -> bool:
    return writer is noun or (isinstance(writer, Derived) and _reads(noun, writer.topic))


def _reads(noun: Noun, topic: str) -> bool:
    """Whether the topic is what it is declared over."""
    if isinstance(noun, Derived | View):
        return False
    return noun.reads(topic) if isinstance(noun, Stream) else noun.name == topic
