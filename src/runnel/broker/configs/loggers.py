"""The broker's loggers and their levels, under Kafka's names for levels. They are the process's own, until it ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from runnel.errors import InvalidSetting

ROOT = "runnel"
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}


def loggers() -> Iterator[tuple[str, str]]:
    """The name and the level of each logger of ours."""
    for name in [ROOT, *sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{ROOT}."))]:
        yield name, level_name(logging.getLogger(name).getEffectiveLevel())


def level_name(level: int) -> str:
    """Kafka's name for a level of Python's: the next lower one for those in between."""
    return next((name for name, least in LEVELS.items() if level >= least), "TRACE")


def check_logger(name: str, level: str | None) -> None:
    """InvalidSetting if there is no such logger or level; None stands for the level of the logger above."""
    if name not in dict(loggers()):
        raise InvalidSetting(name, level, f"a logger of this broker, such as {ROOT}")
    if level is not None and level not in LEVELS:
        raise InvalidSetting(name, level, f"one of {', '.join(LEVELS)}")


def set_level(name: str, level: str | None) -> None:
    logging.getLogger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])
