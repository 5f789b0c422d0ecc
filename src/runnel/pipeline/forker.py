"""The process that has imported what Spark's Python processes need, and forks them: `python -m runnel.pipeline.forker`.

Its standard input is a socket that listens, see `forked_python.py`; the descriptor that its argument names ends with
whoever started it, and then it ends, too. Its forks do not: they end when Java lets go of them, as others would.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from runnel.pipeline.forked_python import STREAMS, TAKEN, peer_of
from runnel.pipeline.python_daemon import NEEDED

PLANNERS = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
)
SERVED = {*PLANNERS, "pyspark.daemon", "runnel.pipeline.python_daemon"}
AT_THE_START = ("PYTHONHASHSEED", "OMP_NUM_THREADS")  # what was read when this process started or imported
NAME = 15  # characters that the kernel keeps
PATIENCE = 10.0  # seconds, with one that does not say what it wants


@dataclass(frozen=True)
class Request:
    """What `forked_python` hands over."""

    connection: socket.socket
    arguments: list[str]
    variables: dict[str, str]
    streams: list[int]

    def close(self) -> None:
        self.connection.close()
        for each in self.streams:
            os.close(each)


def serve(listening: socket.socket, owner: int) -> None:
    """Until whoever has the other end of `owner` has ended."""
    while True:
        readable, _, _ = select.select([listening.fileno(), owner], [], [])
        if owner in readable:
            return
        connection, _ = listening.accept()
        request = None
        with suppress(OSError, ValueError):
            request = received(connection)
        if request is None:
            connection.close()
            continue
        if fits(request, os.environ) and os.fork() == 0:
            listening.close()
            os.close(owner)
            become(request)
        request.close()


def received(connection: socket.socket) -> Request | None:
    connection.settimeout(PATIENCE)
    if peer_of(connection) != os.getuid():
        return None
    message, streams, _, _ = socket.recv_fds(connection, 65536, len(STREAMS))
    try:
        length = 4 + int.from_bytes(message[:4], sys.byteorder)
        while len(message) < length:
            more = connection.recv(length - len(message))
            if not more:
                raise ValueError("it ends too early")
            message += more
        arguments, _, variables = os.fsdecode(message[4:]).partition("\0\0")
        pairs = (pair.partition("=") for pair in variables.split("\0"))
        if len(streams) != len(STREAMS):
            raise ValueError("its streams are missing")
    except BaseException:
        for each in streams:
            os.close(each)
        raise
    return Request(connection, arguments.split("\0"), {name: value for name, _, value in pairs}, list(streams))


def fits(request: Request, own: Mapping[str, str]) -> bool:
    """Whether a fork would be what a start is."""
    flag, module, *_ = [*request.arguments, "", ""]
    asked = request.variables
    return flag == "-m" and module in SERVED and all(asked.get(each, own[each]) == own[each] for each in AT_THE_START)


def become(request: Request) -> NoReturn:
    """What `python -m` would be, with the environment and the streams that Spark gave it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for given, own in zip(request.streams, STREAMS, strict=True):
            os.dup2(given, own)
            os.close(given)
        os.environ.clear()
        os.environ.update(request.variables)
        time.tzset()
        for entry in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
            if entry and entry not in sys.path:
                sys.path.insert(1, entry)
        # Who waits for this process waits for this connection, and not for those that it forks.
        os.register_at_fork(after_in_child=request.connection.close)
        request.connection.settimeout(None)
        request.connection.sendall(TAKEN)
        run(request.arguments[1], request.arguments[2:])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException as error:
        if not is_let_go(error):
            sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        with suppress(OSError):
            request.connection.sendall(b"%d\n" % (code & 255))
        os._exit(code & 255)


def is_let_go(error: BaseException) -> bool:
    """Whether Java does not wait for this process any more: a query that is stopped takes the socket away, while it
    begins or later, and nobody needs to know.
    """
    if _is_all_of_the_socket(error):
        return True
    condition = getattr(error, "getCondition", lambda: None)()
    return condition == "CANNOT_OPEN_SOCKET" and isinstance(error.__context__, FileNotFoundError)


def _is_all_of_the_socket(error: BaseException) -> bool:
    """Also what was to be told over it: that it has ended. Anything else in between is told."""
    told: BaseException | None = error
    while isinstance(told, ConnectionError | EOFError):
        told = told.__context__
    return told is None and isinstance(error, ConnectionError)


def run(module: str, arguments: list[str]) -> None:
    """As the main module, whether it was imported or not."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    main = types.ModuleType("__main__")
    main.__file__, main.__spec__, main.__package__ = spec.origin, spec, spec.parent
    sys.modules["__main__"] = main
    Path("/proc/self/comm").write_text([module, *arguments][-1].rpartition(".")[2][:NAME])  # for those who look
    sys.argv[:] = [spec.origin, *arguments]
    exec(spec.loader.get_code(module), vars(main))  # type: ignore[union-attr]


def prepare() -> None:
    with suppress(ImportError):  # whoever needs it tells
        for name in (*NEEDED, *PLANNERS):
            import_module(name)
        os.register_at_fork(after_in_child=import_module("numpy.random").seed)  # it was seeded when it was imported
    gc.freeze()


def main(owner: int) -> None:
    listening = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a Java of Spark's, too
    prepare()
    serve(listening, owner)


if __name__ == "__main__":
    main(int(sys.argv[1]))
