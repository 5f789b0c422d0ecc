"""A setting's value: its kind, the text it is written as, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, field
from typing import Any

from runnel.errors import InvalidSetting
from runnel.settings import INT32_MAX, INT64_MAX, plain_number, whole_number


def number(default: int | None, least: int | None = None, most: int = INT64_MAX) -> Any:
    """A whole number; None stands for "not set" where None is the default."""

    def check(name: str, value: Any) -> Any:
        if value is None and default is None:
            return None
        if isinstance(value, str):
            value = _whole(name, value)
        low = -most - 1 if least is None else least
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= most:
            raise InvalidSetting(name, value, _range(least, most))
        return value

    return field(default=default, metadata={"check": check})


def share(default: float) -> Any:
    """A part of a whole, from 0 to 1."""

    def check(name: str, value: Any) -> float:
        try:
            part = plain_number(value) if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            raise InvalidSetting(name, value, "a number from 0 to 1") from None
        if not 0 <= part <= 1:
            raise InvalidSetting(name, value, "a number from 0 to 1")
        return part

    return field(default=default, metadata={"check": check})


def flag(default: bool) -> Any:
    """True or false."""
    return field(default=default, metadata={"check": _flag})


def text(default: str | None, choices: tuple[str, ...] = ()) -> Any:
    def check(name: str, value: Any) -> Any:
        if value is None and default is None:
            return None
        if not isinstance(value, str) or (choices and value not in choices):
            raise InvalidSetting(name, value, f"one of {', '.join(choices)}" if choices else "text")
        return value

    return field(default=default, metadata={"check": check})


def words(default: tuple[str, ...], choices: tuple[str, ...] = ()) -> Any:
    """Words with commas between them."""

    def check(name: str, value: Any) -> Any:
        several = split(value) if isinstance(value, str) else tuple(value)
        for word in several:
            if choices and word not in choices:
                raise InvalidSetting(name, word, f"one of {', '.join(choices)}")
        return several

    return field(default=default, metadata={"check": check})


def parsed(default: Any, parse: Callable[[str, Any], Any]) -> Any:
    """Whatever `parse` makes of a name and a text, or of a value that it made."""
    return field(default=default, metadata={"check": parse})


def split(value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


def listed(value: str) -> tuple[str, ...]:
    """The same as Kafka checks it: an empty text is an empty list, and what is empty between commas is there."""
    return tuple(word.strip() for word in value.split(",")) if value.strip() else ()


def config_name(declared: Field[Any]) -> str:
    """The name of a setting as Kafka writes it."""
    return declared.name.replace("_", ".")


def check_fields(instance: Any, declared: Mapping[str, Field[Any]]) -> None:
    """Replace each value by what its check makes of it; for a frozen dataclass's `__post_init__`."""
    for name, setting in declared.items():
        value = setting.metadata["check"](config_name(setting), getattr(instance, name))
        object.__setattr__(instance, name, value)


def as_text(value: Any) -> str | None:
    """A value as Kafka's tools show it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return str(value)


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InvalidSetting(name, value, "true or false")


def _whole(name: str, value: str) -> int:
    try:
        return whole_number(value)
    except ValueError:
        raise InvalidSetting(name, value, "a whole number") from None


def _range(least: int | None, most: int) -> str:
    if least is None:
        return "a whole number" if most == INT64_MAX else f"a whole number of at most {most:,}"
    if most in (INT32_MAX, INT64_MAX):
        return f"a whole number of at least {least:,}"
    return f"a whole number from {least:,} to {most:,}"
