"""What our tables and triggers are called: all begin with `_runnel_<capture>_`, so that nothing is left behind.

What follows tells whose they are: those of a capture "shop_app" begin as those of "shop" do. SQLite takes small and
capital letters for the same, so that two captures whose names differ in those alone would have the same tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PREFIX = "_runnel_"
OWN = {
    "table": re.compile(r"log|shapes|noted_\d+"),
    "trigger": re.compile(r"\d+_(insert|update|insert_before|update_before|delete)"),
}


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

    def has(self, kind: str, name: str) -> bool:
        """Whether a table or a trigger, by its plain name, is one of this capture's."""
        return name.startswith(self.prefix) and OWN[kind].fullmatch(name, len(self.prefix)) is not None

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
