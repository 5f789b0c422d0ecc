"""How options become a source and a capture, for the command line and for an app alike.

source = opened(options)
capture, watching = at_work(options, source, cluster, admin)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from runnel.capture.capture import Capture
from runnel.capture.chosen import Mode, Reading
from runnel.capture.envelope import Envelope
from runnel.capture.incremental import CHUNK_ROWS
from runnel.capture.opening import open_source, source_of
from runnel.capture.options import Options
from runnel.capture.outbox import check
from runnel.capture.publisher import Publisher
from runnel.capture.selection import Selection
from runnel.capture.source import Source
from runnel.capture.watching import RETAINED_WARNING, Watching
from runnel.client import Admin
from runnel.client.cluster import Cluster


class AtWork(NamedTuple):
    """A capture that is to be run, and who looks how it is doing; both are for the caller to start."""

    capture: Capture
    watching: Watching


def opened(options: Options) -> Source:
    """The database. Raises if something that is asked for is not there; nothing is made in it."""
    options.choice.ask(())  # what was asked for while it ran is known when it is at work
    source = open_source(
        options.url,
        options.name,
        options.selection,
        chosen=options.choice.has,
        binary=options.binary,
        own=options.own,
    )
    try:
        if options.outbox is not None:
            check(options.outbox, source, options.selection)
    except BaseException:
        source.close()
        raise
    return source


def at_work(
    options: Options, source: Source, cluster: Cluster, admin: Callable[[], AbstractContextManager[Admin]]
) -> AtWork:
    publisher = Publisher(cluster, options.name, admin, partitions=options.partitions)
    envelope = Envelope(
        options.topic_prefix,
        source,
        options.selection,
        choice=options.choice,
        schemas=options.schemas,
        outbox=options.outbox,
        schema_changes=options.schema_changes,
    )
    capture = Capture(
        options.name,
        source,
        publisher,
        envelope,
        transactions=options.transactions,
        heartbeat=options.heartbeat,
        reading=Reading(Mode(options.snapshot), options.chunk or CHUNK_ROWS, options.snapshot_rate),
    )
    look = partial(source_of, options.url, options.name, Selection(), own=options.own)
    most = options.retained_warning or RETAINED_WARNING
    return AtWork(capture, Watching(capture, publisher, envelope, look, retained_warning=most))
