"""Readers that read all the while see whole batches, and hold nobody up."""

import subprocess
import sys
import threading
from contextlib import suppress

from tests.contract.views.clicks import claimed, marker, seen

PAGES = 50
BATCHES = 40


def rows_of(batch: int):
    """Every page has the batch's number, and one page comes and goes."""
    pages = [(f"page-{page}", batch) for page in range(PAGES)]
    return seen(*pages, ("guest", batch), changes=["update_after"] * PAGES + ["insert" if batch % 2 else "delete"])


class Writing(threading.Thread):
    def __init__(self, store) -> None:
        super().__init__()
        self.store = store
        self.error: BaseException | None = None
        self.first_batch = threading.Event()

    def run(self) -> None:
        try:
            with claimed(self.store) as writer:
                for batch in range(BATCHES):
                    writer.apply(rows_of(batch), marker(batch))
                    self.first_batch.set()
        except BaseException as error:
            self.error = error
            self.first_batch.set()


def test_a_reader_sees_whole_batches_while_a_writer_writes(store):
    writing = Writing(store)
    writing.start()
    writing.first_batch.wait()
    with store.reader("clicks") as reader:
        alive = True
        while alive:
            alive = writing.is_alive()
            rows, position, mark, *_ = reader.snapshot()
            assert set(rows["seen"].to_pylist()) == {mark.batch}
            assert rows.num_rows == PAGES + mark.batch % 2
            assert list(reader.changes(position - 1, about=1)) != []
        writing.join()
        assert writing.error is None
        assert reader.snapshot().marker == marker(BATCHES - 1)


def test_a_watcher_sees_every_change_once_and_whole_batches_at_a_time(store):
    writing = Writing(store)
    writing.start()
    writing.first_batch.wait()
    position, view = 0, {}
    with store.reader("clicks") as reader:
        end = None
        while end is None or position < end:
            if end is None and not writing.is_alive():
                end = reader.snapshot().next_position
            changes = reader.changes(position, about=1)
            for change in changes:
                assert change.position == position
                position += 1
                assert view.get(change.key["page"]) == change.before
                view[change.key["page"]] = change.after
            assert changes.next_position == position
            assert len({row["seen"] for row in view.values() if row is not None}) <= 1
        writing.join()
        assert writing.error is None
        rows = reader.rows().to_pylist()
    assert {page: row for page, row in view.items() if row is not None} == {row["page"]: row for row in rows}


def test_a_reader_in_the_middle_of_reading_does_not_keep_the_writer_waiting(open_at):
    store = open_at(patience=0.2)
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        with store.reader("clicks") as reader, reader._moment() as moment:
            assert moment.rows().to_pylist() == [{"page": "a", "seen": 1}]
            writer.apply(seen(("a", 2), ("b", 1)), marker(1))
            writer.trim()
            assert moment.rows().to_pylist() == [{"page": "a", "seen": 1}]


FORKED = """
import os, sys
import runnel

clicks = runnel.views(sys.argv[1])["clicks"]
pages = [f"page-{page}" for page in range(50)]
assert clicks.get(page="page-7")["seen"] == 7
child = os.fork()
for _ in range(20):
    assert [clicks.get(page=page)["page"] for page in pages] == pages
clicks.close()
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert len(clicks) == 50
"""


FORKED_BESIDE_READERS = """
import os, signal, sys, threading, time
import runnel

views = runnel.views(sys.argv[1])
clicks = views["clicks"]
end = threading.Event()
seen = []  # by each read of a thread, how many batches it saw parts of
signal.alarm(300)  # who waits for ever is ended; a child has an alarm of its own


def read():
    while not end.is_set():
        seen.append(len(set(clicks.arrow().column("seen").to_pylist())))
        seen.append(len(views["clicks"]) / 2_000)


def is_torn(number):
    "Whether a transaction sees what is written while it is open."
    with clicks._source as reader, reader._moment() as moment:
        first = set(moment.rows(limit=8).column("seen").to_pylist())
        open(f"{sys.argv[2]}/ready-{number}", "w").close()
        while not os.path.exists(f"{sys.argv[2]}/written-{number}"):
            time.sleep(0.002)  # another process says it by a file; the alarm ends who waits for ever
        return set(moment.rows().column("seen").to_pylist()) != first


threads = [threading.Thread(target=read) for _ in range(2)]
for thread in threads:
    thread.start()
children = []
for number in range(8):
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        os._exit(is_torn(number))
    children.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
end.set()
for thread in threads:
    thread.join()
assert children == [0] * 8, children
assert set(seen) == {1}, set(seen)
"""


