"""Makes Arrow light, for a process that writes records and has no use for DataFrames: half of a capture's memory.

pyarrow loads pandas when it makes its first array or scalar of Python's values, only to know pandas' objects if it
meets any. If there is no pandas then, it does without, and looks for it again when somebody asks for a DataFrame. And
Arrow's own allocator keeps what it once had, where the system's gives back what is large.
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


def make_arrow_light() -> None:
    """To be called before the first array is made, and before there are other threads."""
    pa.set_memory_pool(pa.system_memory_pool())
    if PANDAS in sys.modules:
        return
    nowhere = _Nowhere()
    sys.meta_path.insert(0, nowhere)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(nowhere)
