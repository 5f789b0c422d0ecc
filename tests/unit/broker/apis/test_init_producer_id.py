import shutil
from pathlib import Path

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Producer
from tests.broker_wire import Wire, batch_of, produce


def ask(wire: Wire, version: int = 4, transactional_id: str | None = None, old: tuple[int, int] = (-1, -1)) -> Message:
    body = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
    body |= {"producer_id": old[0], "producer_epoch": old[1], "enable2_pc": False, "keep_prepared_txn": False}
    return wire.ask(Api.INIT_PRODUCER_ID, version, **body)


@pytest.mark.parametrize("version", range(7))
def test_every_answer_is_a_new_id(wire: Wire, version: int) -> None:
    first, second = ask(wire, version), ask(wire, version)
    assert [first["error_code"], second["error_code"]] == [ErrorCode.NONE, ErrorCode.NONE]
    assert [first["producer_epoch"], second["producer_epoch"]] == [0, 0]
    assert 0 <= first["producer_id"] != second["producer_id"] >= 0


def test_many_clients_at_once_get_different_ids(wire: Wire, other: Wire) -> None:
    sent = [
        (each, each.send(Api.INIT_PRODUCER_ID, 0, transactional_id=None, transaction_timeout=1))
        for _ in range(50)
        for each in (wire, other)
    ]
    assert len({each.receive(request)["producer_id"] for each, request in sent}) == 100


def test_a_producer_that_brings_its_old_id_gets_a_new_one(wire: Wire) -> None:
    before = ask(wire)
    after = ask(wire, old=(before["producer_id"], before["producer_epoch"]))
    assert (after["error_code"], after["producer_epoch"]) == (ErrorCode.NONE, 0)
    assert after["producer_id"] != before["producer_id"]


def test_an_id_is_never_given_out_twice_not_even_after_a_crash(tmp_path: Path) -> None:
    """A copy of the files of a running broker is what a crash leaves."""
    given = []
    folder = tmp_path / "0"
    for crash in range(1, 4):
        with Broker(folder) as broker, Wire(broker.bootstrap) as wire:
            given += [ask(wire)["producer_id"] for _ in range(3)]
            folder = Path(shutil.copytree(folder, tmp_path / str(crash)))
    assert len(set(given)) == 9


def test_the_id_can_be_used_at_once(wire: Wire, topic: str) -> None:
    answer = ask(wire)
    batch = batch_of(b"a", producer=Producer(answer["producer_id"], answer["producer_epoch"], 0))
    assert produce(wire, topic, batch)["error_code"] == ErrorCode.NONE


def test_transactions_are_not_served(wire: Wire) -> None:
    answer = ask(wire, transactional_id="t")
    assert (answer["error_code"], answer["producer_id"]) == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_an_empty_transactional_id_is_refused(wire: Wire) -> None:
    assert ask(wire, transactional_id="")["error_code"] == ErrorCode.INVALID_REQUEST
