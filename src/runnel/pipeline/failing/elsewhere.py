"""Failures that no row is to blame for: memory that ran out, state files that cannot be read, a Spark that was ended.

To look for a row would take long, and end with a word about the function instead of what Spark said.
"""

from __future__ import annotations

import re

from runnel.pipeline.errors import FunctionFailed, Unexplained
from runnel.pipeline.failure import DATA

# Spark's own names, and words where it has none.
ELSEWHERE = re.compile(
    r"java\.lang\.OutOfMemoryError|[A-Z]_OUT_OF_MEMORY\b|UNABLE_TO_ACQUIRE_MEMORY|\[INTERNAL_ERROR_(?:MEMORY|EXECUTOR)\b"
    r"|spark\.driver\.maxResultSize|Not enough memory to build and broadcast"
    r"|\[(?:CANNOT_(?:LOAD|WRITE)_STATE_STORE|STATE_STORE_|CHECKPOINT_|STREAMING_CHECKPOINT_|CANNOT_LOAD_CHECKPOINT_)"
    r"|SparkContext (?:was|has been) shut ?down"
)


def may_come_from_a_row(failure: Unexplained) -> bool:
    return not ELSEWHERE.search(failure.text)


def is_of_the_function(failure: FunctionFailed | Unexplained) -> bool:
    """Whether it is known to be: it has a line of the user's, or is a value that cannot be computed with."""
    return isinstance(failure, FunctionFailed) or DATA.search(failure.text) is not None
