"""What a batch is to leave out is among what it put aside, or the batch is begun anew: once, not for ever."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from runnel import Broker
from runnel.client import Admin, Producer
from runnel.client.cluster import Cluster
from runnel.graph.formats import columns_of
from runnel.graph.reading import Reading
from runnel.pipeline.batch import Batch
from runnel.pipeline.errors import NotLeftOut, RunAgain
from runnel.pipeline.source import aside
from runnel.pipeline.source.left_out import LeftOut, path_of, write_left_out
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets, Range
from runnel.pipeline.source.rows import Rows
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.steps.account import Account
from runnel.pipeline.steps.untold import KeepUntold
from runnel.pipeline.tables.partitions import Known, Partitions
from runnel.pipeline.tables.told import Told, untold_up_to, write_told
from runnel.pipeline.tables.versions import Span, Versions

BATCH = 7
ROWS = 6
names = itertools.count()


def a_batch(starts, ends):
    return Batch("pages", "id", Moment(BATCH, 0, 0), starts, ends, None, lambda: None)


class Bench:
    """A batch of all records of a topic: offsets 0 to 5."""

    def __init__(self, bootstrap, topic, path):
        self.path = path
        self.topic = topic
        columns = columns_of("n long", "a stream")
        self.spec = Spec("pages", 0, bootstrap, topic, columns, Reading(), str(path), skip_gone=True)
        self.cluster = Cluster(bootstrap)
        self.account = Account((self.spec,), self.cluster)

    def range(self, end):
        return Range(self.topic, 0, 0, end, "")

    def reads(self, end=ROWS):
        """As a task does: without what is to be left out."""
        for _ in Rows(self.spec, self.cluster, self.range(end), Moment(BATCH, 0, 0)):
            pass

    def leave_out(self, *offsets):
        write_left_out(self.path, BATCH, [LeftOut(0, self.topic, 0, offset, "no") for offset in offsets])

    def counts(self, end=ROWS):
        place = {(self.topic, 0): 0}, {(self.topic, 0): end}
        starts, ends = ({0: Offsets(0, each, {})} for each in place)
        return self.account(a_batch(starts, ends)).counts


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


def filled(broker, name):
    """A topic with records."""
    topic = f"{name}-{next(names)}"
    broker.create_topic(topic, 1)
    with Producer(broker.bootstrap) as producer:
        for n in range(ROWS):
            producer.submit(topic, b'{"n": %d}' % n)
    return topic


@pytest.fixture
def bench(broker, tmp_path):
    topic = filled(broker, "clicks")
    made = Bench(broker.bootstrap, topic, tmp_path)
    yield made
    made.cluster.close()


def test_what_is_left_out_is_counted_as_rejected(bench):
    bench.leave_out(2, 4)
    bench.reads()
    counts = bench.counts()
    assert (counts.in_time, counts.rejected) == (4, 2)


def test_rows_that_spark_had_read_before_let_it_begin_anew(bench):
    bench.reads()
    bench.leave_out(2, 4)
    with pytest.raises(RunAgain):
        bench.counts()
    bench.reads()
    assert bench.counts().rejected == 2


def test_a_task_that_ends_early_does_not_leave_what_was_read_before(bench):
    bench.reads()
    bench.leave_out(2)
    with pytest.raises(RunAgain):
        bench.counts()
    assert bench.counts().rejected == 1  # the rest is read here


def test_rows_that_are_read_again_and_again_stop_the_query(bench):
    bench.reads()
    bench.leave_out(2, 4)
    with pytest.raises(RunAgain):
        bench.counts()
    self_willed = bench.range(ROWS)
    aside.write(aside.directory_of(bench.path, BATCH), 0, self_willed, ROWS, [])
    with pytest.raises(NotLeftOut, match=f"2 rows .* the first is {bench.topic}-0 at offset 2") as raised:
        bench.counts()
    assert str(path_of(bench.path, BATCH)) in raised.value.hint


def test_it_begins_anew_once_more_if_others_are_missing(bench):
    bench.reads()
    bench.leave_out(2)
    with pytest.raises(RunAgain):
        bench.counts()
    aside.write(aside.directory_of(bench.path, BATCH), 0, bench.range(ROWS), ROWS, [])
    bench.leave_out(4)
    with pytest.raises(RunAgain):
        bench.counts()


def test_a_row_that_the_batch_as_planned_anew_does_not_read_is_not_demanded(bench):
    bench.leave_out(2, 4)
    bench.reads(end=3)
    counts = bench.counts(end=3)
    assert (counts.in_time, counts.rejected) == (2, 1)


def test_a_row_that_retention_has_removed_is_not_demanded(bench, broker):
    bench.leave_out(2, 4)
    with Admin(broker.bootstrap) as admin:
        admin.delete_records(bench.topic, {0: 3})
    bench.reads()
    counts = bench.counts()
    assert (counts.in_time, counts.rejected, counts.gone) == (2, 1, 3)


def test_a_row_that_compaction_has_removed_is_not_demanded(bench, monkeypatch):
    bench.leave_out(2)
    aside.write(aside.directory_of(bench.path, BATCH), 0, bench.range(ROWS), ROWS - 1, [])
    monkeypatch.setattr("runnel.pipeline.steps.account.decode", lambda *_: iter(()))  # a batch without its record
    assert bench.counts().in_time == ROWS - 1


@pytest.fixture
def table(broker, tmp_path):
    """One whose records, 0 to 5, are all rejected: they have no key. The batch has read it to its end."""
    topic = filled(broker, "names")
    columns = columns_of("n long", "a table")
    with Cluster(broker.bootstrap) as cluster:
        Partitions(tmp_path / "tables" / "1").write(Known(str(cluster.topic(topic).id), [(0, 1)]))
    Versions(tmp_path / "tables" / "1" / f"{topic}-0", pa.schema([])).claim(BATCH, Span(0, ROWS))
    return Spec("pages", 1, broker.bootstrap, topic, columns, Reading(), str(tmp_path), key=("n",))


@pytest.fixture
def account(table):
    with Cluster(table.bootstrap) as cluster:
        yield Account((table,), cluster)


def told_again(account):
    batch = account(a_batch({}, {}))
    assert batch.counts.rejected == ROWS
    return batch.aside["offset"].to_pylist()


@pytest.mark.parametrize(
    ("told", "left"), [({}, 0), ({0: 4}, 4), ({0: 9}, 6), ({1: 9}, 0)], ids=["nothing", "some", "all", "of another"]
)
def test_what_another_copy_of_the_view_has_told_of_a_table_is_counted_and_not_told_again(account, table, told, left):
    write_told(table.path, {table.topic: Told(id_of(table), told)})
    assert told_again(account) == list(range(left, ROWS))


def test_what_was_told_of_a_table_before_it_was_made_anew_says_nothing(account, table):
    write_told(table.path, {table.topic: Told("another", {0: 4})})
    assert told_again(account) == list(range(ROWS))


@pytest.mark.parametrize(("told", "kept"), [({}, [0, 1, 2, 3, 4, 5]), ({0: 4}, [4, 5]), ({0: 9}, [])])
def test_a_copy_keeps_what_the_view_has_not_told_of_a_table(account, table, told, kept):
    write_told(table.path, {table.topic: Told(id_of(table), told)})
    KeepUntold((table,))(account(a_batch({}, {})))
    assert untold_up_to(table.path, BATCH)["offset"].to_pylist() == kept


@pytest.mark.parametrize("is_known", [True, False])
def test_a_copy_keeps_nothing_of_a_table_that_the_view_has_not_read(account, table, is_known):
    write_told(table.path, {table.topic: Told("another", {0: 4})} if is_known else {})
    KeepUntold((table,))(account(a_batch({}, {})))
    assert untold_up_to(table.path, BATCH).num_rows == 0


def id_of(table):
    return Partitions(table.path / "tables" / "1").read().topic_id
