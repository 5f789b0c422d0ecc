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


def test_an_empty_transactional_id_is_refused(wire: Wire) -> None:
    assert ask(wire, transactional_id="")["error_code"] == ErrorCode.INVALID_REQUEST


# --- with a transactional id


@pytest.mark.parametrize("version", range(7))
def test_each_producer_of_a_transactional_id_has_the_next_epoch_of_its_producer_id(wire: Wire, version: int) -> None:
    name = f"each-{version}"
    first, second = (ask(wire, version, name) for _ in range(2))
    assert (first["error_code"], first["producer_epoch"]) == (ErrorCode.NONE, 0)
    assert (second["error_code"], second["producer_epoch"]) == (ErrorCode.NONE, 1)
    assert first["producer_id"] == second["producer_id"] >= 0
    assert ask(wire, version, f"other-{version}")["producer_id"] != first["producer_id"]


@pytest.mark.parametrize("version", range(3, 7))
def test_a_producer_may_bring_its_epoch_and_get_the_next(wire: Wire, version: int) -> None:
    name = f"brought-{version}"
    producer_id = ask(wire, version, name)["producer_id"]
    for _ in range(2):  # also when it asks again
        answer = ask(wire, version, name, (producer_id, 0))
        assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (0, producer_id, 1)


@pytest.mark.parametrize("version", range(3, 7))
def test_a_producer_that_another_has_replaced_is_fenced(wire: Wire, version: int) -> None:
    name = f"fenced-{version}"
    producer_id = ask(wire, version, name)["producer_id"]
    ask(wire, version, name)
    fenced = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    answer = ask(wire, version, name, (producer_id, 0))
    assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (fenced, -1, -1)


@pytest.mark.parametrize("old", [(7, -1), (-1, 7)])
def test_half_of_a_producer_is_refused(wire: Wire, old: tuple[int, int]) -> None:
    assert ask(wire, 4, "half", old)["error_code"] == ErrorCode.INVALID_REQUEST


def test_two_phase_commit_is_off(wire: Wire) -> None:
    body = {"transactional_id": "two", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    for wish in ("enable2_pc", "keep_prepared_txn"):
        answer = wire.ask(
            Api.INIT_PRODUCER_ID, 6, **body | {"enable2_pc": False, "keep_prepared_txn": False, wish: True}
        )
        assert answer["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("timeout", "error"), [(0, 50), (-1, 50), (900_001, 50), (1, 0), (900_000, 0)])
def test_the_time_out_has_limits(wire: Wire, timeout: int, error: int) -> None:
    body = {"transactional_id": "timed", "producer_id": -1, "producer_epoch": -1, "enable2_pc": False}
    answer = wire.ask(Api.INIT_PRODUCER_ID, 6, **body, transaction_timeout=timeout, keep_prepared_txn=False)
    assert answer["error_code"] == error


@pytest.mark.parametrize("name", ["x" * 32_768, "\N{SNOWMAN}" * 11_000])
def test_a_transactional_id_that_no_record_can_hold_is_refused(wire: Wire, name: str) -> None:
    assert ask(wire, 4, name)["error_code"] == ErrorCode.INVALID_REQUEST
    assert ask(wire, 4, "x" * 32_767)["error_code"] == ErrorCode.NONE
