"""What can go wrong between a topic and a view. An error says what, where, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping

from runnel.errors import Permanent, Transient
from runnel.views.errors import PositionOutOfRange

MOST_TOLD = 20
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


class InvalidMaster(Permanent):
    def __init__(self, master: str) -> None:
        super().__init__(
            f"{master!r} is no master of Spark",
            hint="expected local[*] (all cores of this machine), local[4], spark://HOST:PORT, yarn or k8s://HOST:PORT",
        )
        self.master = master


class SparkDidNotStart(Permanent):
    def __init__(self, said: str, master: str) -> None:
        super().__init__(
            f"Spark did not start with the master {master}: {said}",
            hint="the lines above are Spark's own; `java -version` shows whether Java runs",
        )
        self.master = master


class UnfitSession(Permanent):
    """A session that somebody brought, and that cannot run an app."""

    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(f"the Spark session that was given cannot be used: {what}", hint=hint)


class Stopped(Transient):
    """The query was stopped before this batch; it will be the first of the next run."""

    def __init__(self, query: str) -> None:
        super().__init__(f"{query} was stopped", hint="start it again to go on")


class SparkSaid(Exception):
    """What Spark says of a failure, whole, for the log."""


class Unexplained(Permanent):
    """What is neither ours nor known to pass. `text` is all that Spark says of it."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(
            what, hint="what Spark says of it stands in the log above; nothing is lost, a restart goes on from here"
        )
        self.text = text


class ProcessDied(Transient):
    """The batch is repeated."""

    def __init__(self, which: str) -> None:
        super().__init__(
            f"{which} of Spark's died",
            hint="killed, perhaps because memory ran out; if it happens in one batch again and again, "
            "something in the body makes it",
        )


class SparkEnded(Permanent):
    """Java itself is gone, and with it every query."""

    def __init__(self, code: int | None) -> None:
        super().__init__(
            f"Spark's Java process ended, with code {code}",
            hint="killed, perhaps because memory ran out; nothing is lost, start the app again",
        )
        self.code = code


class DiskFull(Transient):
    def __init__(self, said: str) -> None:
        super().__init__(
            f"a disk is full: {said}",
            hint="make room where the data directory is, or where Spark keeps its temporary files (SPARK_LOCAL_DIRS); "
            "nothing is lost",
        )


class OtherCheckpoint(Permanent):
    """`or_else` is one more remedy."""

    def __init__(self, query: str, what: str, *, or_else: str = "") -> None:
        super().__init__(
            f"{query} cannot go on: {what}",
            hint="give it the data directory that belongs to its output, or rebuild it under another name" + or_else,
        )
        self.query = query


class RecordsGone(Permanent):
    """`gone` are the offsets of each partition that were to be read: from the first to before the second."""

    def __init__(self, query: str, gone: Mapping[str, tuple[int, int]]) -> None:
        told = [f"offsets {first:,} to {end - 1:,} of {place}" for place, (first, end) in gone.items()]
        more = f" and those of {len(told) - MOST_TOLD} more partitions" if len(told) > MOST_TOLD else ""
        super().__init__(
            f"{query} cannot go on: records were deleted before it read them: {', '.join(told[:MOST_TOLD])}{more}",
            hint="run it once with --skip-gone to go on behind them; a longer retention.ms keeps records for longer",
        )
        self.query = query
        self.gone = dict(gone)


class EndLost(Permanent):
    def __init__(self, query: str, place: str, end: int, read: int) -> None:
        super().__init__(
            f"{query} cannot go on: {place} ends at offset {end:,}, and was read up to offset {read:,} before",
            hint="its last records were lost, as after a restored backup: what was made of them can only be "
            "rebuilt, under another name",
        )
        self.query = query
        self.place = place
        self.end = end
        self.read = read


class NotInTime(Permanent):
    """A row of a stream that was declared strict."""

    def __init__(self, query: str, late: int, rejected: int, first: str) -> None:
        super().__init__(
            f"{query} stops, its input being strict: {late} late and {rejected} rejected rows, the first is {first}",
            hint="read without strict: such records are put aside then, and it goes on from here",
        )
        self.late = late
        self.rejected = rejected


class ChangesGone(Permanent):
    """A query reads the changes of a view, and those that come next are gone."""

    def __init__(self, query: str, error: PositionOutOfRange) -> None:
        super().__init__(
            f"{query} cannot go on: it needs the changes of the view {error.view} from position {error.position} on, "
            f"and the log of them goes from {error.first} to {error.following}",
            hint="it was away, or slower than the view, for longer than changes are kept, or the view was made anew: "
            "build it once more, under another name",
        )
        self.query = query
        self.view = error.view


class InvalidChange(Permanent):
    """A row whose `_change` cannot be written."""

    def __init__(self, where: str, what: str, *, hint: str) -> None:
        super().__init__(f"{where}: {what}; nothing of the batch was written", hint=hint)
        self.where = where


class FunctionFailed(Permanent):
    """The user's own, in one of Spark's Python processes. `place` is a line of the user's."""

    def __init__(self, said: str, place: str) -> None:
        super().__init__(f"{said} ({place})", hint="mend the function and start again; nothing is lost")
        self.place = place


class BodyFailed(Permanent):
    """The user's function, when it is called to see what it makes of its inputs. `place` is a line of the user's."""

    def __init__(self, where: str, said: str, place: str) -> None:
        super().__init__(f"{where}: {said} ({place})", hint="mend the function and start again; nothing is lost")
        self.where = where
        self.place = place


class NotInABatch(Permanent):
    """Rows of a table or a view were asked for while the body was called, and not by what it returned."""

    def __init__(self) -> None:
        super().__init__(
            "the rows of a table are asked for outside of a micro-batch",
            hint="leave count(), collect(), show() and their like out of the body: it says what to do, batch by batch",
        )


class InvalidBody(Permanent):
    def __init__(self, where: str, what: str, *, hint: str) -> None:
        super().__init__(f"{where}: {what}", hint=hint)
        self.where = where
