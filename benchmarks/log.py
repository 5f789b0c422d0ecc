"""The log on a disk, beside the same bytes written and read by hand.

It works on real files in a temporary directory, up to 3 GiB at a time, and leaves nothing behind. TMPDIR chooses the
disk: on a file system in memory a sync costs nothing, and the figures of durable appends would mean nothing.
"""

import tempfile
from pathlib import Path

from benchmarks import log_appends, log_reads, log_samples, log_starts
from benchmarks.harness import Figure, Options


def run(options: Options) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="runnel-bench-") as folder:
        place = Path(folder)
        figures = log_appends.figures(options, place)
        with log_samples.prepared(options, place) as samples:
            figures += log_reads.figures(options, place, samples)
            figures += log_starts.figures(options, place, samples)
        return figures
