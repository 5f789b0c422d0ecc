"""What becomes of a row on which the body raises: the query stops and names it, or puts it aside and goes on."""

from __future__ import annotations

from runnel.graph.errors import InvalidDeclaration
from runnel.graph.inputs import Input

STOP = "stop"
REJECT = "reject"


def check_on_error(where: str, argument: str, given: object, inputs: tuple[Input, ...]) -> None:
    if given not in (STOP, REJECT):
        raise InvalidDeclaration(where, argument, f"is {given!r}", hint=f'expected "{STOP}" or "{REJECT}"')
    changing = [each.noun.name for each in inputs if each.changes]
    if given == REJECT and changing:
        what = f'is "{REJECT}", and the changes of {changing[0]} tell what became of a row: none can be left out'
        raise InvalidDeclaration(where, argument, what, hint=f'leave it out, or say "{STOP}": the query names the row')
