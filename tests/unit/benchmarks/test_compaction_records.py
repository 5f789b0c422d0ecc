"""The records that the benchmark of compaction sends."""

import pytest

from benchmarks import broker_wire as wire
from benchmarks import compaction_records
from benchmarks.compaction_records import KEY_SIZE, RECORDS_OF_A_BATCH, VALUE_SIZE, keyed_batches, read_batches, send
from runnel.records import build_batch, parse_header, records_of


def records_in(batches):
    return [record for batch in batches for record in records_of(batch)]


def test_a_batch_is_what_the_builder_of_single_records_makes():
    (batch,) = keyed_batches(100, 10)
    assert batch == build_batch(records_in([batch]))


@pytest.mark.parametrize("count", [1, RECORDS_OF_A_BATCH, 3 * RECORDS_OF_A_BATCH + 5])
def test_there_are_as_many_records_as_asked_for_with_their_numbers_in_their_values(count):
    records = records_in(keyed_batches(count, 10))
    assert [int(record.value[:16]) for record in records] == list(range(count))
    assert {len(record.key) for record in records} == {KEY_SIZE}
    assert {len(record.value) for record in records} == {VALUE_SIZE}


def test_keys_come_again_by_chance_and_in_every_run_the_same():
    first, second = ([record.key for record in records_in(keyed_batches(1_000, 50))] for _ in range(2))
    assert first == second
    assert len(set(first)) == 50
    assert first[:50] != sorted(first[:50])


def test_batches_of_a_file_are_read_one_by_one(tmp_path):
    batches = list(keyed_batches(300, 10))
    path = tmp_path / "batches"
    path.write_bytes(b"".join(batches))
    assert list(read_batches(path)) == batches
    assert sum(parse_header(batch).count for batch in read_batches(path)) == 300


class Broker:
    """A socket that answers every request, and remembers how many were waiting at most."""

    def __init__(self, error=0):
        self.error = error
        self.requests = []
        self.waiting = self.most_waiting = 0

    def sendall(self, frame):
        self.requests.append(frame)
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)

    def answer(self, *_):
        self.waiting -= 1
        return {"responses": [{"partition_responses": [{"error_code": self.error}]}]}


def sent_to(broker, batches, monkeypatch):
    monkeypatch.setattr(compaction_records.wire, "answer_of", broker.answer)
    send(broker, "orders", batches)


def test_all_batches_are_sent_and_all_answers_awaited(monkeypatch):
    broker, batches = Broker(), list(keyed_batches(20 * RECORDS_OF_A_BATCH, 10))
    sent_to(broker, batches, monkeypatch)
    assert broker.requests == [wire.produce_frame("orders", {0: batch}) for batch in batches]
    assert broker.waiting == 0
    assert 1 < broker.most_waiting < len(batches)


def test_a_batch_that_is_refused_ends_the_benchmark(monkeypatch):
    with pytest.raises(wire.BrokerRefused, match="error 87"):
        sent_to(Broker(error=87), keyed_batches(1, 1), monkeypatch)
