from pathlib import Path

import pytest

from runnel.broker.configs.files import read_config_file
from runnel.errors import Permanent

SERVER_PROPERTIES = """\
# As it comes with Kafka.
process.roles=broker,controller
node.id=7
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
controller.listener.names=CONTROLLER

! another kind of comment
num.partitions: 3
   log.retention.hours   24
advertised.listeners=PLAINTEXT://localhost:9092,\\
    CONTROLLER://localhost:9093
broker.rack=a\\u0062\\=c
"""


def written(folder: Path, content: str) -> Path:
    path = folder / "server.properties"
    path.write_text(content)
    return path


def test_a_file_that_was_made_for_kafka_is_read(tmp_path: Path) -> None:
    assert read_config_file(written(tmp_path, SERVER_PROPERTIES)) == {
        "process.roles": "broker,controller",
        "node.id": "7",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "num.partitions": "3",
        "log.retention.hours": "24",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "broker.rack": "ab=c",
    }


def test_two_backslashes_at_the_end_of_a_line_are_one_that_is_meant(tmp_path: Path) -> None:
    path = written(tmp_path, "broker.rack=a\\\\\nnode.id=2\n")

    assert read_config_file(path) == {"broker.rack": "a\\", "node.id": "2"}


def test_a_value_may_be_empty(tmp_path: Path) -> None:
    assert read_config_file(written(tmp_path, "authorizer.class.name=\n")) == {"authorizer.class.name": ""}


def test_a_mark_of_the_byte_order_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert read_config_file(written(tmp_path, "\ufeffnode.id=5\r\nnum.partitions=2")) == {
        "node.id": "5",
        "num.partitions": "2",
    }


@pytest.mark.parametrize("character", ["\f", "\x0b", "\x85", "\u2028"])
def test_a_line_ends_where_javas_do_and_nowhere_else(tmp_path: Path, character: str) -> None:
    assert read_config_file(written(tmp_path, f"broker.rack=a{character}b\n")) == {"broker.rack": f"a{character}b"}


def test_the_last_line_may_go_on_in_vain(tmp_path: Path) -> None:
    assert read_config_file(written(tmp_path, "node.id=5\\")) == {"node.id": "5"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("node.id=1\n\nnum.partitions\n", "line 3: 'num.partitions' sets nothing (expected NAME=VALUE)"),
        (
            "broker.rack=\\u12\n",
            "line 1: \\u without four digits of a character's number (write such as \\u00e9)",
        ),
        ("node.id=1\nnode.id=2\n", "line 2: node.id is set in line 1 already (remove one)"),
        (
            "# one\nnum.partitons=2\n",
            "line 2: setting num.partitons = '2' (expected a broker configuration that Kafka knows, "
            "such as num.partitions)",
        ),
        ("num.partitions=many\n", "line 1: setting num.partitions = 'many' (expected a whole number)"),
        (
            "\nnode.id=\\\n  -4\n",
            "line 2: setting node.id = -4 (expected a whole number of at least 0)",
        ),
        (
            "ssl.keystore.location=/a\n",
            "line 1: setting ssl.keystore.location = '/a' (expected it to be left out: "
            "there is no authentication and no encryption yet)",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, content: str, says: str) -> None:
    path = written(tmp_path, content)

    with pytest.raises(Permanent) as refused:
        read_config_file(path)
    assert str(refused.value) == f"{path} {says}"


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(Permanent) as refused:
        read_config_file(tmp_path / "nowhere")
    assert str(refused.value) == (
        f"{tmp_path}/nowhere cannot be read: No such file or directory (name a file with one NAME=VALUE a line)"
    )


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"node.id=\xff\xfe")

    with pytest.raises(Permanent, match="cannot be read: 'utf-8' codec"):
        read_config_file(path)
