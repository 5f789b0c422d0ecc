"""Every configuration of Apache Kafka 4.3, and our own: type, default, range, when it may change, how we treat it.

Kafka's facts are in `kafka.json`, which `python -m tests.interop.config_names` writes from Kafka's own classes; what we
make of each is in `treatments.py`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from runnel.broker.configs import treatments
from runnel.broker.configs.values import listed, split
from runnel.errors import InvalidSetting
from runnel.settings import plain_number, whole_number

FACTS = Path(__file__).parent / "kafka.json"
BROKER, TOPIC, GROUP, CLIENT_METRICS = "broker", "topic", "group", "client-metrics"
LISTENER = "listener.name."  # what is set for one listener alone
LARGEST = {"SHORT": 2**15 - 1, "INT": 2**31 - 1, "LONG": 2**63 - 1}


class Type(IntEnum):
    """As on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Treatment(StrEnum):
    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Config:
    kind: str
    name: str
    type: Type
    default: str | None
    treatment: Treatment
    text: str  # what it does if it is honoured, otherwise why it is not
    least: float | None = None
    most: float | None = None
    other: float | None = None  # one value beside the range
    choices: tuple[str, ...] = ()
    any_case: bool = False
    mode: str = "read-only"  # or per-broker or cluster-wide, if a broker's can change at run time
    internal: bool = False
    synonyms: tuple[str, ...] = ()  # a topic's configuration has its default from these of the broker

    @property
    def is_sensitive(self) -> bool:
        return self.type is Type.PASSWORD

    @property
    def is_dynamic(self) -> bool:
        return self.mode != "read-only"

    @property
    def expected(self) -> str:
        """What may stand there."""
        if self._is_of_replicas:
            return "PARTITION:BROKER, several with commas between them, or *"
        if self.choices:
            several = "some of" if self.type is Type.LIST else "one of"
            return f"{several} {', '.join(self.choices)}"
        if self.type is Type.BOOLEAN:
            return "true or false"
        if self.type.name not in LARGEST and self.type is not Type.DOUBLE:
            return "text"
        number = "a number" if self.type is Type.DOUBLE else "a whole number"
        if self.least is None:
            return number
        reach = f"of at least {self.least:,}" if self.most is None else f"from {self.least:,} to {self.most:,}"
        return f"{number} {reach}" + (f", or {self.other:,}" if self.other is not None else "")

    def check(self, value: str) -> None:
        """InvalidSetting if this cannot stand there, or would be a promise that is not kept."""
        shown = "[hidden]" if self.is_sensitive else value
        if not self._is_valid(value):
            raise InvalidSetting(self.name, shown, self.expected)
        if self.treatment is Treatment.REFUSED and value != (self.default or ""):
            raise InvalidSetting(self.name, shown, f"it to be left out: {self.text}")
        needed, why = treatments.REFUSED_VALUES.get((self.kind, self.name), ("", ""))
        if needed and needed not in split(value):
            raise InvalidSetting(self.name, value, f"{needed}: {why}")

    @property
    def _is_of_replicas(self) -> bool:
        return self.kind == TOPIC and self.name.endswith(".throttled.replicas")

    def _is_valid(self, value: str) -> bool:
        if self.type is Type.BOOLEAN:
            return value.strip().lower() in ("true", "false")
        if self._is_of_replicas:
            return value.strip() == "*" or all(REPLICA.fullmatch(part) for part in listed(value))
        if self.choices:
            parts = listed(value) if self.type is Type.LIST else (value,)
            return len(set(parts)) == len(parts) and all(
                (part.upper() if self.any_case else part) in self.choices for part in parts
            )
        if self.type.name in LARGEST or self.type is Type.DOUBLE:
            return self._is_in_range(value)
        return True

    def _is_in_range(self, value: str) -> bool:
        try:
            number = plain_number(value) if self.type is Type.DOUBLE else whole_number(value)
        except ValueError:
            return False
        largest = LARGEST.get(self.type.name)
        if largest is not None and not -largest - 1 <= number <= largest:
            return False
        within = (self.least is None or self.least <= number) and (self.most is None or number <= self.most)
        return within or number == self.other


@cache
def configs(kind: str) -> Mapping[str, Config]:
    """All of a kind by name, in order."""
    return {name: _config(kind, name) for name in _facts()[kind]}


def find(kind: str, name: str, value: object = None) -> Config:
    """InvalidSetting, with the nearest name that exists, if there is none of this name."""
    known = _facts()[kind]
    if name in known:
        return _config(kind, name)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f", such as {near[0]}" if near else ""
    raise InvalidSetting(name, value, f"a {kind} configuration that Kafka knows{hint}")


