"""How one test of a foreign suite ended."""

from dataclasses import dataclass
from typing import Literal

Result = Literal["passed", "failed", "skipped", "timed out"]


@dataclass(frozen=True)
class Outcome:
    """What a test said: its result, how long it took, and the end of what it printed."""

    name: str
    result: Result
    seconds: float
    output: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.result} ({self.seconds:.1f} s)"


def tail(text: str, lines: int = 40) -> str:
    """The last lines of a text, without the colours meant for a terminal."""
    return "\n".join(without_colours(text).splitlines()[-lines:])


def without_colours(text: str) -> str:
    """The text without escape sequences of the form ESC [ numbers m."""
    parts = text.split("\033[")
    return parts[0] + "".join(part.split("m", 1)[-1] for part in parts[1:])