def test_a_process_that_is_forked_beside_threads_that_read_sees_the_view_at_one_moment(place, tmp_path):
    """SQLite counts its locks by the process, and would not notice that this is another one: what is written meanwhile
    goes into the file below the read.
    """
    pages = [f"page-{page}" for page in range(2_000)]

    def write(number: int) -> None:
        writer.apply(seen(*((page, number) for page in pages)), marker(number))
        if place.kind == "sqlite":
            place.query("PRAGMA wal_checkpoint(PASSIVE)")

    with claimed(place.store()) as writer:
        write(0)
        arguments = [sys.executable, "-c", FORKED_BESIDE_READERS, place.address, str(tmp_path)]
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as reading:
            asked = 0
            while reading.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    reading.wait(0.01)
                if (tmp_path / f"ready-{asked}").exists():
                    write(2 * asked + 1)
                    write(2 * asked + 2)
                    (tmp_path / f"written-{asked}").touch()
                    asked += 1
            assert reading.returncode == 0, reading.communicate()[1]


def test_a_process_that_is_forked_reads_and_closes_a_view_beside_its_parent(place):
    """As the workers of a web server do that has opened the view before them."""
    with claimed(place.store()) as writer:
        writer.apply(seen(*((f"page-{page}", page) for page in range(PAGES))), marker(0))
    done = subprocess.run(
        [sys.executable, "-c", FORKED, place.address], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


FORKED_AND_ALONE = """
import os, signal, sys, time
import runnel

clicks = runnel.views(sys.argv[1])["clicks"]
signal.alarm(120)  # who waits for ever is ended; a child has an alarm of its own
said, says = os.pipe()
child = os.fork()
if child:
    os.read(said, 1)
    clicks.close()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(60)
for written in sys.stdin:
    assert {row["seen"] for row in clicks} == {int(written)}, (clicks.arrow().to_pylist(), written)
    os.write(says, b".")
    print("seen", flush=True)
"""


def test_a_forked_process_sees_what_is_written_once_its_parent_and_the_writer_have_closed(place):
    """SQLite takes its files away when the last one closes that it knows of."""
    with claimed(place.store()) as writer:
        writer.apply(seen(("a", 0), ("b", 0)), marker(0))
    arguments = [sys.executable, "-c", FORKED_AND_ALONE, place.address]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as reading:
        answers = [ask(reading, 0)]
        for number in (1, 2, 3):
            with claimed(place.store()) as writer:
                writer.apply(seen(("a", number), ("b", number)), marker(number))
            answers.append(ask(reading, number))
        said = reading.communicate()[1]
    assert (answers, reading.returncode) == (["seen\n"] * 4, 0), said


def ask(reading: subprocess.Popen[str], number: int) -> str:
    with suppress(BrokenPipeError):
        print(number, file=reading.stdin)
    return reading.stdout.readline()


FORKED_BESIDE_A_WRITER = """
import os, signal, sys
import pyarrow as pa
import runnel
from runnel.views.opening import open_store
from runnel.views.store import Declared, Marker


def write(writer, number):
    writer.apply(pa.table({"page": ["a"], "seen": [number]}), Marker("shop", number, "c", {}))


signal.alarm(120)  # who waits for ever is ended; a child has an alarm of its own
asked, asks = os.pipe()
said, says = os.pipe()
declared = Declared("clicks", ("page",), pa.schema([("page", pa.string()), ("seen", pa.int64())]))
store = open_store(sys.argv[1])
first = store.writer(declared, "shop")
first.claim()
write(first, 0)
child = os.fork()
if child == 0:
    signal.alarm(60)
    clicks = runnel.views(sys.argv[1])["clicks"]
    while os.read(asked, 1) == b"?":
        os.write(says, bytes([clicks.get(page="a")["seen"]]))
    sys.exit()


def answer():
    os.write(asks, b"?")
    return os.read(said, 1)[0]


write(first, 1)  # the claim still holds
answers = [answer()]
first.close()
for number in (2, 3):
    with store.writer(declared, "shop") as writer:
        writer.claim()
        write(writer, number)
    answers.append(answer())
os.write(asks, b".")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert answers == [1, 2, 3], answers
"""


def test_a_process_that_is_forked_beside_a_writer_sees_what_later_writers_write(place):
    arguments = [sys.executable, "-c", FORKED_BESIDE_A_WRITER, place.address]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
