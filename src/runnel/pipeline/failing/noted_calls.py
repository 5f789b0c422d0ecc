"""Python functions that do not raise in a trial, but note it: what was raised, in which of their calls.

A function that raises ends its process, and to start one takes longer than all else of a trial. Those that are called
row by row (`udf`) can be spared that: they return null, and the trial has failed if there is a note. What is called
with more than one row (pandas, Arrow) raises as ever.
"""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from pyspark import Accumulator, AccumulatorParam, SparkContext
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from runnel.pipeline.errors import FunctionFailed
from runnel.pipeline.failure import told

ROW_BY_ROW = (PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF)
MOST_SAID = 500

Function: TypeAlias = Callable[..., Any]

_patching = threading.Lock()


class Note(NamedTuple):
    """`function` numbers those of the body, in the order in which it uses them; `call` the calls, from 0."""

    function: int
    call: int
    said: str


class Notes:
    """Of one trial after the other. `home` is told where no line of the user's is known."""

    def __init__(self, context: SparkContext, home: str) -> None:
        self._noted: Accumulator[list[Note]] = context.accumulator([], _Together())
        self._home = home
        self._functions = 0

    def taken(self) -> list[Note]:
        """Those of the last trial."""
        found, self._noted.value = self._noted.value, []
        return sorted(found)

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Functions that this thread puts into a plan, inside of the block, note what they raise."""
        own = threading.get_ident()
        with _patching:
            original = UserDefinedFunction.__dict__["_judf"]

            def judf(function: UserDefinedFunction) -> Any:
                if threading.get_ident() != own or function.evalType not in ROW_BY_ROW:
                    return original.fget(function)
                return function._create_judf(self._noting(function.func), include_transpiled=False)

            UserDefinedFunction._judf = property(judf)  # type: ignore[assignment,method-assign]
            try:
                yield
            finally:
                UserDefinedFunction._judf = original  # type: ignore[method-assign]

    def _noting(self, function: Function) -> Function:
        number, noted, home = self._functions, self._noted, self._home
        self._functions += 1
        calls = 0  # of one task: each has its own copy

        @functools.wraps(function)
        def noting(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            try:
                return function(*arguments, **named)
            except Exception:
                noted.add([Note(number, calls - 1, _said(traceback.format_exc(), home))])
                return None

        return noting


class _Together(AccumulatorParam[list[Note]]):
    def zero(self, value: list[Note]) -> list[Note]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[Note], value2: list[Note]) -> list[Note]:  # noqa: N802
        value1.extend(value2)
        return value1


def _said(raised: str, home: str) -> str:
    found = told(RuntimeError(raised))
    what = found.what[:MOST_SAID]
    return what if isinstance(found, FunctionFailed) else f"{what} ({home})"
