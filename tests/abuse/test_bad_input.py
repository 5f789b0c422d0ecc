"""Bad input on the socket: the broker stays up, says so in one line at most, and serves the others as before."""

import random
import socket
import struct

import pytest
from crc32c import crc32c

from runnel.protocol.decode import MOST_ITEMS
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from runnel.records import HEADER_SIZE
from tests.abuse.broker_process import wait_until
from tests.abuse.conftest import Victim
from tests.abuse.wire import (
    HEADER,
    LENGTH,
    Client,
    batch_of,
    create_topics,
    fetch,
    fetched,
    fill,
    framed,
    make_topics,
    produce,
    produced,
    request,
    who_are_you,
)

CRC_AT = 17
LAST_OFFSET_DELTA_AT = 23
COUNT_AT = 57
SLACK_MIB = 48  # a process breathes; a leak of what these tests send would be hundreds
TOPIC = "abused"


@pytest.fixture(scope="module", autouse=True)
def _topic(victim: Victim) -> None:
    make_topics(victim.address, TOPIC)
    fill(victim.address, TOPIC, 900_000, 20)


def closes(victim: Victim, data: bytes) -> bool:
    with victim.connect() as client:
        client.send(data)
        return client.is_closed()


# --- bytes that are no requests


def test_random_bytes_close_the_connection(victim, seed):
    chance = random.Random(seed)
    for _ in range(200):
        with victim.connect() as client:
            client.send(chance.randbytes(chance.randrange(4, 400)))
            client.socket.shutdown(socket.SHUT_WR)  # they may announce more than they bring
            assert client.is_closed()
    victim.check()


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 7, 100 * 2**20 + 1, 2**31 - 1])
def test_a_length_that_no_request_can_have_closes_the_connection_at_once(victim, length):
    assert closes(victim, LENGTH.pack(length))
    victim.check()


def test_the_first_bytes_of_other_protocols_close_the_connection(victim):
    tls = bytes.fromhex("16030100c8010000c403030000000000000000000000000000000000000000")
    for greeting in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", tls):
        assert closes(victim, greeting)
    victim.check()


def test_a_truncated_request_waits_for_its_rest(victim):
    with victim.connect() as client:
        whole = who_are_you(7)
        client.send(whole[:-1])
        client.send(whole[-1:])
        assert client.answer()[:4] == LENGTH.pack(7)


def test_a_truncated_request_is_forgotten_when_its_client_goes(victim):
    files = victim.broker.open_files()
    for _ in range(100):
        with victim.connect() as client:
            client.send(LENGTH.pack(50_000_000) + bytes(10_000))
    wait_until(lambda: victim.broker.open_files() <= files, "the connections are closed")
    victim.check()


@pytest.mark.parametrize("cut", range(8, 40, 3))
def test_a_request_that_ends_in_the_middle_of_a_field_closes_the_connection(victim, cut):
    whole = fetch(TOPIC)
    assert closes(victim, framed(whole[4 : 4 + cut]))


def test_a_client_id_that_reaches_beyond_the_request_closes_the_connection(victim):
    assert closes(victim, framed(HEADER.pack(Api.API_VERSIONS, 0, 1, 30_000) + b"abc"))
    assert closes(victim, framed(HEADER.pack(Api.API_VERSIONS, 0, 1, -2) + b"abc"))


def test_an_array_with_more_items_than_bytes_closes_the_connection(victim):
    body = struct.pack(">i", 2**31 - 1)
    assert closes(victim, framed(HEADER.pack(Api.METADATA, 1, 1, -1) + body))
    assert closes(victim, framed(HEADER.pack(Api.METADATA, 9, 1, -1) + b"\x00" + b"\xff\xff\xff\xff\x07" + bytes(50)))
    victim.check()


@pytest.mark.parametrize("key", [4, 5, 6, 7, 17, 51, 67, 999, -1, 2**15 - 1])
def test_an_unknown_api_closes_the_connection(victim, key):
    assert closes(victim, framed(HEADER.pack(key, 0, 1, -1) + bytes(20)))


@pytest.mark.parametrize("key", sorted(set(SERVED) - {Api.API_VERSIONS}))
def test_an_unknown_version_of_a_known_api_closes_the_connection(victim, key):
    for version in {SERVED[key].most + 1, SERVED[key].least - 1, 2**15 - 1}:
        assert closes(victim, framed(HEADER.pack(key, version, 1, -1) + bytes(20)))


