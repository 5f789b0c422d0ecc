"""What the log itself knows of transactions: where they begin and end, and which were aborted."""

import errno
import struct
from collections.abc import Callable
from random import Random

import pytest

from runnel.errors import (
    CoordinatorFenced,
    DiskLow,
    InvalidBatch,
    InvalidTransactionState,
    OutOfOrderSequence,
    PartitionFailed,
    StaleProducerEpoch,
)
from runnel.log import Aborted, Partition
from runnel.log.dump import TxnIndexRow, rows_of
from runnel.log.producers import Producers
from runnel.log.segment import Segment
from runnel.log.txn_index import TransactionIndex
from runnel.log.verify import verify
from runnel.records import (
    TRANSACTIONAL,
    Producer,
    Record,
    build_batch,
    build_marker,
    parse_header,
    parse_marker,
    place,
    with_append_time,
)
from runnel.settings import TimestampType
from tests.unit.log.stage import DATA, Stage, open_on_disk, segment_path

FIRST, SECOND = 10, 20  # producers


def sent(producer: Producer, *, transactional: bool = True, count: int = 1, size: int = 10) -> bytes:
    records = [Record(b"." * size, None, 1_700_000_000_000)] * count
    return build_batch(records, producer=producer, attributes=TRANSACTIONAL if transactional else 0)


def write(partition: Partition, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1) -> int:
    return partition.append_batch(sent(Producer(producer_id, epoch, sequence), count=count)).base_offset


def end(stage: Stage, partition: Partition, producer_id: int, *, committed: bool, epoch: int = 0, by: int = 0) -> int:
    append = partition.submit_marker(producer_id, epoch, committed=committed, coordinator_epoch=by)
    stage.log.commit()
    return append.result(timeout=0).base_offset


def txn_index(stage: Stage, partition: Partition, base_offset: int) -> str:
    return f"{DATA}/{segment_path(partition, base_offset, '.txnindex')}"


# --- the last stable offset


def test_without_transactions_everything_is_stable() -> None:
    stage = Stage()
    partition = stage.partition()
    assert partition.last_stable_offset == 0
    partition.append([Record(b"tea"), Record(b"milk")])

    assert (partition.last_stable_offset, partition.open_transactions(), partition.aborted(0, 2)) == (2, {}, [])


def test_an_open_transaction_holds_the_last_stable_offset_at_its_first_record() -> None:
    stage = Stage()
    partition = stage.partition()
    partition.append([Record(b"tea")])
    write(partition, FIRST, 0, count=2)
    partition.append([Record(b"milk")])

    assert (partition.last_stable_offset, partition.end_offset) == (1, 4)
    assert partition.open_transactions()[FIRST][:3] == (1, 0, 1_700_000_000_000)


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_lets_the_last_stable_offset_go_on(committed: bool) -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)

    assert end(stage, partition, FIRST, committed=committed) == 1
    assert (partition.last_stable_offset, partition.open_transactions()) == (2, {})
    assert parse_marker(partition.read(1).data).committed is committed


def test_the_earliest_of_several_transactions_counts() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    write(partition, SECOND, 0)
    write(partition, 30, 0)

    end(stage, partition, SECOND, committed=True)
    assert partition.last_stable_offset == 0
    end(stage, partition, FIRST, committed=True)
    assert partition.last_stable_offset == 2
    assert list(partition.open_transactions()) == [30]


def test_what_is_accepted_and_not_durable_counts_for_its_producer_but_not_for_readers() -> None:
    stage = Stage()
    partition = stage.partition()
    partition.submit(sent(Producer(FIRST, 0, 0)))

    assert (partition.transaction_of(FIRST), partition.open_transactions()) == (0, {})
    stage.log.commit()
    assert (partition.transaction_of(FIRST), partition.last_stable_offset) == (0, 0)
    partition.submit_marker(FIRST, 0, committed=True, coordinator_epoch=0)
    assert (partition.transaction_of(FIRST), list(partition.open_transactions())) == (None, [FIRST])


