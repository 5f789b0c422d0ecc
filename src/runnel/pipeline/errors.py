"""What can go wrong between a topic and a view. An error says what, where, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runnel.counted import counted
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
            hint="give it the data directory that belongs to its output, or make it anew: a view by `runnel rebuild`, "
            "a derived stream under another name" + or_else,
        )
        self.query = query


class ViewGone(Permanent):
    """The rows of a view are not where it keeps them, and its checkpoint goes on behind them."""

    def __init__(self, query: str, store: str, batch: int, directory: str, marks: str) -> None:
        super().__init__(
            f"{query} cannot go on: {store} has nothing of it, and its checkpoint is at batch {batch}",
            hint="name the store that has it by --views, or restore that from a backup; to make the view anew of the "
            f"log, remove {directory} and delete the topic {marks}: late and rejected rows are told once more then",
        )
        self.query = query


class OtherMaker(Permanent):
    """The checkpoint is of another app, or of a Spark that is newer than this one."""

    def __init__(self, query: str, what: str, *, hint: str) -> None:
        super().__init__(f"{query} cannot go on: {what}", hint=hint)
        self.query = query


class NoLongerFits(Permanent):
    """What is declared now is something else than what the checkpoint is of."""

    def __init__(self, query: str, what: str, *, is_view: bool) -> None:
        super().__init__(
            f"{query} cannot go on from its checkpoint: {what}",
            hint=f"`runnel rebuild {query} APP.py` reads the log again into a new copy, which then takes its place"
            if is_view
            else f"`runnel replay {query} APP.py --from TIME --to-topic TOPIC` writes what it makes now into another "
            "topic; or give what it is now another name",
        )
        self.query = query


class NotShared(Permanent):
    """What a query remembers stays shared by as many tasks as it is."""

    def __init__(self, query: str, why: str, before: int, partitions: int, *, is_view: bool) -> None:
        anew = (
            f"`runnel rebuild {query} APP.py --partitions {partitions}` reads the log again into a new copy"
            if is_view
            else "under another name it begins anew, with another number"
        )
        super().__init__(
            f"{query}: what it remembers is shared by {before} tasks, and cannot be shared by {partitions}: {why}",
            hint=f"without --partitions it goes on as it is; {anew}",
        )
        self.query = query


class StateChanged(Permanent):
    """Spark's own word for it, where we did not see it coming."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"what it remembers no longer fits its checkpoint: {said}",
            hint="a view is rebuilt (`runnel rebuild`), a derived stream replayed into another topic "
            "(`runnel replay`); or let the body remember what it did before",
        )


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


class ViewRebuilt(Permanent):
    """A query reads a view, which has been rebuilt with other columns while the query went on."""

    def __init__(self, query: str, view: str, column: str) -> None:
        super().__init__(
            f"{query} cannot go on: the view {view}, which it reads, has no column {column} any more",
            hint="start the app again, with the code that the view was rebuilt with",
        )
        self.query = query


class ChangesGone(Permanent):
    """A query reads the changes of a view, and those that come next are gone."""

    def __init__(self, query: str, error: PositionOutOfRange) -> None:
        super().__init__(
            f"{query} cannot go on: it needs the changes of the view {error.view} from position {error.position} on, "
            f"and the log of them goes from {error.first} to {error.following}",
            hint="it was away, or slower than the view, for longer than changes are kept, or the view was made "
            "anew: make it anew, a view by `runnel rebuild`, a derived stream under another name",
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


class RowFailed(Permanent):
    """The row on which the body raises. `said` is what, with a line of the user's; `place` a topic and a partition."""

    def __init__(self, said: str, place: str, offset: int, value: str, *, can_reject: bool) -> None:
        topic = place.rpartition("-")[0]
        instead = f', or declare on_error="reject": such rows go to {topic}.rejected then' if can_reject else ""
        super().__init__(
            f"{said}, with the record at offset {offset} of {place}: {value}",
            hint=f"mend the function{instead}; nothing is lost, it goes on from here",
        )
        self.said = said
        self.place = place
        self.offset = offset


class RowsFailed(Permanent):
    """Rows on which the body raises, though none of them is to blame by itself."""

    def __init__(self, said: str, rows: Sequence[str], *, is_whole: bool) -> None:
        more = "" if is_whole else " and others"
        super().__init__(
            f"{said}; no row is to blame by itself; it fails on these together: {', '.join(rows)}{more}",
            hint="mend the function; nothing is lost, it goes on from here",
        )
        self.said = said


class NoRowFailed(Permanent):
    """The body raised again and again, and on no row of the batch when they were tried."""

    def __init__(self, said: str, why: str) -> None:
        super().__init__(
            f"{said}; no row can be named: {why}", hint="mend the function and start again; nothing is lost"
        )
        self.said = said


class RunAgain(Transient):
    """Rows are to be left out that Spark has read already: it must begin the batch anew."""

    def __init__(self, query: str, count: int) -> None:
        super().__init__(
            f"{query} begins its batch anew, without {counted(count, 'row')} on which the body raises",
            hint="nothing is to be done",
        )


class NotLeftOut(Permanent):
    """Rows are to be left out, and the batch, begun anew, has them all the same. `file` says which."""

    def __init__(self, query: str, count: int, first: str, file: str) -> None:
        super().__init__(
            f"{query} cannot go on: of the rows that its batch is to leave out, {counted(count, 'row is', 'rows are')} "
            f"not among those that were put aside, also after it was begun anew; the first is {first}",
            hint=f"remove {file}: the rows on which the body raises are looked for anew then; nothing is lost",
        )
        self.query = query
        self.count = count


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
