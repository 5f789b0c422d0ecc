"""What our tables and triggers are called: all begin with `_runnel_<capture>_`, so that nothing is left behind."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "_runnel_"


def quoted_name(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def quoted_text(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


@dataclass(frozen=True)
class Names:
    """The names as SQL has them, in quotes."""

    capture: str

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{self.capture}_"

    @property
    def log(self) -> str:
        return quoted_name(f"{self.prefix}log")

    @property
    def shapes(self) -> str:
        return quoted_name(f"{self.prefix}shapes")

    def noted(self, shape: int) -> str:
        return quoted_name(f"{self.prefix}noted_{shape}")

    def noted_index(self, shape: int, number: int) -> str:
        return quoted_name(f"{self.prefix}noted_{shape}_{number}")

    def trigger(self, shape: int, what: str) -> str:
        return quoted_name(f"{self.prefix}{shape}_{what}")
