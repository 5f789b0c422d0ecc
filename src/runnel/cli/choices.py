"""What leaves a database, as people type it at `runnel capture run`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import typer

from runnel.capture.conditions import parse
from runnel.capture.errors import InvalidCondition
from runnel.capture.options import WAYS
from runnel.capture.selection import Hashed, Hiding, RowFilter, column_expression, masked, table_expression


def hidden(masks: Iterable[str], hashes: Iterable[str], salt_env: str | None) -> dict[str, Hiding]:
    found: dict[str, Hiding] = dict(map(masked, masks))
    chosen = list(hashes)
    if chosen:
        hashing = Hashed(_salt(salt_env))
        found |= {column_expression(each): hashing for each in chosen}
    return found


def keys(given: Iterable[str]) -> dict[str, list[str]]:
    return {table_expression(name): columns.split(",") for name, _, columns in (each.rpartition(":") for each in given)}


def conditions(given: Iterable[str]) -> Mapping[str, RowFilter]:
    """Several for one table must all be true."""
    texts: dict[str, list[str]] = {}
    for each in given:
        name, _, text = each.partition(":")
        texts.setdefault(table_expression(name), []).append(text)
    return {name: parse(" and ".join(f"({text})" for text in found)) for name, found in texts.items()}


def own(*, in_progress: Path | None, **given: str | None) -> dict[str, str]:
    """What only some kinds of databases have, without what was not given."""
    told = {**given, "in_progress": None if in_progress is None else str(in_progress)}
    return {option: text for option, text in told.items() if text is not None}


def _salt(name: str | None) -> str:
    if name is None:
        what = "a hash needs a salt: name the environment variable that holds it."
        raise typer.BadParameter(what, param_hint="'--salt-env'")
    salt = os.environ.get(name, "")
    if not salt:
        raise typer.BadParameter(f"the environment variable {name} is not set, or empty.", param_hint="'--salt-env'")
    return salt


# --- callbacks of typer's


def checked_keys(given: list[str]) -> list[str]:
    for each in given:
        name, separator, columns = each.rpartition(":")
        if not (name and separator and columns):
            raise typer.BadParameter(f"'{each}' is no key: expected TABLE:COLUMN,COLUMN.")
    return given


def checked_masks(given: list[str]) -> list[str]:
    for each in given:
        name, separator, length = each.partition(":")
        if not name or (separator and not (length.isascii() and length.isdigit())):
            raise typer.BadParameter(f"'{each}' is no mask: expected TABLE.COLUMN, or TABLE.COLUMN:LENGTH.")
    return given


def checked_conditions(given: list[str]) -> list[str]:
    for each in given:
        name, separator, text = each.partition(":")
        if not (name and separator):
            raise typer.BadParameter(f"'{each}' is no condition on a table: expected TABLE:CONDITION.")
        try:
            parse(text)
        except InvalidCondition as error:
            raise typer.BadParameter(f"{error.what}; {error.hint}.") from None
    return given


def checked_mode(given: str) -> str:
    return _one_of(given, WAYS["snapshot"], "read the tables")


def checked_binary(given: str) -> str:
    return _one_of(given, WAYS["binary"], "write bytes")


def checked_decimals(given: str | None) -> str | None:
    return None if given is None else _one_of(given, WAYS["decimals"], "write decimals")


def checked_times(given: str | None) -> str | None:
    return None if given is None else _one_of(given, WAYS["times"], "write times")


def _one_of(given: str, known: Iterable[str], what: str) -> str:
    if given not in known:
        raise typer.BadParameter(f"'{given}' is no way to {what}: expected {', '.join(known)}.")
    return given
