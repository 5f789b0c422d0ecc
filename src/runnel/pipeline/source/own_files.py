"""What an input of a query keeps beside the query's checkpoint, and how it travels to the processes of Spark."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Self

from runnel.pipeline.checkpoint_path import checkpoint_in

OPTION = "spec.secret"  # there are passwords in it: Spark shows no option of such a name, in plans, logs or its pages


class OwnFiles:
    """For values that describe an input: `number` is its place among the inputs, `run` is another one for each run."""

    number: int
    directory: str
    run: str

    @property
    def path(self) -> Path:
        return Path(self.directory)

    @property
    def checkpoint(self) -> Path:
        """Spark's own, of the query."""
        return checkpoint_in(self.path)

    @property
    def start_file(self) -> Path:
        """Where the source keeps what it began with."""
        return self.path / f"start-{self.number}.json"

    @property
    def agreement(self) -> Path:
        """Where the sources agree that are made of this one input, in one run: one before it may not have ended yet."""
        return self.path / "agreements" / f"{self.number}-{self.run}"

    def to_text(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        spec = pickle.loads(base64.b64decode(text))
        assert isinstance(spec, cls)
        return spec