def test_those_who_watch_hear_of_a_marker() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    told: list[int] = []
    partition.watch(lambda: told.append(partition.last_stable_offset))

    end(stage, partition, FIRST, committed=True)
    assert told == [2]


def test_a_reader_in_between_never_takes_what_is_open_or_aborted_for_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may look after each part of a publication."""
    stage = Stage()
    partition = stage.partition()
    seen: list[tuple[int, list[Aborted]]] = []

    def looking(method: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: object) -> None:
            method(*arguments)
            seen.append((partition.last_stable_offset, partition.aborted(0, partition.end_offset)))

        return called

    for owner, name in ((Segment, "note"), (Producers, "replay"), (TransactionIndex, "add")):
        monkeypatch.setattr(owner, name, looking(getattr(owner, name)))
    write(partition, FIRST, 0)
    assert {stable for stable, _ in seen} == {0}
    seen.clear()
    end(stage, partition, FIRST, committed=False)
    assert {stable for stable, _ in seen} == {0, 2}
    assert all(aborted == [Aborted(FIRST, 0, 1)] for stable, aborted in seen if stable == 2)


def test_the_last_stable_offset_is_never_before_the_start() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    write(partition, FIRST, 1)
    partition.delete_before(1)

    assert (partition.last_stable_offset, partition.transaction_of(FIRST)) == (1, 0)
    end(stage, partition, FIRST, committed=False)
    assert (partition.last_stable_offset, partition.aborted(1, 3)) == (3, [Aborted(FIRST, 0, 2)])


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    write(partition, SECOND, 0)
    end(stage, partition, SECOND, committed=True)
    stage.clock.advance(stage.settings.producer_expiration_ms + 1)
    partition.expire_producers()

    assert list(partition.producers()) == [FIRST]
    assert partition.last_stable_offset == 0


# --- which batches and markers are taken


def test_a_batch_outside_of_the_transaction_is_refused_while_it_is_open() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    with pytest.raises(InvalidTransactionState, match="producer 10 sent a batch outside of its transaction"):
        partition.append_batch(sent(Producer(FIRST, 0, 1), transactional=False))
    end(stage, partition, FIRST, committed=True)

    partition.append_batch(sent(Producer(FIRST, 0, 1), transactional=False))
    assert partition.transaction_of(FIRST) is None


def test_a_repeated_batch_is_answered_as_before_whatever_became_of_its_transaction() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=True)

    assert partition.append_batch(sent(Producer(FIRST, 0, 0))).duplicate
    assert partition.transaction_of(FIRST) is None


def test_a_batch_of_a_newer_epoch_belongs_to_the_open_transaction() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    with pytest.raises(InvalidTransactionState):
        partition.append_batch(sent(Producer(FIRST, 1, 0), transactional=False))
    write(partition, FIRST, 0, epoch=1)

    assert partition.open_transactions()[FIRST][:2] == (0, 1)
    end(stage, partition, FIRST, committed=False, epoch=1)
    assert partition.aborted(0, 3) == [Aborted(FIRST, 0, 2)]


def test_a_marker_of_the_same_epoch_lets_the_sequences_go_on() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=True)

    with pytest.raises(OutOfOrderSequence):
        write(partition, FIRST, 0, count=2)
    assert write(partition, FIRST, 1) == 2


def test_a_marker_of_a_newer_epoch_begins_it_with_sequence_0() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=True, epoch=1)

    with pytest.raises(StaleProducerEpoch):
        write(partition, FIRST, 1, epoch=0)
    with pytest.raises(OutOfOrderSequence):
        write(partition, FIRST, 1, epoch=1)
    assert write(partition, FIRST, 0, epoch=1) == 2


@pytest.mark.parametrize("kind", list(TimestampType))
def test_a_marker_stands_in_the_log_as_it_would_if_it_had_been_built_and_then_placed(kind: TimestampType) -> None:
    stage = Stage()
    partition = stage.partition(message_timestamp_type=kind)
    write(partition, FIRST, 0)
    now = stage.clock.now()
    assert end(stage, partition, FIRST, committed=False, by=7) == 1

    built = build_marker(FIRST, 0, committed=False, coordinator_epoch=7, timestamp=now)
    if kind is TimestampType.LOG_APPEND_TIME:
        built = with_append_time(built, now)
    assert bytes(partition.read(1).data) == place(built, 1, partition.leader_epoch)


def test_no_limit_of_sizes_keeps_a_marker_out() -> None:
    stage = Stage()
    partition = stage.partition(max_message_bytes=10)
    assert end(stage, partition, FIRST, committed=True) == 0


def test_a_marker_that_is_refused_leaves_no_gap() -> None:
    stage = Stage()
    partition = stage.partition()
    with pytest.raises(InvalidBatch, match="a marker for producer -1"):
        partition.submit_marker(-1, 0, committed=True, coordinator_epoch=0)
    with pytest.raises(InvalidBatch, match="no coordinator epoch of 32 bits"):
        partition.submit_marker(FIRST, 0, committed=True, coordinator_epoch=2**31)
    assert end(stage, partition, FIRST, committed=True) == 0


def test_a_marker_of_an_older_epoch_is_refused() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0, epoch=3)
    with pytest.raises(StaleProducerEpoch):
        partition.submit_marker(FIRST, 2, committed=True, coordinator_epoch=0)

    assert (partition.end_offset, partition.transaction_of(FIRST)) == (1, 0)


@pytest.mark.parametrize("again", ["live", "reopened", "killed"])
def test_a_marker_of_an_older_coordinator_is_refused(again: str) -> None:
    stage = Stage()
    partition = stage.partition()
    end(stage, partition, FIRST, committed=True, by=4)
    if again != "live":
        stage.stop_and_start() if again == "reopened" else stage.kill()
        partition = stage.partition()
    with pytest.raises(CoordinatorFenced, match="came from coordinator epoch 3, but 4 is in force") as fenced:
        partition.submit_marker(FIRST, 0, committed=True, coordinator_epoch=3)

    assert (fenced.value.producer_id, fenced.value.epoch, fenced.value.current) == (FIRST, 3, 4)
    end(stage, partition, FIRST, committed=True, by=4)


def test_a_marker_without_a_transaction_is_written_and_changes_nothing() -> None:
    stage = Stage()
    partition = stage.partition()
    end(stage, partition, FIRST, committed=False)
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=True)
    end(stage, partition, FIRST, committed=False)

    assert (partition.last_stable_offset, partition.aborted(0, 4)) == (4, [])


def test_a_marker_is_written_when_the_disk_is_low() -> None:
    stage = Stage(low_disk_bytes=1000)
    partition = stage.partition()
    write(partition, FIRST, 0)
    stage.files.capacity = stage.files.used + 900
    stage.log._home._room = 0
    with pytest.raises(DiskLow):
        write(partition, FIRST, 1)

    end(stage, partition, FIRST, committed=True)
    assert partition.last_stable_offset == 2


def test_a_coordinators_batch_is_checked_by_its_epoch_alone() -> None:
    stage = Stage()
    partition = stage.partition()
    for _ in range(2):
        partition.submit(sent(Producer(FIRST, 1)), reserved=True, unnumbered=True)
    stage.log.commit()
    assert (partition.end_offset, partition.transaction_of(FIRST)) == (2, 0)
    with pytest.raises(StaleProducerEpoch):
        partition.submit(sent(Producer(FIRST, 0)), unnumbered=True)

    stage.kill()
    assert stage.partition().transaction_of(FIRST) == 0


# --- the aborted ones


def test_aborted_transactions_are_found_by_what_a_reader_reads() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)  # 0
    write(partition, SECOND, 0)  # 1
    end(stage, partition, SECOND, committed=False)  # 2
    write(partition, FIRST, 1)  # 3
    end(stage, partition, FIRST, committed=False)  # 4
    partition.append([Record(b"tea")])  # 5
    first, second = Aborted(FIRST, 0, 4), Aborted(SECOND, 1, 2)

    assert partition.aborted(0, 6) == [first, second]
    assert partition.aborted(0, 1) == [first]
    assert partition.aborted(2, 3) == [first, second]
    assert partition.aborted(3, 6) == [first]
    assert partition.aborted(5, 6) == []


def test_a_transaction_is_found_in_the_segment_of_its_marker() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    partition.roll()
    partition.append([Record(b"tea")])
    partition.roll()
    end(stage, partition, FIRST, committed=False)
    partition.roll()

    for again in (lambda: stage.log, stage.stop_and_start, stage.kill):
        again()
        assert stage.partition().aborted(0, 1) == [Aborted(FIRST, 0, 2)]
    names = [name for name in stage.files.list(f"{DATA}/orders-0") if name.endswith(".txnindex")]
    assert names == [f"{2:020d}.txnindex"]


def test_the_file_is_kafkas() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, SECOND, 0)
    write(partition, FIRST, 0, count=3)
    end(stage, partition, FIRST, committed=False)
    partition.roll()

    path = txn_index(stage, partition, 0)
    assert stage.files.open(path).read(100, 0) == struct.pack(">hqqqq", 0, FIRST, 1, 4, 0)
    assert list(rows_of(stage.files, path)) == [TxnIndexRow(0, FIRST, 1, 4, 0)]


def test_no_file_is_made_where_nothing_was_aborted() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=True)
    partition.roll()
    partition.append([Record(b"tea")])
    stage.stop_and_start()

    assert not [line for line in stage.files.history if ".txnindex" in line]
    assert not [name for name in stage.files.list(f"{DATA}/orders-0") if name.endswith(".txnindex")]


def test_a_search_does_not_look_into_later_segments_without_need() -> None:
    stage = Stage()
    partition = stage.partition()
    for number in range(4):
        write(partition, FIRST, number)
        end(stage, partition, FIRST, committed=False)
        partition.roll()
    stage.stop_and_start()
    partition = stage.partition()
    stage.files.fail("open", f"{4:020d}", errno.EIO, times=100)

    assert partition.aborted(0, 2) == [Aborted(FIRST, 0, 1)]
    with pytest.raises(OSError, match="Input/output error"):
        partition.aborted(0, 5)


@pytest.mark.parametrize("spoil", ["remove", "empty", "change", "shorten"])
@pytest.mark.parametrize("sealed", [True, False])
def test_an_index_that_is_missing_or_wrong_is_made_anew(
    spoil: str, sealed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    write(partition, SECOND, 0)
    partition.roll()
    end(stage, partition, FIRST, committed=False)
    end(stage, partition, SECOND, committed=False)
    partition.append([Record(b"tea")])
    if sealed:
        partition.roll()
    expected = partition.aborted(0, 5)
    assert expected == [Aborted(FIRST, 0, 2), Aborted(SECOND, 1, 3)]
    stage.log.close()
    file = stage.files.open(txn_index(stage, partition, 2))
    match spoil:
        case "remove":
            stage.files.remove(txn_index(stage, partition, 2))
        case "empty":
            file.truncate(0)
        case "change":
            file.write([b"\x07"], 17)
        case "shorten":
            file.truncate(34)
    stage.log = stage.open()
    assert stage.partition().aborted(0, 5) == expected
    assert "is missing or does not fit the segment, and is made anew" in caplog.text
    caplog.clear()
    stage.stop_and_start()
    assert stage.partition().aborted(0, 5) == expected
    assert caplog.text == ""


def test_without_snapshots_the_log_is_replayed_from_its_start() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    partition.roll()
    write(partition, SECOND, 0)
    end(stage, partition, FIRST, committed=False)
    partition.roll()
    stage.log.close()
    for name in stage.files.list(f"{DATA}/orders-0"):
        if name.endswith((".snapshot", ".txnindex")) and name != f"{3:020d}.snapshot":
            stage.files.remove(f"{DATA}/orders-0/{name}")
    stage.log = stage.open()

    assert stage.partition().aborted(0, 3) == [Aborted(FIRST, 0, 2)]
    assert stage.partition().last_stable_offset == 1


def test_the_index_goes_with_its_segment() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=False)
    partition.roll()
    partition.append([Record(b"tea")])
    path = txn_index(stage, partition, 0)
    assert stage.files.exists(path)
    partition.delete_before(2)

    assert not stage.files.exists(path)
    assert partition.aborted(0, 3) == []


def test_an_index_without_a_segment_is_removed_at_the_next_start() -> None:
    stage = Stage()
    partition = stage.partition()
    partition.append([Record(b"tea")])
    stage.log.close()
    orphan = txn_index(stage, partition, 7)
    stage.files.open(orphan, create=True).write([bytes(34)], 0)
    stage.log = stage.open()
    stage.partition()

    assert not stage.files.exists(orphan)


# --- crashes and failures


def lived_through(stage: Stage) -> tuple[int, list[int], list[Aborted]]:
    partition = stage.partition()
    return (
        partition.last_stable_offset,
        [known.first_offset for known in partition.open_transactions().values()],
        partition.aborted(0, partition.end_offset),
    )


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_after_a_power_cut_the_log_knows_the_same(rolls: bool, checkpoints: bool, seed: int) -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    write(partition, SECOND, 0)
    end(stage, partition, FIRST, committed=False)
    if rolls:
        partition.roll()
    if checkpoints:
        stage.log.checkpoint()
    write(partition, FIRST, 1)
    end(stage, partition, SECOND, committed=False)
    known = lived_through(stage)
    assert known == (3, [3], [Aborted(FIRST, 0, 2), Aborted(SECOND, 1, 4)])
    stage.lose_power(seed)

    assert lived_through(stage) == known


def relaxed_with_an_open_transaction() -> tuple[Stage, Partition]:
    """FIRST's transaction is synced, and that it was aborted; SECOND's is only written."""
    stage = Stage()
    partition = stage.partition(flush_messages=100)
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=False)
    write(partition, SECOND, 0)
    assert (partition.last_stable_offset, partition.aborted(0, 3)) == (2, [Aborted(FIRST, 0, 1)])
    return stage, partition


@pytest.mark.parametrize("relaxed", [{"flush_messages": 100}, {"flush_ms": 60_000}])
def test_a_marker_is_synced_before_it_is_answered_also_where_records_are_not(relaxed: dict[str, int]) -> None:
    stage = Stage()
    partition = stage.partition(**relaxed)
    write(partition, FIRST, 0)
    assert partition.synced_offset == 0
    end(stage, partition, FIRST, committed=True)

    assert partition.synced_offset == 2
    write(partition, FIRST, 1)
    assert partition.synced_offset == 2


def test_what_a_failed_sync_drops_is_forgotten_at_once_and_after_healing() -> None:
    stage, partition = relaxed_with_an_open_transaction()
    stage.files.fail("sync", ".log", errno.EIO, times=1)
    with pytest.raises(PartitionFailed):
        partition.delete_before(3)

    for _ in range(2):
        assert lived_through(stage) == (2, [], [Aborted(FIRST, 0, 1)])
        assert (partition.transaction_of(FIRST), partition.transaction_of(SECOND)) == (None, None)
        assert partition.heal()


def test_a_marker_whose_sync_fails_ends_nothing() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=100)
    write(partition, FIRST, 0)
    stage.log.checkpoint()
    stage.files.fail("sync", ".log", errno.EIO, times=1)
    with pytest.raises(PartitionFailed):
        end(stage, partition, FIRST, committed=False)

    for _ in range(2):
        assert lived_through(stage) == (0, [0], [])
        assert partition.transaction_of(FIRST) == 0
        assert partition.heal()
    end(stage, partition, FIRST, committed=True)
    assert lived_through(stage) == (2, [], [])


def test_a_marker_that_was_answered_survives_every_power_cut() -> None:
    ends: set[int] = set()
    for seed in range(20):
        stage, partition = relaxed_with_an_open_transaction()
        stage.lose_power(seed)
        partition = stage.partition()
        ends.add(partition.end_offset)
        assert partition.aborted(0, 2) == [Aborted(FIRST, 0, 1)]
        assert partition.transaction_of(SECOND) == (2 if partition.end_offset == 3 else None)
    assert ends == {2, 3}


def test_damage_in_a_marker_is_quarantined() -> None:
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    position = partition.size
    end(stage, partition, FIRST, committed=True)
    partition.append([Record(b"tea")])
    stage.log.close()
    for name in stage.files.list(f"{DATA}/orders-0"):
        if name.endswith(".snapshot"):
            stage.files.remove(f"{DATA}/orders-0/{name}")
    stage.files.open(f"{DATA}/{segment_path(partition, 0)}").write([b"\xff"], position + 70)
    stage.log = stage.open()
    partition = stage.partition()

    assert partition.last_stable_offset == 0  # how it ended is lost, so nobody may say that it has
    assert [finding.damage for finding in stage.log.findings] == [True]


# --- looking into the files


def test_verify_finds_what_is_wrong_in_an_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("log") / "data"
    log = open_on_disk(path)
    partition = log.partition("orders")
    for number in range(3):
        partition.append_batch(sent(Producer(FIRST, 0, number)))
        partition.submit_marker(FIRST, 0, committed=number == 1, coordinator_epoch=0)
        log.commit()
    partition.roll()
    log.close()
    index = path / "orders-0" / f"{0:020d}.txnindex"
    report = verify(path)
    assert report.problems == []

    entries = [index.read_bytes()[start : start + 34] for start in (0, 34)]
    for content, told in {
        entries[0]: "no entry for the aborted transaction of producer 10 from offset 4 to 5",
        entries[1] + entries[0]: "follows the one to offset 5",
        entries[0] + struct.pack(">hqqqq", 0, FIRST, 5, 5, 6): "begins after offset 4, where the transaction does",
        entries[0] + struct.pack(">hqqqq", 0, FIRST, 2, 5, 6): "begins before offset 3, where the transaction before",
        entries[0] + struct.pack(">hqqqq", 0, FIRST, 2, 3, 6): "belongs to no marker that aborts",
        entries[0] + struct.pack(">hqqqq", 0, SECOND, 4, 5, 6): "belongs to no marker that aborts",
        entries[0] + struct.pack(">hqqqq", 1, FIRST, 4, 5, 6): "entry of version 1, only version 0 is known",
        b"".join(entries) + b"x": "1 byte is left, an entry has 34",
    }.items():
        index.write_bytes(content)
        problems = [problem.what for problem in verify(path).problems]
        assert any(told in what for what in problems), (told, problems)
    index.unlink()
    report = verify(path)
    assert report.is_well
    assert [note.what for note in report.problems] == ["it is missing, and is made anew when the segment is read"]


def test_an_unclean_stop_leaves_nothing_that_verify_would_call_a_problem() -> None:
    chance = Random(0)
    stage = Stage()
    partition = stage.partition()
    write(partition, FIRST, 0)
    end(stage, partition, FIRST, committed=False)
    stage.log.checkpoint()
    write(partition, FIRST, 1)
    end(stage, partition, FIRST, committed=False)
    files = stage.files.crash(chance)

    assert verify(DATA, files=files).is_well
    assert parse_header(files.open(f"{DATA}/{segment_path(partition, 0)}").read(61, 0)).is_transactional
