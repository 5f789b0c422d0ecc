"""What `runnel groups watch` tells, and when: once when a partition comes near to loss, and again after it was well."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from typing import Any, NamedTuple

from runnel.cli.open_transactions import open_object
from runnel.client import Lag


class Alarm(NamedTuple):
    group: str
    lag: Lag


class Watch:
    """Remembers which partitions were near to loss when it last looked."""

    def __init__(self, alert: float) -> None:
        self._alert = alert
        self._near: set[tuple[str, str, int]] = set()

    def look(self, group: str, lags: Iterable[Lag]) -> list[Alarm]:
        """What has come near since the last look at this group."""
        near = {(group, each.topic, each.partition): each for each in lags if each.is_near_loss(self._alert)}
        new = [Alarm(group, each) for place, each in near.items() if place not in self._near]
        self._near = {place for place in self._near if place[0] != group} | near.keys()
        return new


def as_line(alarm: Alarm) -> str:
    lag = alarm.lag
    where = f'topic "{lag.topic}" partition {lag.partition}, lag {lag.lag:,}'
    if lag.lost:
        return f'group "{alarm.group}" has lost {lag.lost:,} {"record" if lag.lost == 1 else "records"}: {where}'
    used = f", {lag.used:.0%} of the retention used" if lag.used is not None else ""
    return f'group "{alarm.group}" is near to losing records: {where}{used}'


def as_object(group: str, lag: Lag, alert: float) -> dict[str, Any]:
    return {
        "group": group,
        "topic": lag.topic,
        "partition": lag.partition,
        "committed": lag.committed,
        "start": lag.start,
        "end": lag.end,
        "lag": lag.lag,
        "lost": lag.lost,
        "used_time": lag.used_time,
        "used_bytes": lag.used_bytes,
        "near_loss": lag.is_near_loss(alert),
        "stable": lag.stable,
        "held": lag.held,
        "held_by": None if lag.held_by is None else open_object(lag.held_by),
    }


def call(command: str, alarm: Alarm) -> int:
    """Run a command of the user's by the shell, which finds the alarm in its environment; its exit code."""
    lag = alarm.lag
    about = {
        "RUNNEL_GROUP": alarm.group,
        "RUNNEL_TOPIC": lag.topic,
        "RUNNEL_PARTITION": str(lag.partition),
        "RUNNEL_LAG": str(lag.lag),
        "RUNNEL_LOST": str(lag.lost),
        "RUNNEL_USED": "" if lag.used is None else f"{lag.used:.4f}",
    }
    return subprocess.run(command, shell=True, env=os.environ | about, check=False).returncode
