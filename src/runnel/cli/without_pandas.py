"""Keeps pandas out of a process that has no use for it: it would be a third of a capture's memory.

pyarrow loads pandas when it makes its first array or scalar of Python's values, only to know pandas' objects if it
meets any. If there is no pandas then, it does without, and looks for it again when somebody asks for a DataFrame.
"""

from __future__ import annotations

import sys

import pyarrow as pa

PANDAS = "pandas"


class _Nowhere:
    """A finder of modules, before all others: there is no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == PANDAS:
            raise ModuleNotFoundError(f"{PANDAS} is kept out", name=PANDAS)


def keep_pandas_out() -> None:
    """To be called before the first array is made, and before there are other threads."""
    if PANDAS in sys.modules:
        return
    nowhere = _Nowhere()
    sys.meta_path.insert(0, nowhere)  # type: ignore[arg-type]
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(nowhere)  # type: ignore[arg-type]
