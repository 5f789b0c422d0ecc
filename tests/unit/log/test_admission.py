from itertools import combinations_with_replacement
from typing import Any

import pytest

from runnel.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidBatch,
    InvalidTimestamp,
    InvalidTransactionState,
    RunnelError,
)
from runnel.log.admission import admit, as_created, look_closely, refuse_nobodys_marker
from runnel.records import APPEND_TIME, CONTROL, TRANSACTIONAL, Codec, Producer, Record, build_batch
from runnel.records.batch import DELETE_HORIZON, HEADER_SIZE, _checksummed, parse_header
from runnel.settings import TimestampType, TopicSettings

SETTINGS = TopicSettings()
BATCH = build_batch([Record(b"tea"), Record(b"milk")])


def changed(batch: bytes = BATCH, **fields: int) -> bytes:
    """The batch with other header fields and a checksum that fits them."""
    return _checksummed(parse_header(batch)._replace(**fields), batch[HEADER_SIZE:])


def test_a_batch_as_clients_build_it_is_admitted() -> None:
    assert admit(BATCH, SETTINGS).count == 2


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_admitted(codec: Codec) -> None:
    assert admit(build_batch([Record(b"tea")], codec=codec), SETTINGS).codec is codec


@pytest.mark.parametrize("leader_epoch", [-1, 0, 7])
def test_the_leader_epoch_of_a_client_does_not_matter(leader_epoch: int) -> None:
    assert admit(changed(leader_epoch=leader_epoch), SETTINGS).count == 2


def test_a_changed_byte_is_refused() -> None:
    with pytest.raises(CorruptBatch, match="checksum of the batch is"):
        admit(BATCH[:-1] + b"!", SETTINGS)


def test_two_batches_at_once_are_refused() -> None:
    with pytest.raises(InvalidBatch, match=f"{len(BATCH)} bytes after the batch: exactly one batch can be appended"):
        admit(BATCH + BATCH, SETTINGS)


def test_a_batch_larger_than_a_message_may_be_is_refused() -> None:
    with pytest.raises(BatchTooLarge) as refused:
        admit(BATCH, TopicSettings(max_message_bytes=len(BATCH) - 1))
    error = refused.value
    assert (error.size, error.limit, error.setting) == (len(BATCH), len(BATCH) - 1, "max.message.bytes")


def test_a_batch_of_the_largest_size_is_admitted() -> None:
    assert admit(BATCH, TopicSettings(max_message_bytes=len(BATCH))).size == len(BATCH)


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    large = build_batch([Record(bytes(2_000))])
    with pytest.raises(BatchTooLarge) as refused:
        admit(large, TopicSettings(segment_bytes=1_024))
    assert refused.value.setting == "segment.bytes"


def test_a_batch_that_brings_its_own_offset_is_refused() -> None:
    with pytest.raises(InvalidBatch, match="batch with base offset 3"):
        admit(changed(base_offset=3), SETTINGS)


@pytest.mark.parametrize(("count", "delta"), [(0, 0), (1, 1), (2, 2)])
def test_a_batch_whose_records_do_not_fill_its_offsets_is_refused(count: int, delta: int) -> None:
    with pytest.raises(InvalidBatch, match=f"batch of {count} records over {delta + 1} offsets"):
        admit(changed(count=count, last_offset_delta=delta), SETTINGS)


def test_a_marker_from_a_client_is_refused() -> None:
    marker = build_batch([Record(b"", b"")], attributes=CONTROL)
    with pytest.raises(InvalidBatch, match="a control batch cannot be appended by a client"):
        admit(marker, SETTINGS)


@pytest.mark.parametrize("producer", [Producer(-1, 0), Producer(4, -1)])
def test_a_marker_for_no_producer_is_refused(producer: Producer) -> None:
    with pytest.raises(InvalidBatch, match=f"a marker for producer {producer.id} with epoch {producer.epoch}"):
        refuse_nobodys_marker(producer.id, producer.epoch)


def test_a_transactional_batch_without_a_producer_is_refused() -> None:
    with pytest.raises(InvalidTransactionState, match="a transactional batch without a producer id"):
        admit(build_batch([Record(b"tea")], attributes=TRANSACTIONAL), SETTINGS)


def test_a_coordinators_batch_needs_no_sequence_but_an_epoch() -> None:
    batch = build_batch([Record(b"tea")], producer=Producer(4, 0), attributes=TRANSACTIONAL)
    assert admit(batch, SETTINGS, unnumbered=True).producer_id == 4
    with pytest.raises(InvalidBatch, match="with epoch -1"):
        admit(build_batch([Record(b"tea")], producer=Producer(4)), SETTINGS, unnumbered=True)


