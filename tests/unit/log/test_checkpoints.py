import pytest

from runnel.log.checkpoints import TopicPartition, read_checkpoint, write_checkpoint
from runnel.testing import FaultyFiles

PATH = "/offsets"


def file_with(content: bytes) -> FaultyFiles:
    files = FaultyFiles()
    files.open(PATH, create=True).write([content], 0)
    return files


def test_offsets_are_written_as_kafka_writes_them() -> None:
    files = FaultyFiles()
    write_checkpoint(files, PATH, {TopicPartition("orders", 1): 977, TopicPartition("orders", 0): 1_042})

    assert files.open(PATH).read(1_000, 0) == b"0\n2\norders 0 1042\norders 1 977\n"


def test_what_was_written_is_read() -> None:
    files = FaultyFiles()
    offsets = {TopicPartition("a.b_c-d", 12): 2**40, TopicPartition("orders", 0): 0}
    write_checkpoint(files, PATH, offsets)

    assert read_checkpoint(files, PATH) == offsets


def test_no_file_holds_no_offsets() -> None:
    assert read_checkpoint(FaultyFiles(), PATH) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\norders 0 5\n",
        b"0\n1\norders 0 5\norders 1 5\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders zero 5\n",
        b"0\n1\norders 0 -5\n",
        b"0\n1\norders 0 9223372036854775808\n",
        b"0\n1\n\xff\xfe 0 5\n",
    ],
)
def test_a_file_of_another_shape_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any of them
        read_checkpoint(file_with(content), PATH)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("orders-eu-12", TopicPartition("orders-eu", 12)),
        ("-1", None),
        ("orders", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders-0.3f-delete", None),
        ("orders-²", None),
        ("runnel-log.json", None),
    ],
)
def test_a_folder_is_a_partitions_if_its_name_ends_with_a_number(name: str, partition: TopicPartition | None) -> None:
    assert TopicPartition.from_name(name) == partition


def test_a_partition_is_shown_as_its_folder_is_named() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
