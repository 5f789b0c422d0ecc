"""Write what `runnel.protocol` knows of Kafka's messages, from the schemas of the package kio: `make schemas`.

One JSON file for each API that is served, with the fields of its request and its response in every version. A field is
[name, type, nullable, tag, default], without the last where it has none. The type is a primitive's name, an array
`["array", type]`, or a structure, which is a list of fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.index import load_request_schema, load_response_schema

from runnel.protocol.schemas import FOLDER
from runnel.protocol.versions import SERVED, Api

# A type on the wire, without the meaning that kio gives it: times are whole milliseconds here.
WIRE_TYPES = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64", "error_code": "int16"}


def schema(api: Api) -> dict[str, Any]:
    least, most = SERVED[api]
    versions = {}
    for version in range(least, most + 1):
        request, response = load_request_schema(api, version), load_response_schema(api, version)
        versions[str(version)] = {
            "flexible": request.__flexible__,
            "flexible_answer": response.__flexible__,
            "flexible_answer_header": response.__header_schema__.__flexible__,
            "request": _fields(request),
            "response": _fields(response),
        }
    return {"api_key": int(api), "versions": versions}


def _fields(entity: Any) -> list[list[Any]]:
    return [_field(each) for each in fields(entity)]


def _field(field: Field[Any]) -> list[Any]:
    kind, nullable = _without_none(field.type)
    if get_origin(kind) is tuple:
        item, item_nullable = _without_none(get_args(kind)[0])
        nullable = nullable or item_nullable  # kio marks a nullable array of primitives at its items
        kind = ["array", _type(field, item)]
    else:
        kind = _type(field, kind)
    described = [field.name, kind, nullable, field.metadata.get("tag")]
    return described if field.default is MISSING else [*described, _plain(field.default)]


def _type(field: Field[Any], kind: Any) -> Any:
    if is_dataclass(kind):
        return _fields(kind)
    name = field.metadata["kafka_type"]
    return WIRE_TYPES.get(name, name)


def _without_none(kind: Any) -> tuple[Any, bool]:
    parts = get_args(kind)
    if NoneType in parts and get_origin(kind) is not tuple:
        return next(part for part in parts if part is not NoneType), True
    return kind, False


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return value // timedelta(milliseconds=1)
        case datetime():
            raise ValueError(f"a time as a default: {value}")
        case bytes():
            return value.decode()
        case UUID():
            return None if value.int == 0 else str(value)
        case tuple():
            return [_plain(item) for item in value]
        case _ if is_dataclass(value):
            return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        case bool() | None | str() | float():
            return value
        case _:
            return int(value)


def files() -> Iterator[tuple[Path, str]]:
    for api in Api:
        yield FOLDER / f"{api.name.lower()}.json", json.dumps(schema(api), separators=(",", ":")) + "\n"


def main() -> None:
    for path, content in files():
        path.write_text(content)


if __name__ == "__main__":
    main()
