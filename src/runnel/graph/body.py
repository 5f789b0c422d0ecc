"""The function that a derived stream or a view is kept by: plain PySpark, callable as before it was decorated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from runnel.graph.errors import InvalidDeclaration
from runnel.graph.inputs import Input, Readable, taken_by_metadata
from runnel.graph.stream import Stream
from runnel.graph.table import Table

Function: TypeAlias = Callable[..., Any]


def checked_inputs(inputs: tuple[object, ...], where: str) -> tuple[Input, ...]:
    if not inputs:
        raise InvalidDeclaration(where, "inputs", "are missing", hint="pass the streams and tables that the body reads")
    found = tuple(_input(each, number, where) for number, each in enumerate(inputs, 1))
    for number, each in enumerate(found, 1):
        _check_metadata(each, number, where)
    return found


def _check_metadata(given: Input, number: int, where: str) -> None:
    noun = given.noun
    if given.metadata and isinstance(noun, Stream | Table) and (taken := taken_by_metadata(noun.columns.names)):
        what = f"is {noun} with metadata, and its schema has a column {taken[0]} as well"
        raise InvalidDeclaration(where, f"input {number}", what, hint="leave with_metadata() out, or that column")


def check_called(inputs: tuple[object, ...], decorator: str) -> None:
    """The decorator was called with what it needs: on a function itself it would declare nothing, without a word."""
    if len(inputs) == 1 and callable(inputs[0]) and not isinstance(inputs[0], Readable):
        name = getattr(inputs[0], "__name__", type(inputs[0]).__name__)
        hint = f"pass the streams and tables that it reads: @app.{decorator}(clicks, ...)"
        raise InvalidDeclaration(f'{decorator} "{name}"', "inputs", "are missing", hint=hint)


def _input(given: object, number: int, where: str) -> Input:
    if isinstance(given, Input):
        return given
    if isinstance(given, Readable):
        return Input(given)  # type: ignore[arg-type]
    raise InvalidDeclaration(
        where,
        f"input {number}",
        f"is a {type(given).__name__}",
        hint="pass what app.stream, app.table or app.view returned",
    )


def check_body(body: object, inputs: tuple[Input, ...], where: str) -> None:
    """It takes as many DataFrames as there are inputs."""
    if not callable(body):
        raise InvalidDeclaration(
            where,
            "the body",
            f"is a {type(body).__name__}",
            hint="decorate a function that takes and returns DataFrames",
        )
    if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body):
        raise InvalidDeclaration(where, "the body", "is no plain function", hint="return a DataFrame")
    try:
        inspect.signature(body).bind(*inputs)
    except TypeError as error:
        given = "the input" if len(inputs) == 1 else f"the {len(inputs)} inputs"
        raise InvalidDeclaration(
            where,
            "the body",
            f"does not take {given} of the decorator: {error}",
            hint="one parameter for each input, in the same order",
        ) from None


def function_of(body: Any) -> Any:
    """What is called in the end: of a partial, whose own module is Python's, the function that it was made of."""
    while isinstance(body, partial):
        body = body.func
    return body
