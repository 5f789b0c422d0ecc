"""Java is asked to collect when what it takes for long-lived has grown; that it does is tested in tests/pipeline."""

from types import SimpleNamespace
from typing import Any

import pytest

from runnel.pipeline.old_generation import GROWN, MEGABYTE, MOST, PAUSE, OldGeneration


class Pool:
    """As Java tells of a part of its memory; `left` is None where nothing is collected."""

    def __init__(self, used: int, left: int | None, *, has_threshold: bool = True) -> None:
        self.used, self.left, self.has_threshold = used, left, has_threshold

    def getUsage(self) -> Any:  # noqa: N802
        return SimpleNamespace(getUsed=lambda: self.used)

    def getCollectionUsage(self) -> Any:  # noqa: N802
        return None if self.left is None else SimpleNamespace(getUsed=lambda: self.left)

    def isUsageThresholdSupported(self) -> bool:  # noqa: N802
        return self.has_threshold


class Java:
    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[float] = []
        self.old = Pool(60 * MEGABYTE, 60 * MEGABYTE)
        self.eden = Pool(0, 0, has_threshold=False)
        self.code = Pool(0, None)
        factory = SimpleNamespace(getMemoryPoolMXBeans=lambda: [self.code, self.eden, self.old])
        system = SimpleNamespace(gc=self._collect)
        lang = SimpleNamespace(System=system, management=SimpleNamespace(ManagementFactory=factory))
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=lang))

    def _collect(self) -> None:
        self.asked.append(self.now)
        self.old.used = self.old.left = 60 * MEGABYTE


@pytest.fixture
def java() -> Java:
    return Java()


@pytest.fixture
def old(java: Java) -> OldGeneration:
    made: Any = OldGeneration(java, lambda: java.now)  # type: ignore[arg-type]
    java.now = PAUSE
    return made


def test_it_is_collected_when_it_has_grown(java: Java, old: OldGeneration) -> None:
    java.old.used += GROWN
    old.look()
    assert java.asked == [PAUSE]


def test_it_is_left_alone_while_it_has_hardly_grown(java: Java, old: OldGeneration) -> None:
    java.old.used += GROWN - 1
    old.look()
    assert java.asked == []


def test_what_is_new_or_code_does_not_count(java: Java, old: OldGeneration) -> None:
    java.eden.used = java.code.used = 2 * GROWN
    old.look()
    assert java.asked == []


def test_a_start_is_not_held_up(java: Java) -> None:
    java.now = 1000.0
    old = OldGeneration(java, lambda: java.now)  # type: ignore[arg-type]
    java.old.left = 0  # it was never collected
    old.look()
    assert java.asked == []
    java.now += PAUSE
    old.look()
    assert java.asked == [1000.0 + PAUSE]


def test_one_that_grows_fast_is_collected_once_in_a_while(java: Java, old: OldGeneration) -> None:
    for _ in range(3):
        java.old.used += GROWN
        old.look()
        java.now += PAUSE / 2
    assert java.asked == [PAUSE, 2 * PAUSE]


def test_one_so_large_that_a_collection_would_take_long_is_left_to_java(java: Java, old: OldGeneration) -> None:
    java.old.used = MOST + 1
    old.look()
    assert java.asked == []
    java.old.used = MOST
    old.look()
    assert java.asked == [PAUSE]
