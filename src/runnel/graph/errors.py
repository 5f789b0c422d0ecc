"""What can be wrong with a declaration. An error names the argument and the remedy."""

from __future__ import annotations

from runnel.errors import Permanent


class InvalidDeclaration(Permanent):
    """`where` is the thing declared, such as `stream "clicks"`; `argument` the one that is wrong."""

    def __init__(self, where: str, argument: str, what: str, *, hint: str) -> None:
        super().__init__(f"{where}: {argument} {what}", hint=hint)
        self.where = where
        self.argument = argument


class NameTaken(Permanent):
    def __init__(self, where: str, name: str) -> None:
        super().__init__(
            f"{where}: the app has declared the name {name} already", hint="give one of the two another name"
        )
        self.name = name


class Cycle(Permanent):
    def __init__(self, names: list[str]) -> None:
        way = " -> ".join((*names, names[0]))
        super().__init__(
            f"a circle of inputs: {way}",
            hint="let one of them read or write another topic; what feeds itself has no first answer",
        )
        self.names = names
