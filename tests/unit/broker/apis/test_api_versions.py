import struct

import pytest

from runnel.protocol.decode import Message, read_response
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.own import ANSWERED
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, framed, metadata

every_version = pytest.mark.parametrize("version", range(5))


def ask(wire: Wire, version: int, name: str = "client", software_version: str = "1.0") -> Message:
    return wire.ask(Api.API_VERSIONS, version, client_software_name=name, client_software_version=software_version)


def rows(answer: Message) -> dict[int, tuple[int, int]]:
    return {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}


def raw(key: int, version: int, correlation_id: int = 5, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", key, version, correlation_id, -1) + body)


@every_version
def test_every_api_that_is_served_has_its_row(wire: Wire, version: int) -> None:
    answer = ask(wire, version)
    assert answer["error_code"] == ErrorCode.NONE
    assert rows(answer) == {int(key): tuple(ANSWERED[key]) for key in ANSWERED} | {Api.PRODUCE: (0, 13)}


def test_produce_is_advertised_from_0_on_and_served_from_3_on(wire: Wire) -> None:
    """Older clients of librdkafka take a least version of 3 for a broker that knows no compression."""
    assert rows(ask(wire, 3))[Api.PRODUCE] == (0, 13)
    wire.send_bytes(raw(Api.PRODUCE, 2, body=b"\xff\xff" + struct.pack(">hii", 1, 1000, 0)))
    assert wire.is_closed()


def test_join_group_is_served_from_0_on(wire: Wire) -> None:
    """Older clients of librdkafka ask for it to know whether a broker can log in with GSSAPI."""
    assert rows(ask(wire, 0))[Api.JOIN_GROUP][0] == 0


def test_telemetry_is_not_advertised(wire: Wire) -> None:
    """librdkafka and Java send it as soon as it is."""
    assert {71, 72} & set(rows(ask(wire, 4))) == set()


@pytest.mark.parametrize("version", [3, 4])
def test_the_second_generation_of_transactions_is_among_the_features(wire: Wire, version: int) -> None:
    answer = ask(wire, version)
    finalised = {
        each["name"]: (each["min_version_level"], each["max_version_level"]) for each in answer["finalized_features"]
    }
    assert finalised["transaction.version"] == (2, 2)
    assert answer["finalized_features_epoch"] >= 0


def test_features_that_can_be_off_are_supported_from_version_4_on(wire: Wire) -> None:
    """Java's clients before 3.8 ask in version 3, and fail over a least version of 0 (KAFKA-17011)."""
    supported = {
        version: {each["name"]: (each["min_version"], each["max_version"]) for each in answer["supported_features"]}
        for version in (3, 4)
        for answer in (ask(wire, version),)
    }
    assert supported[3] == {}
    assert supported[4] == {"group.version": (0, 1), "transaction.version": (0, 2)}


def test_the_header_of_the_answer_is_the_oldest_in_every_version(wire: Wire) -> None:
    for version in range(5):
        body = b"" if version < 3 else b"\x00\x07client\x041.0\x00"
        wire.send_bytes(raw(Api.API_VERSIONS, version, body=body))
        answer = wire.receive_frame()
        assert read_response(Api.API_VERSIONS, version, answer[4:])["error_code"] == 0


# --- versions that are not served


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_version_that_is_not_served_is_answered_in_version_0_with_the_row_of_this_api(
    wire: Wire, version: int
) -> None:
    wire.send_bytes(raw(Api.API_VERSIONS, version, correlation_id=123, body=b"\x00something new"))
    answer = wire.receive_frame()
    assert struct.unpack(">i", answer[:4]) == (123,)
    found = read_response(Api.API_VERSIONS, 0, answer[4:])
    assert found["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert rows(found)[Api.API_VERSIONS] == (0, 4)
    assert ask(wire, 4)["error_code"] == ErrorCode.NONE, "the client can ask again"


def test_nothing_is_left_over_after_the_answer_in_version_0(wire: Wire) -> None:
    wire.send_bytes(raw(Api.API_VERSIONS, 99))
    answer = wire.receive_frame()
    (count,) = struct.unpack_from(">i", answer, 6)
    assert len(answer) == 4 + 2 + 4 + 6 * count


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (Api.METADATA, 14),
        (Api.METADATA, -1),
        (Api.FETCH, 3),
        (Api.LIST_OFFSETS, 0),
        (Api.CREATE_TOPICS, 1),
        (4, 0),
        (71, 0),
        (999, 0),
        (-1, 0),
        (32767, 32767),
    ],
)
def test_any_other_unknown_key_or_version_ends_the_connection_and_no_other(
    wire: Wire, other: Wire, key: int, version: int
) -> None:
    metadata(other)
    wire.send_bytes(raw(key, version, body=bytes(50)))
    assert wire.is_closed()
    assert metadata(other)["brokers"]


# --- the client's name


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "librdkafka", "a.b-c1", "1"])
def test_a_client_says_its_name_and_version(wire: Wire, version: int, name: str) -> None:
    assert ask(wire, version, name, name)["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "-a", "a-", ".a", "a b", "ü", "a_b", "a\n"])
def test_a_name_that_is_no_name_is_an_invalid_request(wire: Wire, version: int, name: str) -> None:
    assert ask(wire, version, name=name)["error_code"] == ErrorCode.INVALID_REQUEST
    assert ask(wire, version, software_version=name)["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(3))
def test_before_version_3_no_name_is_asked_for(wire: Wire, version: int) -> None:
    assert ask(wire, version, name="")["error_code"] == ErrorCode.NONE