@pytest.mark.parametrize("version", [5, 99, 2**15 - 1, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(victim, version):
    with victim.connect() as client:
        client.send(framed(HEADER.pack(Api.API_VERSIONS, version, 9, -1) + b"\xff\x00garbage"))
        answer = client.read(Api.API_VERSIONS, 0, 9)
        assert answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION
        assert client.is_answered()


# --- batches that are none


def spoiled(position: int, size: int) -> bytes:
    batch = bytearray(batch_of(b"one", b"two"))
    for place in range(position, position + size):
        batch[place] ^= 0x01
    return bytes(batch)


def recounted(count: int) -> bytes:
    """Counts are under the checksum: made to fit again, so that they alone are wrong."""
    batch = bytearray(batch_of(b"one", b"two"))
    struct.pack_into(">i", batch, COUNT_AT, count)
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[CRC_AT + 4 :])))
    return bytes(batch)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(spoiled(CRC_AT, 1), ErrorCode.CORRUPT_MESSAGE, id="checksum"),
        pytest.param(spoiled(HEADER_SIZE + 3, 1), ErrorCode.CORRUPT_MESSAGE, id="a byte of a record"),
        pytest.param(spoiled(LAST_OFFSET_DELTA_AT, 4), ErrorCode.CORRUPT_MESSAGE, id="last offset"),
        pytest.param(spoiled(8, 4), ErrorCode.INVALID_RECORD, id="length"),
        # CORRUPT_MESSAGE is taken for damage on the way, and sent again and again: only for checksums.
        pytest.param(recounted(3), ErrorCode.INVALID_RECORD, id="one record too many"),
        pytest.param(recounted(0), ErrorCode.INVALID_RECORD, id="no records"),
        pytest.param(recounted(-1), ErrorCode.INVALID_RECORD, id="less than no records"),
        pytest.param(recounted(2**31 - 1), ErrorCode.INVALID_RECORD, id="two thousand million records"),
        pytest.param(batch_of(b"one")[:-1], ErrorCode.CORRUPT_MESSAGE, id="the last byte missing"),
        pytest.param(batch_of(b"one") + b"\x00", ErrorCode.INVALID_RECORD, id="a byte too many"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(bytes(HEADER_SIZE), ErrorCode.INVALID_RECORD, id="zeros"),
    ],
)
def test_a_batch_that_does_not_fit_itself_is_refused_and_the_connection_goes_on(victim, batch, code):
    with victim.connect() as client:
        client.send(produce(TOPIC, batch, correlation_id=1))
        assert produced(client.read(Api.PRODUCE, 9, 1)) == (code, -1)
        assert client.is_answered()
    victim.check()


def test_nothing_of_a_refused_batch_can_be_read(victim):
    make_topics(victim.address, "refused")
    with victim.connect() as client:
        client.send(produce("refused", spoiled(CRC_AT, 1), correlation_id=1))
        client.read(Api.PRODUCE, 9, 1)
        client.send(fetch("refused", correlation_id=2))
        assert fetched(client.read(Api.FETCH, 11, 2)) == (0, b"")


def test_a_topic_with_two_thousand_million_partitions_is_refused(victim):
    with victim.connect() as client:
        client.send(create_topics("huge", partitions=2**31 - 1))
        assert client.read(Api.CREATE_TOPICS, 5)["topics"][0]["error_code"] == ErrorCode.POLICY_VIOLATION
    with victim.connect() as client:
        partitions = [{"name": TOPIC, "count": 2**31 - 1, "assignments": None}]
        body = {"topics": partitions, "timeout": 60_000, "validate_only": False}
        answer = client.ask(Api.CREATE_PARTITIONS, 1, body)
        assert answer["results"][0]["error_code"] == ErrorCode.INVALID_PARTITIONS
    victim.check()


# --- clients that behave oddly


def test_a_request_sent_byte_by_byte_is_answered(victim):
    with victim.connect() as client:
        for byte in produce(TOPIC, batch_of(b"slowly"), correlation_id=3):
            client.send(bytes([byte]))
        assert produced(client.read(Api.PRODUCE, 9, 3))[0] == 0


def test_requests_sent_together_are_answered_in_their_order(victim):
    with victim.connect() as client:
        requests = [who_are_you(1), fetch(TOPIC, correlation_id=2, max_bytes=10), fetch(TOPIC, correlation_id=3)]
        requests += [produce(TOPIC, batch_of(b"x"), correlation_id=4), fetch("none", correlation_id=5), who_are_you(6)]
        client.send(b"".join(requests))
        assert [LENGTH.unpack_from(client.answer())[0] for _ in requests] == [1, 2, 3, 4, 5, 6]


