"""How far a source has read: Spark writes it down before a batch runs, and asks for the same again in a repeat.

For each topic its id and the next offset of each partition; where partitions begin that were found on the way; how
long, in all, the source has been idle; and which of the query's inputs it is, because Spark numbers sources as the body
happens to use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runnel.client.metadata import Place


@dataclass(frozen=True)
class Offsets:
    input: int
    next: Mapping[Place, int]
    ids: Mapping[str, str]
    idle: int = 0  # milliseconds
    begin: Mapping[Place, int] = field(default_factory=dict)  # of partitions found on the way, where it is not 0

    def to_json(self) -> dict[str, Any]:
        """Sorted: Spark compares the text."""
        topics: dict[str, Any] = {}
        for topic, partition in sorted(self.next):
            known = topics.setdefault(topic, {"id": self.ids.get(topic, ""), "next": {}})
            known["next"][str(partition)] = self.next[topic, partition]
            if (topic, partition) in self.begin:
                known.setdefault("begin", {})[str(partition)] = self.begin[topic, partition]
        return {"input": self.input, "topics": topics, "idle": self.idle}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Offsets:
        topics = told["topics"]
        return cls(
            told["input"],
            {(name, int(partition)): at for name, each in topics.items() for partition, at in each["next"].items()},
            {name: each["id"] for name, each in topics.items()},
            told["idle"],
            {
                (name, int(partition)): at
                for name, each in topics.items()
                for partition, at in each.get("begin", {}).items()
            },
        )


@dataclass(frozen=True)
class Range:
    """Records of one partition that one task reads: from `start` to before `end`. `partitions` are those that the topic
    has in the batch: as many whenever it is repeated.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str
    partitions: int = 1

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """What lies between; a partition that is new is read from its beginning."""
    begin = {**end.begin, **start.next}
    partitions = Counter(topic for topic, _ in end.next)
    return [
        Range(*place, begin.get(place, 0), at, end.ids.get(place[0], ""), partitions[place[0]])
        for place, at in sorted(end.next.items())
        if at > begin.get(place, 0)
    ]
