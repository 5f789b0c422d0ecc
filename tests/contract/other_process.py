"""What a writer does that is not in the test's process: a module of its own, because such a process imports it."""

from __future__ import annotations

import os

from runnel.client.bodies import bodies
from runnel.client.cluster import Cluster
from runnel.client.metadata import Place
from runnel.client.ticket import Ticket
from runnel.client.writing import write
from runnel.records import Record


def write_from_here(cluster: Cluster, ticket: Ticket, place: Place, texts: list[bytes]) -> int:
    """Write the texts, and tell in which process."""
    with cluster:
        write(cluster, ticket, {place: bodies([Record(text) for text in texts])})
    return os.getpid()
