"""Names of apps, topics, views and columns."""

from __future__ import annotations

import re

from runnel.graph.errors import InvalidDeclaration

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,240}")
SIDES = LATE, REJECTED = (".late", ".rejected")
MARKER = "runnel.{app}.{output}.marker"
REBUILT = ".rebuild"  # behind the name of an output whose copy is made
LONGEST_TOPIC = 249  # characters; Kafka's
LONGEST_TABLE = 63
TAKEN_BY_STORES = ("runnel_", "sqlite_")


def is_ours(topic: str) -> bool:
    """Whether Runnel writes it beside an output: a pattern must not read back what was put aside."""
    return topic.endswith(SIDES) or (topic.startswith("runnel.") and topic.endswith(".marker"))


def fits(pattern: str, topic: str) -> bool:
    """Whether a stream with this pattern reads the topic."""
    return re.fullmatch(pattern, topic) is not None and not is_ours(topic)


def checked_name(name: object, where: str, argument: str = "name") -> str:
    """A name that a topic, a directory and a table can have: 240 characters, since `.rejected` may follow."""
    if not isinstance(name, str) or not TOPIC.fullmatch(name) or name in (".", ".."):
        raise InvalidDeclaration(
            where,
            argument,
            f"{name!r} cannot be a topic's name",
            hint="use up to 240 of the characters a-z A-Z 0-9 . _ -",
        )
    return name


def checked_output(name: object, where: str) -> str:
    found = checked_name(name, where)
    for side in SIDES:
        if found.endswith(side):
            raise InvalidDeclaration(
                where,
                "name",
                f"{name!r} ends with {side}, which is where rows of {found.removesuffix(side)} are put aside",
                hint="choose another name",
            )
    return found


def check_together(app: str, output: str, where: str) -> None:
    """The topic of an output's markers is called by both names, and so is that of its copy."""
    together, most = len(app) + len(output), LONGEST_TOPIC - len(MARKER.format(app="", output=REBUILT))
    if together > most:
        what = f"has {together} characters together with that of the app, and {most} is the most"
        raise InvalidDeclaration(where, "name", what, hint="give the app or the output a shorter one")


def check_table_name(name: str, where: str) -> None:
    """A view is a table under its name, in any store: PostgreSQL cuts longer names off."""
    if len(name) > LONGEST_TABLE:
        hint = "choose a shorter one: it is the name of a table"
        raise InvalidDeclaration(
            where, "name", f"has {len(name)} characters, and {LONGEST_TABLE} is the most", hint=hint
        )
    if name.lower().startswith(TAKEN_BY_STORES):
        what = f"begins with {' or '.join(TAKEN_BY_STORES)}, which is taken"
        raise InvalidDeclaration(where, "name", what, hint="choose another name")


def key_columns(key: object, where: str, argument: str = "key") -> tuple[str, ...]:
    """One column's name, or a list of them."""
    columns = [key] if isinstance(key, str) else key
    if (
        not isinstance(columns, list | tuple)
        or not columns
        or not all(isinstance(each, str) and each for each in columns)
    ):
        raise InvalidDeclaration(
            where, argument, f"is {key!r}", hint='name the columns that tell rows apart, such as key=["window", "page"]'
        )
    if len(set(columns)) < len(columns):
        raise InvalidDeclaration(where, argument, f"{columns!r} names a column twice", hint="name each column once")
    return tuple(columns)
