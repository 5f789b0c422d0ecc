"""What is wrong with a body, told with the line of the user's own file. Spark's words for it go on for pages."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import py4j
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from runnel.errors import RunnelError
from runnel.graph.body import function_of
from runnel.graph.derived import Derived
from runnel.graph.view import View
from runnel.pipeline.errors import BodyFailed
from runnel.pipeline.failure import OURS

STATE = re.compile(r"\.? SQLSTATE: \w+;?$")
NOT_THE_USER_S = (
    f"{Path(__file__).parents[1]}/",  # this package
    *(f"{Path(str(package.__file__)).parent}/" for package in (pyspark, py4j)),
    *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<",
)


@contextmanager
def body_of(output: Derived | View) -> Iterator[None]:
    """What fails inside of the block, the body is to blame for; unless Java has gone away."""
    try:
        yield
    except (RunnelError, Py4JError, ConnectionError):
        raise
    except Exception as error:
        raise BodyFailed(str(output), _said(error), _line(error) or home(output)) from None


def _said(error: Exception) -> str:
    """Spark tells what is wrong in the first line, its plan in those below, and what our workers said among them."""
    if ours := OURS.findall(str(error)):
        return str(ours[-1][-1])
    first = str(error).strip().partition("\n")[0]
    return STATE.sub("", first) if isinstance(error, PySparkException) else f"{type(error).__name__}: {first}"


def _line(error: Exception) -> str | None:
    """The last one of the user's own that led there."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(NOT_THE_USER_S)
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else None


def home(output: Derived | View) -> str:
    """Where the body itself stands."""
    code = getattr(function_of(output.body), "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code else repr(output.body)