@pytest.mark.parametrize("producer", [Producer(4, 0, -1), Producer(4, -1, 0), Producer(0, -1, -1)])
def test_a_producer_without_epoch_or_sequence_is_refused(producer: Producer) -> None:
    with pytest.raises(InvalidBatch, match=f"batch of producer {producer.id} with epoch {producer.epoch}"):
        admit(build_batch([Record(b"tea")], producer=producer), SETTINGS)


def test_a_batch_without_a_producer_needs_no_sequence() -> None:
    assert admit(build_batch([Record(b"tea")], producer=Producer()), SETTINGS).base_sequence == -1


def test_a_batch_that_claims_the_logs_time_gets_its_own_back() -> None:
    batch = build_batch([Record(b"tea", timestamp=5)])
    claimed = build_batch([Record(b"tea", timestamp=5)], attributes=APPEND_TIME)
    assert as_created(claimed, SETTINGS, parse_header(claimed)) == (batch, parse_header(batch))


@pytest.mark.parametrize(
    ("timestamp", "settings"),
    [(-1, SETTINGS), (5, TopicSettings(message_timestamp_type=TimestampType.LOG_APPEND_TIME))],
    ids=["it has none", "the log gives it"],
)
def test_a_batch_that_claims_the_logs_time_is_refused_where_that_cannot_be(
    timestamp: int, settings: TopicSettings
) -> None:
    claimed = build_batch([Record(b"tea", timestamp=timestamp)], attributes=APPEND_TIME)
    with pytest.raises(InvalidTimestamp, match="only the log can give that"):
        as_created(claimed, settings, parse_header(claimed))


def test_damage_is_not_hidden_by_a_new_checksum() -> None:
    claimed = build_batch([Record(b"tea", timestamp=5)], attributes=APPEND_TIME)[:-1] + b"!"
    with pytest.raises(CorruptBatch, match="checksum"):
        as_created(claimed, SETTINGS, parse_header(claimed))


# --- the one look that most batches get says what the checks, one by one, say

LARGE = build_batch([Record(b"tea"), Record(b"milk" * 300)])  # larger than the least limits
SIZE = len(LARGE)
FLAGS = [TRANSACTIONAL, CONTROL, APPEND_TIME, DELETE_HORIZON, 0x80, -0x8000]
FIELDS: list[tuple[str, int]] = [
    *(("base_offset", value) for value in (-1, 1)),
    *(("length", value) for value in (-1, 0, 48, 49, SIZE - 13, SIZE - 12, SIZE - 11, 2**31 - 1)),
    *(("magic", value) for value in (0, 1, 3)),
    *(("attributes", value) for value in [*map(int, Codec), 5, 7, *FLAGS, TRANSACTIONAL | Codec.LZ4]),
    *(("last_offset_delta", value) for value in (-2, -1, 0, 1, 2)),
    *(("producer_id", value) for value in (-7, 0, 7)),
    *(("producer_epoch", value) for value in (-2, 0, 1)),
    *(("base_sequence", value) for value in (-2, 0, 1)),
    *(("count", value) for value in (-1, 0, 1, 2, 3)),
]


@pytest.mark.parametrize("unnumbered", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        TopicSettings(),
        TopicSettings(max_message_bytes=SIZE, segment_bytes=SIZE),
        TopicSettings(max_message_bytes=SIZE - 1),
        TopicSettings(segment_bytes=SIZE - 1),
    ],
)
def test_one_look_says_what_many_say(settings: TopicSettings, unnumbered: bool) -> None:
    for three in combinations_with_replacement([("magic", 2), *FIELDS], 3):
        batch = changed(LARGE, **dict(three))
        for sent in (batch, batch[:-1] + b"!") if three[0] == three[1] else (batch,):
            given = parse_header(sent)
            assert said(admit, sent, settings, unnumbered=unnumbered, header=given) == said(
                look_closely, sent, settings, unnumbered=unnumbered
            ), three
    for sent in (LARGE + b"x", LARGE + LARGE, LARGE[:-1]):
        one = said(admit, sent, settings, unnumbered=unnumbered, header=parse_header(sent))
        assert one == said(look_closely, sent, settings, unnumbered=unnumbered)


def said(look: Any, *arguments: Any, **named: Any) -> Any:
    try:
        return look(*arguments, **named)
    except RunnelError as error:
        return type(error), str(error)
