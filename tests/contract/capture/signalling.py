"""Signals to a capture, written by any client of Kafka's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

from runnel.capture.signals import signals_topic


def signal(bootstrap: str, name: str, kind: str, data: Mapping[str, Any] | None = None) -> None:
    signal_text(bootstrap, name, json.dumps({"id": "1", "type": kind, "data": dict(data or {})}))


def signal_text(bootstrap: str, name: str, value: str, key: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(signals_topic(name), value.encode(), (key or name).encode())
    assert producer.flush(60) == 0
