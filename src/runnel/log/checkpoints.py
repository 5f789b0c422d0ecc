"""Offsets of all partitions in one small text file, as Kafka writes them.

0                          the version
2                          how many lines follow
orders 0 1042              topic, partition, offset
orders 1 977
"""

from __future__ import annotations

from typing import NamedTuple

from runnel.files import Files, read_file, replace_file
from runnel.settings import INT64_MAX

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEAN_OFFSETS = "cleaner-offset-checkpoint"
HORIZONS = "cleaner-horizon-checkpoint"  # ours: a time in the place of an offset


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def from_name(cls, name: str) -> TopicPartition | None:
        """From a folder's name; None if it is no partition's."""
        topic, dash, number = name.rpartition("-")
        ours = dash and topic and number.isdecimal() and number.isascii() and str(int(number)) == number
        return cls(topic, int(number)) if ours else None


def write_checkpoint(files: Files, path: str, offsets: dict[TopicPartition, int]) -> None:
    lines = ["0", str(len(offsets))]
    lines += (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    replace_file(files, path, ("\n".join(lines) + "\n").encode())


def read_checkpoint(files: Files, path: str) -> dict[TopicPartition, int]:
    """Empty if there is none; ValueError if it is not what `write_checkpoint` makes."""
    if not files.exists(path):
        return {}
    content = read_file(files, path).decode("ascii")
    version, count, *lines = content.splitlines()
    if version != "0" or int(count) != len(lines) or not content.endswith("\n"):
        raise ValueError(f"{path}: version {version}, {len(lines)} of {count} lines")
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        topic, partition, offset = line.split()
        if not 0 <= int(offset) <= INT64_MAX:
            raise ValueError(f"{path}: offset {offset}")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets
