"""A view: a keyed result that a function keeps up to date in a store."""

from __future__ import annotations

from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

from runnel.graph.body import Function
from runnel.graph.inputs import Input, Keyed
from runnel.graph.on_error import STOP


@dataclass(eq=False)
class View(Keyed):
    """Late rows go to the topic `<name>.late`. `on_error` is for rows on which the body raises."""

    name: str
    inputs: tuple[Input, ...]
    body: Function
    key: tuple[str, ...]
    on_error: str = STOP

    def __post_init__(self) -> None:
        update_wrapper(self, self.body, updated=())

    def __call__(self, *frames: Any) -> Any:
        return self.body(*frames)

    def __str__(self) -> str:
        return f'view "{self.name}"'
