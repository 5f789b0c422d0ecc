"""Kafka's messages as data: what fields the request and the response of an API have in each version.

The JSON files beside this module are written by `make schemas` and read when an API is first used. Those in `own` are
written by hand: see `runnel.protocol.own`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from runnel.protocol.own import OwnApi, api_of

FOLDER = Path(__file__).parent
NO_DEFAULT = object()
# The types of a fixed size, with their codes for `struct`.
NUMBERS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}


class Field(NamedTuple):
    name: str
    kind: Any  # a primitive's name, a tuple of fields for a structure, or an Array
    nullable: bool
    tag: int | None
    default: Any = NO_DEFAULT


class Array(NamedTuple):
    item: Any


Structure = tuple[Field, ...]


class Schema(NamedTuple):
    flexible: bool
    flexible_answer: bool
    flexible_answer_header: bool
    request: Structure
    response: Structure


@cache
def schema(api_key: int, version: int) -> Schema:
    described = _file(api_key)["versions"][str(version)]
    return Schema(
        described["flexible"],
        described["flexible_answer"],
        described["flexible_answer_header"],
        _structure(described["request"]),
        _structure(described["response"]),
    )


def runs_of(structure: Structure) -> list[list[Field]]:
    """The fields without tags in their order; numbers that follow each other stand together."""
    runs: list[list[Field]] = []
    for field in structure:
        if field.tag is None:
            if runs and is_number(field) and is_number(runs[-1][-1]):
                runs[-1].append(field)
            else:
                runs.append([field])
    return runs


def is_number(field: Field) -> bool:
    return isinstance(field.kind, str) and field.kind in NUMBERS


def versions(api_key: int) -> list[int]:
    """All that are described."""
    return [int(version) for version in _file(api_key)["versions"]]


@cache
def _file(api_key: int) -> Any:
    api = api_of(api_key)
    folder = FOLDER / "own" if isinstance(api, OwnApi) else FOLDER
    return json.loads((folder / f"{api.name.lower()}.json").read_bytes())


def _structure(fields: list[list[Any]]) -> Structure:
    return tuple(Field(name, _kind(kind), *rest) for name, kind, *rest in fields)


def _kind(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    if kind and kind[0] == "array":
        return Array(_kind(kind[1]))
    return _structure(kind)
