"""The configurations of Apache Kafka as its own classes define them: the source of our catalogue.

`python -m tests.interop.config_names` writes `src/runnel/broker/configs/kafka.json` again; a test compares the two.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.kafka_distribution import java_command, java_environment

PROGRAM = Path(__file__).parent / "kafka" / "ConfigNames.java"
CATALOGUE = Path(__file__).parents[2] / "src" / "runnel" / "broker" / "configs" / "kafka.json"

RANGE = re.compile(r"\[(?P<least>[^,\]]+),\.\.\.(?:,(?P<most>[^\]]+))?\](?: or (?P<other>-?\d+))?")
CHOICES = re.compile(r"(?P<any_case>\(case insensitive\) )?\[(?P<choices>\w+(?:, \w+)*)\]")
# Rules that are no range and no list of words; they matter to nothing that we honour.
OTHER_RULES = {
    "",
    "non-empty list",
    "non-empty string",
    "non-null string",
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    "[latest, earliest, by_duration:PnDTnHnMn.nS]",
}


def kafka_configs() -> dict[str, dict[str, dict[str, Any]]]:
    """By kind (broker, topic, group, client-metrics) and name."""
    command = java_command(str(PROGRAM))
    run = subprocess.run(command, env=java_environment(), capture_output=True, text=True, check=True)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for line in run.stdout.splitlines():
        kind, name, *facts = line.split("\t")
        found.setdefault(kind, {})[name] = described(*facts)
    return {kind: dict(sorted(configs.items())) for kind, configs in found.items()}


def described(type_: str, default: str, rule: str, mode: str, internal: str, synonyms: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": type_, "default": None if default == "<null>" else default}
    facts |= validity(rule, float if type_ == "DOUBLE" else int)
    if mode:
        facts["mode"] = mode
    if internal:
        facts["internal"] = True
    if synonyms:
        facts["synonyms"] = synonyms.split(",")
    return facts


def validity(rule: str, number: Any) -> dict[str, Any]:
    if found := RANGE.fullmatch(rule):
        ends = {end: number(found[end]) for end in ("least", "most") if found[end] is not None}
        return ends | ({"or": number(found["other"])} if found["other"] else {})
    if found := CHOICES.fullmatch(rule):
        return {"choices": found["choices"].split(", ")} | ({"any_case": True} if found["any_case"] else {})
    if rule not in OTHER_RULES:
        raise ValueError(f"Kafka has a rule that is not understood: {rule}")
    return {}


def as_text(configs: dict[str, dict[str, dict[str, Any]]]) -> str:
    """One line for each configuration."""
    kinds = []
    for kind, named in configs.items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in named.items())
        kinds.append(f"{json.dumps(kind)}: {{\n{lines}\n}}")
    return "{" + ",\n".join(kinds) + "}\n"


if __name__ == "__main__":
    CATALOGUE.write_text(as_text(kafka_configs()))
    print(f"wrote {CATALOGUE}")
