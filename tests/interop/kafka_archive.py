"""Java's archive of Apache Kafka's classes: the server and the tools start in half the time.

    python -m tests.interop.kafka_archive

It is made once for a Java and its jars, by a server that starts and ends: what the tools need of the client, the server
needs, too. `make test-servers` makes it; without it all works as well, and takes longer.
"""

import tempfile
from pathlib import Path

from tests.interop.kafka_distribution import class_archive
from tests.interop.kafka_server import SHORT_LIVED_OPTIONS, kafka_server


def make_archive() -> Path:
    """Under another name first, so that an interrupted one is never taken for a whole one."""
    archive = class_archive()
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f"{archive.stem}.partial-") as partial:
        made = Path(partial) / archive.name
        options = [*SHORT_LIVED_OPTIONS, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds*=off"]
        with kafka_server(Path(partial) / "kafka", jvm_options=options):
            pass  # it writes the archive when it ends
        if made.exists():
            made.replace(archive)
    return archive


if __name__ == "__main__":
    make_archive()