def treat(name: str, value: str) -> str | None:
    """A notice if this setting of the broker is ignored, None if it is honoured; InvalidSetting if it is refused."""
    if name in treatments.BROKER:  # before the catalogue is read: a start should not wait for it
        return None
    if name.startswith(LISTENER):
        raise InvalidSetting(name, value, f"it to be left out: {_why_not_for_a_listener(name)}")
    config = find(BROKER, name, value)
    config.check(value)
    return f"setting {name} is ignored: {config.text}"


def _why_not_for_a_listener(name: str) -> str:
    """Kafka takes some settings for a listener alone: those of security, and a few more."""
    _, _, setting = name.removeprefix(LISTENER).partition(".")
    if setting not in _facts()[BROKER] or _treatment(BROKER, setting)[1] == treatments.NO_SECURITY:
        return treatments.NO_SECURITY
    return f"{setting} is the same for all listeners"


@cache
def _facts() -> dict[str, dict[str, dict[str, Any]]]:
    facts: dict[str, dict[str, dict[str, Any]]] = json.loads(FACTS.read_bytes())
    facts[BROKER] |= OWN_SETTINGS
    return facts


@cache
def _config(kind: str, name: str) -> Config:
    facts = _facts()[kind][name]
    treatment, text = _treatment(kind, name)
    return Config(
        kind,
        name,
        Type[facts["type"]],
        OWN_DEFAULTS.get((kind, name), facts["default"]),
        treatment,
        text,
        least=OWN_LEAST.get((kind, name), facts.get("least")),
        most=facts.get("most"),
        other=facts.get("or"),
        choices=tuple(facts.get("choices", ())),
        any_case=facts.get("any_case", False),
        mode=_mode(kind, name, facts),
        internal=facts.get("internal", False),
        synonyms=tuple(facts.get("synonyms", ())),
    )


OWN_SETTINGS: dict[str, dict[str, Any]] = {
    "runnel.replication.factor.lenient": {"type": "BOOLEAN", "default": "false"},
    "runnel.low.disk.bytes": {"type": "LONG", "default": "67108864", "least": 0},
    "runnel.tail.cache.bytes": {"type": "LONG", "default": "67108864", "least": 0},
    "runnel.open.files": {"type": "LONG", "default": "512", "least": 8},
    "runnel.sync.workers": {"type": "INT", "default": "8", "least": 1, "most": 64},
    "runnel.retry.after.failure.ms": {"type": "LONG", "default": "1000", "least": 0},
    "runnel.cleaner.cpu.percent": {"type": "INT", "default": "25", "least": 1, "most": 100},
}
# Where we differ: we listen on the loopback interface unless we are told otherwise, have an id, need no controller, and
# have one replica of everything.
OWN_DEFAULTS: dict[tuple[str, str], str | None] = {
    (BROKER, "listeners"): "PLAINTEXT://127.0.0.1:9092",
    (BROKER, "node.id"): "1",
    (BROKER, "controller.listener.names"): "",
    (BROKER, "process.roles"): "broker,controller",
    (BROKER, "group.coordinator.rebalance.protocols"): "classic,consumer",
    (BROKER, "offsets.topic.num.partitions"): "1",
    (BROKER, "offsets.topic.replication.factor"): "1",
    (BROKER, "transaction.state.log.replication.factor"): "1",
    (BROKER, "transaction.state.log.min.isr"): "1",
    (BROKER, "share.coordinator.state.topic.replication.factor"): "1",
    (BROKER, "share.coordinator.state.topic.min.isr"): "1",
}
TAKEN_AT_THE_START = ("listeners", "listener.security.protocol.map")
REPLICA = re.compile(r"([0-9]+:[0-9]+)?")  # Kafka takes an empty entry
OWN_LEAST = {(TOPIC, "internal.segment.bytes"): 1024}


def _mode(kind: str, name: str, facts: dict[str, Any]) -> str:
    if kind == BROKER and name in TAKEN_AT_THE_START:
        return "read-only"
    mode: str = facts.get("mode", "read-only")
    return mode if kind == BROKER else "cluster-wide"


@cache
def _rules(kind: str) -> dict[str, tuple[Treatment, str]]:
    rules = {rule: (Treatment.IGNORED, why) for rule, why in treatments.IGNORED[kind].items()}
    return rules | {rule: (Treatment.REFUSED, why) for rule, why in treatments.REFUSED[kind].items()}


def _treatment(kind: str, name: str) -> tuple[Treatment, str]:
    honoured = treatments.HONOURED[kind].get(name)
    if honoured is not None:
        return Treatment.HONOURED, honoured
    rules = _rules(kind)
    found = treatments.rule_for(rules, name)
    if found is None:
        raise LookupError(f"nothing says how the {kind} configuration {name} is treated")
    return rules[found]
