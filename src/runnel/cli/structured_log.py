"""The log of a running program on stderr: a line for people, or a JSON object for machines."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from runnel.cli.values import printable

EXTRAS = ("progress", "capture", "alert")  # what a message may bring as values, beside its words


class Lines(logging.Formatter):
    """time level where: message"""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_time(record)} {record.levelname} {record.name}: {printable(record.getMessage())}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {"time": _time(record), "level": record.levelname, "logger": record.name}
        facts["message"] = record.getMessage()
        facts |= {name: getattr(record, name) for name in EXTRAS if hasattr(record, name)}
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts)


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def log_to_stderr(*, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