def test_a_half_closed_connection_is_closed(victim):
    files = victim.broker.open_files()
    clients = [victim.connect() for _ in range(50)]
    for number, client in enumerate(clients):
        if number % 2:
            client.send(fetch(TOPIC, 10**6, max_wait=600_000, min_bytes=1)[: 10 + number])
        client.socket.shutdown(socket.SHUT_WR)
    assert all(client.is_closed() for client in clients)
    for client in clients:
        client.close()
    wait_until(lambda: victim.broker.open_files() <= files, "the connections are closed")
    victim.check()


def test_a_long_poll_of_a_client_that_left_is_forgotten(victim):
    """Also one that has read a part of what it waits for: it must not keep that."""

    def leave_polls(count: int) -> None:
        for _ in range(count):
            with victim.connect() as client:
                client.send(who_are_you(1) + fetch(TOPIC, min_bytes=2**31 - 1, max_wait=3_600_000, max_bytes=2**30))
                client.answer()
        victim.check()

    leave_polls(3)
    before = victim.broker.resident_mib()
    leave_polls(30)  # of 18 MB each
    assert victim.broker.resident_mib() <= before + SLACK_MIB


def test_a_thousand_silent_connections_cost_little_and_harm_nobody(victim):
    files, before = victim.broker.open_files(), victim.broker.resident_mib()
    clients = [victim.connect() for _ in range(1_000)]
    try:
        wait_until(lambda: victim.broker.open_files() >= files + 1_000, "all are connected")
        victim.check()
        assert victim.broker.resident_mib() <= before + SLACK_MIB
        assert clients[0].is_answered()
        assert clients[-1].is_answered()
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: victim.broker.open_files() <= files, "all are gone")
    victim.check()


def test_a_storm_of_connections_that_are_reset_harms_nobody(victim, seed):
    chance = random.Random(seed)
    pieces = [b"", who_are_you(), who_are_you()[:5], fetch(TOPIC), fetch(TOPIC, 0, min_bytes=1 << 30, max_wait=1_000)]
    pieces += [produce(TOPIC, batch_of(b"reset")), b"\x00\x00"]

    def storm(count: int) -> None:
        for _ in range(count):
            client = victim.connect()
            client.send(b"".join(chance.choices(pieces, k=chance.randrange(4))))
            client.reset()
        victim.check()

    files = victim.broker.open_files()
    storm(100)
    before = victim.broker.resident_mib()
    storm(500)
    assert victim.broker.resident_mib() <= before + SLACK_MIB
    wait_until(lambda: victim.broker.open_files() <= files, "all are gone")


def test_a_client_that_never_reads_is_not_read_from_and_costs_one_fetch_at_most(victim):
    """It asks for 18 MB a hundred times."""
    fetches = b"".join(fetch(TOPIC, correlation_id=number) for number in range(100))
    before = victim.broker.resident_mib()
    clients = [victim.connect(receive_buffer=4096) for _ in range(4)]
    try:
        for client in clients:
            client.send(fetches)
        victim.check()
        assert victim.broker.resident_mib() <= before + SLACK_MIB + 4 * 18 * 2
    finally:
        for client in clients:
            client.reset()
    victim.check()


def test_clients_that_never_read_share_what_they_may_hold(victim):
    """Sixty of them would hold a gigabyte, if each got what it asks for."""
    before = victim.broker.resident_mib()
    clients = [victim.connect(receive_buffer=4096) for _ in range(60)]
    try:
        for client in clients:
            client.send(fetch(TOPIC))
        victim.check()
        assert victim.broker.resident_mib() <= before + 128 + 60 + 2 * SLACK_MIB  # the limit, and a batch for each
    finally:
        for client in clients:
            client.reset()
    victim.check()


def test_a_slow_reader_gets_everything_it_asked_for(victim):
    with victim.connect(receive_buffer=4096) as client:
        client.send(fetch(TOPIC, correlation_id=1) + who_are_you(2) + fetch(TOPIC, correlation_id=3))
        code, batches = fetched(client.read(Api.FETCH, 11, 1))
        assert (code, len(batches) > 18_000_000) == (0, True)
        assert client.answer()[:4] == LENGTH.pack(2)
        assert fetched(client.read(Api.FETCH, 11, 3)) == (0, batches)


@pytest.mark.parametrize("items", [90_000, 400_000])
def test_a_request_of_very_many_items_is_answered_or_refused_and_the_others_go_on(victim, items):
    topics = [{"topic": "none", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}] * items}]
    body = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1, "forgotten_topics_data": []}
    large = request(Api.FETCH, 11, body | {"topics": topics}, 1)
    before = victim.broker.resident_mib()
    with victim.connect() as client, Client(victim.address) as other:
        client.send(large)
        assert other.is_answered()
        if items < MOST_ITEMS:
            client.answer()
        else:
            assert client.is_closed()
    victim.check()
    assert victim.broker.resident_mib() <= before + 512
