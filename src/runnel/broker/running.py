"""A broker in a process of its own, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import uvloop

from runnel.broker.endpoints import Endpoint, parse_endpoint
from runnel.broker.server import Server, start_server
from runnel.free_memory import keep_large_blocks
from runnel.version import __version__

# The log's thread and the event loop's hand work to each other all the time: with Python's 5 ms a busy loop would let
# acknowledgements wait that long. Much less, and they spend their time on taking turns.
SWITCH_INTERVAL = 0.001
ENDS_WITH_STDIN = "RUNNEL_ENDS_WITH_STDIN"  # in the environment of one that another process of ours starts for itself
COLLECTOR_THRESHOLDS = (20_000, 20, 100)

logger = logging.getLogger(__name__)


def run_broker(
    data: str,
    configs: Mapping[str, str],
    *,
    metrics: str | None = None,
    when_ready: Callable[[Server], object],
    with_stdin: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, then stop in good order; `metrics` is where to show the numbers.

    `with_stdin`: also when standard input ends, which is a pipe from the process that started this one. So it does not
    outlive its owner, however that one dies.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    _allow_all_files()
    keep_large_blocks()  # a fetch reads a megabyte for each partition, again and again
    endpoint = parse_endpoint("metrics", metrics) if metrics is not None else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(data, configs, endpoint, when_ready, with_stdin))


async def _serve(
    data: str,
    configs: Mapping[str, str],
    metrics: Endpoint | None,
    when_ready: Callable[[Server], object],
    with_stdin: bool,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if with_stdin:
        loop.add_reader(sys.stdin.fileno(), stop.set)  # nothing is ever written to it
    server = await start_server(data, configs)
    # Not before: a log may take minutes to be opened, and the loop would look at them only then.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    exposition = None
    try:
        if metrics is not None:
            # Loaded only here: it costs a tenth of a start, and not everybody wants it.
            from runnel.broker.exposition import Exposition  # noqa: PLC0415

            exposition = Exposition(server, metrics)
            logger.info("metrics on http://%s/metrics", exposition.endpoint)
        _tell_start(server)
        _calm_collector()
        when_ready(server)
        await stop.wait()
        logger.info("stopping")
    finally:
        await server.stop()
        if exposition is not None:
            exposition.close()
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one must not make a clean end look like a kill
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


def _allow_all_files() -> None:
    """A shell's limit is for programs that wait for files with `select`, and a connection beyond it is closed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system may have a limit of its own below that
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tell_start(server: Server) -> None:
    log = server.node.log
    how = "which is new" if log.is_new else f"after {'a clean' if log.was_clean else 'an unclean'} stop"
    logger.info("Runnel %s, process %d, serves %s, %s", __version__, os.getpid(), log.path, how)
    for finding in log.findings:
        what = "is damaged" if finding.damage else "had a torn write, which was cut off"
        logger.warning("%s %s at position %d: %s", finding.path, what, finding.position, finding.reason)
    for name, endpoint in server.endpoints.items():
        logger.info("clients of listener %s are told to use %s", name, endpoint)


def _calm_collector() -> None:
    """What is there now stays for good, and requests leave no cycles behind: look for garbage seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
