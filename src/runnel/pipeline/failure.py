"""Why a query failed, in the words of whoever knows, and whether it may go on later.

An error of ours says both itself, also where it was raised in one of Spark's Python processes: Spark wraps it into
pages of text, in which it has its name. What the disk says, or the death of a process, is known by its words.
Everything else is told by the last line of the user's own traceback, or by the line that asked Spark for what a value
does not allow, and ends the query.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from runnel.errors import Permanent, RunnelError, Transient
from runnel.pipeline.errors import DiskFull, FunctionFailed, ProcessDied, StateChanged, Unexplained

RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*): (.+)$", re.MULTILINE)
OURS = re.compile(r"^(?:[\w.]+: )*(runnel(?:\.\w+)+)\.([A-Z]\w+): (.+)$", re.MULTILINE)
PLAN = "\n=== Streaming Query ==="  # and pages of it below
ENDED = re.compile(r"terminated with exception: (.*?)(?: SQLSTATE: \w+)?$", re.DOTALL)
FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
FULL = re.compile(r"No space left on device|Disk quota exceeded|database or disk is full")
# Spark's names for state that is of another body.
STATE = re.compile(
    r"\[((?:STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_\w*MISMATCH)"
    r"(?:\.\w+)?)\]"
)
# Each is found where a process of Spark's did not live to answer: a worker, one of a cluster, the one that plans for a
# source, of which Java knows no more than that its connection has ended.
DIED = (
    (re.compile("Python worker exited unexpectedly|Python worker failed to connect back"), "a Python worker"),
    (re.compile("ExecutorLostFailure|FetchFailed"), "an executor"),
    (re.compile(r"java\.\S+Exception.*(?:\n\s+at .*){1,40}PythonStreamingSourceRunner"), "a planner"),
)
# A cast, a division, an overflow: SQL's class 22. What to set to have wrong values instead is not worth repeating.
DATA = re.compile(r"(\[[A-Z][A-Z_.]+\] [^\n]*?)(?: If necessary set [^\n]*?)?\s*SQLSTATE: 22\w{3}")
CALLED = re.compile(r"was called from\s*\n\s*(\S.*?):(\d+)\s*$", re.MULTILINE)
NOT_THE_USER_S = ("/pyspark/", "/py4j/", "/site-packages/", f"{Path(__file__).parents[1]}/", "<frozen")


def told(failure: BaseException) -> RunnelError:
    """The failure as an error of ours: Transient, if the query may go on later by itself."""
    if isinstance(failure, RunnelError):
        return failure
    text = str(failure).partition(PLAN)[0]
    whole = "\n".join(_causes(failure))
    if ours := OURS.findall(whole):
        return _ours(*ours[-1])
    if found := FULL.search(whole):
        return DiskFull(found[0])
    for words, which in DIED:
        if words.search(whole):
            return ProcessDied(which)
    if found := STATE.search(whole):
        return StateChanged(found[1])
    said = ended[1] if (ended := ENDED.search(text)) else text
    if line := _line_of_the_user(said):
        return FunctionFailed(_last(said), line)
    if data := DATA.search(whole):
        called = CALLED.search(whole)
        return FunctionFailed(data[1], f"{called[1]}, line {called[2]}") if called else Unexplained(data[1], whole)
    return Unexplained(_last(said), whole)


def _causes(failure: BaseException) -> Iterator[str]:
    """What it says, and what those say that it came of; Spark keeps them apart."""
    found: BaseException | None = failure
    while found is not None:
        yield str(found).partition(PLAN)[0]
        yield getattr(found, "_stackTrace", "")
        found = getattr(found, "_cause", None)


def _ours(module: str, name: str, said: str) -> RunnelError:
    what, _, hint = said.rpartition(" (")
    what, hint = (what, hint.removesuffix(")")) if what else (said, "")
    return (Transient if _is_transient(module, name) else Permanent)(what, hint=hint)


def _is_transient(module: str, name: str) -> bool:
    try:
        known = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(known, type) and issubclass(known, Transient)


def _line_of_the_user(text: str) -> str | None:
    own = [(file, line) for file, line in FRAME.findall(text) if not any(part in file for part in NOT_THE_USER_S)]
    return f"{own[-1][0]}, line {own[-1][1]}" if own else None


def _last(text: str) -> str:
    raised = RAISED.findall(text)
    return f"{raised[-1][0]}: {raised[-1][1]}" if raised else text.strip().partition("\n")[0]
