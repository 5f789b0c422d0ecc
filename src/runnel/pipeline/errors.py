"""What can go wrong between a topic and a view. An error says what, where, and what to do next."""

from __future__ import annotations

from runnel.errors import Permanent, Transient

WANTED = 17
REMEDY = (
    f"install Java {WANTED} or newer (Debian, Ubuntu: apt-get install openjdk-{WANTED}-jre-headless), or set JAVA_HOME"
)


class JavaMissing(Permanent):
    def __init__(self, looked: str) -> None:
        super().__init__(f"Spark needs Java, and {looked} was not found", hint=REMEDY)


class JavaTooOld(Permanent):
    def __init__(self, path: str, version: str) -> None:
        super().__init__(f"Spark needs Java {WANTED} or newer, and {path} is {version}", hint=REMEDY)
        self.version = version


class SparkDidNotStart(Permanent):
    def __init__(self, said: str) -> None:
        super().__init__(
            f"Spark did not start: {said}", hint="the lines above are Java's own; `java -version` shows whether it runs"
        )


class Stopped(Transient):
    """The query was stopped before this batch; it will be the first of the next run."""

    def __init__(self, query: str) -> None:
        super().__init__(f"{query} was stopped", hint="start it again to go on")


class OtherCheckpoint(Permanent):
    def __init__(self, query: str, what: str) -> None:
        super().__init__(
            f"{query} cannot go on: {what}",
            hint="give it the data directory that belongs to its output, or rebuild it under another name",
        )
        self.query = query


class NotInTime(Permanent):
    """A row of a stream that was declared strict."""

    def __init__(self, query: str, late: int, rejected: int, first: str) -> None:
        super().__init__(
            f"{query} stops, its input being strict: {late} late and {rejected} rejected rows, the first is {first}",
            hint="mend or skip the record, allow more lateness, or read without strict",
        )
        self.late = late
        self.rejected = rejected


class InvalidBody(Permanent):
    def __init__(self, where: str, what: str, *, hint: str) -> None:
        super().__init__(f"{where}: {what}", hint=hint)
        self.where = where
