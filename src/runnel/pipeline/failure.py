"""Why a query failed, in the words of whoever knows: an error of ours, or the last line of the user's own traceback.

Spark wraps what its Python processes raise into pages of text.
"""

from __future__ import annotations

import re

from runnel.errors import RunnelError

RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*): (.+)$", re.MULTILINE)
OURS = re.compile(r"^runnel\.[\w.]+\.([A-Z]\w+): (.+)$", re.MULTILINE)
ENDED = re.compile(r"terminated with exception: (.*?)(?: SQLSTATE: \w+)?\n=== Streaming Query ===", re.DOTALL)
FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
NOT_THE_USER_S = ("/pyspark/", "/runnel/", "/py4j/", "<frozen")
HINT = "what Spark says of it stands in the log above; nothing is lost, a restart goes on from here"


def told(failure: BaseException) -> tuple[str, str]:
    """What, and a hint."""
    if isinstance(failure, RunnelError):
        return failure.what, failure.hint
    text = str(failure)
    if ours := OURS.findall(text):
        what, _, hint = ours[-1][1].rpartition(" (")
        return (what, hint.removesuffix(")")) if what else (ours[-1][1], HINT)
    if query := ENDED.search(text):
        text = query[1]
    raised = RAISED.findall(text)
    last = f"{raised[-1][0]}: {raised[-1][1]}" if raised else text.strip().partition("\n")[0]
    own = [(file, line) for file, line in FRAME.findall(text) if not any(part in file for part in NOT_THE_USER_S)]
    return (f"{last} ({own[-1][0]}, line {own[-1][1]})" if own else last), HINT
