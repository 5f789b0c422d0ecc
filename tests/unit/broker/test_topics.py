import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from runnel.broker.cluster import METADATA_TOPIC, TopicFacts, topic_entry
from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node, open_node
from runnel.errors import TopicExists, Transient, UnknownTopic
from runnel.log import open_log
from runnel.protocol.error_codes import ErrorCode
from runnel.records import Record
from runnel.replay import Decision
from runnel.testing import FaultyFiles, StoppedClock

SETTINGS = {"runnel.low.disk.bytes": "0"}


class Place:
    """A data directory, with a node that can be started again."""

    def __init__(self, data: str) -> None:
        self.data = data
        self.loop = asyncio.new_event_loop()
        self.node = self.open()

    def open(self) -> Node:
        return open_node(self.data, SETTINGS, loop=self.loop, clock=StoppedClock())

    def run(self, work):
        return self.loop.run_until_complete(work)

    def restart(self) -> Node:
        self.close_node()
        self.node = self.open()
        return self.node

    def close_node(self) -> None:
        self.node.stop()
        self.node.close()

    def write_facts(self, facts: TopicFacts) -> None:
        """As far as a change comes that is stopped after it was decided."""
        self.node.cluster.run(lambda _: Decision(None, [topic_entry(StoppedClock(), facts)]))

    def names(self) -> set[str]:
        return {topic.name for topic in self.node.topics.all() if not topic.is_internal}


class FaultyPlace(Place):
    """The same on a disk in memory that fails when it is told to."""

    def __init__(self) -> None:
        self.files = FaultyFiles()
        super().__init__("/data")

    def open(self) -> Node:
        return open_node(self.data, SETTINGS, files=self.files, loop=self.loop, clock=StoppedClock())

    def close(self) -> None:
        self.close_node()
        self.loop.close()


@pytest.fixture
def place(tmp_path):
    place = Place(str(tmp_path / "data"))
    yield place
    place.close_node()
    place.loop.close()


def folders(place: Place, topic: str) -> list[str]:
    return sorted(path.name for path in Path(place.data).iterdir() if path.name.startswith(f"{topic}-"))


# --- making and finding


def test_a_topic_is_found_by_its_name_and_by_its_id(place):
    topic = place.run(place.node.topics.create("orders", 2, {"retention.ms": "1000"}))
    assert place.node.topics.find("orders") is topic
    assert place.node.topics.find_id(topic.id) is topic
    assert (topic.count, topic.configs, topic.settings.retention_ms) == (2, {"retention.ms": "1000"}, 1000)
    assert place.node.topics.find_id(None) is None
    assert place.node.topics.find_id(UUID(int=5)) is None


def test_a_topic_has_its_files_when_it_is_made(place):
    place.run(place.node.topics.create("orders", 3, {}))
    assert folders(place, "orders") == ["orders-0", "orders-1", "orders-2"]


def test_a_second_topic_of_the_same_name_is_refused(place):
    place.run(place.node.topics.create("orders", 1, {}))
    with pytest.raises(TopicExists, match="orders"):
        place.run(place.node.topics.create("orders", 1, {}))


def test_a_restart_keeps_topics_with_their_ids_configurations_and_records(place):
    topic = place.run(place.node.topics.create("orders", 2, {"retention.ms": "1000"}))
    topic.partition(1).append([Record(b"kept")])
    again = place.restart().topics.find("orders")
    assert (again.id, again.count, again.configs) == (topic.id, 2, {"retention.ms": "1000"})
    assert again.partition(1).end_offset == 1


def test_a_topic_that_is_made_again_has_another_id_and_no_records(place):
    topic = place.run(place.node.topics.create("orders", 1, {}))
    topic.partition(0).append([Record(b"gone")])
    place.run(place.node.topics.delete("orders"))
    again = place.run(place.node.topics.create("orders", 1, {}))
    assert again.id != topic.id
    assert again.partition(0).end_offset == 0
    assert place.node.topics.find_id(topic.id) is None


def test_a_topic_has_the_partitions_that_it_has(place):
    topic = place.run(place.node.topics.create("orders", 2, {}))
    for number in (-1, 2):
        with pytest.raises(IndexError):
            topic.partition(number)


def test_of_two_who_let_a_topic_grow_to_the_same_count_at_once_one_is_told_that_it_has_that(place):
    topics = place.node.topics
    place.run(topics.create("orders", 1, {}))

    async def both():
        return await asyncio.gather(topics.grow("orders", 3), topics.grow("orders", 3), return_exceptions=True)

    topic, refusal = place.run(both())
    assert topic.count == 3
    assert (type(refusal), refusal.code) == (Refusal, ErrorCode.INVALID_PARTITIONS)


def test_a_topic_grows_and_keeps_what_it_has(place):
    topic = place.run(place.node.topics.create("orders", 1, {}))
    topic.partition(0).append([Record(b"kept")])
    assert place.run(place.node.topics.grow("orders", 3)) is topic
    assert topic.count == 3
    assert topic.partition(0).end_offset == 1
    assert place.restart().topics.find("orders").count == 3


def test_names_that_differ_in_dots_and_underscores_collide(place):
    place.run(place.node.topics.create("a.b_c", 1, {}))
    topics = place.node.topics
    assert topics.collides_with("a_b.c") == "a.b_c"
    assert topics.collides_with("a.b_c") is None
    assert topics.collides_with("abc") is None


# --- deleting


def test_a_deleted_topic_is_gone_with_its_files_after_a_restart_too(place):
    place.run(place.node.topics.create("orders", 2, {}))
    place.run(place.node.topics.delete("orders"))
    assert place.node.topics.find("orders") is None
    assert folders(place, "orders") == []
    place.restart()
    assert place.names() == set()


def test_a_topic_that_is_not_there_cannot_be_deleted(place):
    with pytest.raises(UnknownTopic, match="orders"):
        place.run(place.node.topics.delete("orders"))


def test_those_who_want_to_know_are_told_of_a_deletion(place):
    told = []
    place.node.topics.when_deleted.append(told.append)
    place.run(place.node.topics.create("orders", 1, {}))
    place.run(place.node.topics.delete("orders"))
    assert told == ["orders"]


def test_a_topic_that_is_deleted_while_it_is_made_leaves_no_files(place):
    async def both() -> None:
        making = asyncio.ensure_future(place.node.topics.create("orders", 300, {}))
        while place.node.topics.find("orders") is None:
            await asyncio.sleep(0)
        await place.node.topics.delete("orders")
        await asyncio.gather(making, return_exceptions=True)

    place.run(both())
    assert folders(place, "orders") == []
    place.restart()
    assert place.names() == set()


@pytest.mark.parametrize("removed", [(), (0,), (1,), (0, 1)], ids=str)
def test_a_deletion_that_was_interrupted_is_ended_at_the_next_start(place, caplog, removed):
    """Wherever the stop came: before the first file was removed, in between, or after the last."""
    topic = place.run(place.node.topics.create("orders", 2, {}))
    place.run(place.node.topics.create("kept", 1, {}))
    place.write_facts(replace(topic.facts, deleting=True))
    for number in removed:
        place.node.log.delete("orders", number)
    place.restart()
    assert place.names() == {"kept"}
    assert folders(place, "orders") == []
    assert "topic orders is being deleted: the last stop came in between" in caplog.messages
    again = place.run(place.node.topics.create("orders", 1, {}))
    assert again.id != topic.id


@pytest.mark.parametrize("ill", ["rename", "sync_directory"])
@pytest.mark.parametrize("how", ["delete", "create"])
def test_a_deletion_that_the_disk_did_not_let_end_is_ended_by_who_asks_again(ill, how):
    place = FaultyPlace()
    topics = place.node.topics
    topic = place.run(topics.create("orders", 2, {}))
    topic.partition(0).append([Record(b"gone")] * 3)
    topic.partition(0).delete_before(3)
    place.files.fail(ill, "orders-0" if ill == "rename" else "/data", times=2)
    with pytest.raises(Transient, match="topic 'orders' is deleted, but its files could not be removed"):
        place.run(topics.delete("orders"))
    assert topics.find("orders") is None
    assert topics.is_unfinished("orders")
    with pytest.raises(Transient):
        place.run(getattr(topics, how)(*(("orders",) if how == "delete" else ("orders", 1, {}))))
    place.files.heal()
    if how == "delete":
        place.run(topics.delete("orders"))
    again = place.run(topics.create("orders", 1, {}))
    assert again.id != topic.id
    assert again.partition(0).start_offset == 0
    assert again.partition(0).append([Record(b"new")]).base_offset == 0
    assert not topics.is_unfinished("orders")
    place.restart()
    assert place.node.topics.find("orders").partition(0).start_offset == 0
    place.close()


def test_files_of_a_deleted_topic_that_cannot_be_removed_are_at_the_next_start(caplog):
    place = FaultyPlace()
    place.run(place.node.topics.create("orders", 1, {}))
    place.files.fail("remove", "-delete/")
    place.run(place.node.topics.delete("orders"))
    assert "could not be removed, it is at the next start" in caplog.text
    again = place.run(place.node.topics.create("orders", 1, {}))
    assert again.partition(0).append([Record(b"new")]).base_offset == 0
    place.files.heal()
    place.restart()
    assert not [name for name in place.files.list("/data") if name.endswith("-delete")]
    assert place.node.topics.find("orders").partition(0).end_offset == 1
    place.close()


def test_files_of_a_deleted_topic_that_can_never_be_removed_do_not_keep_the_broker_from_starting(caplog):
    place = FaultyPlace()
    place.run(place.node.topics.create("orders", 1, {}))
    place.files.fail("remove", "-delete/", times=1_000)
    place.run(place.node.topics.delete("orders"))
    caplog.clear()
    assert place.restart().topics.find("orders") is None
    assert "could not be removed, it is at the next start" in caplog.text
    place.close()


def test_a_topic_with_a_partition_that_cannot_be_opened_can_be_deleted():
    place = FaultyPlace()
    topic = place.run(place.node.topics.create("orders", 2, {}))
    topic.partition(1).append([Record(b"gone")])
    place.close_node()
    place.node = place.open()
    place.files.fail("open", "orders-1/", times=1_000)
    with pytest.raises(Transient, match="partition orders-1 cannot be opened"):
        place.node.topics.find("orders").partition(1)
    place.run(place.node.topics.delete("orders"))
    place.files.heal()
    again = place.run(place.node.topics.create("orders", 2, {}))
    assert again.partition(1).append([Record(b"new")]).base_offset == 0
    place.close()


def test_a_deletion_that_the_disk_does_not_let_end_does_not_keep_the_broker_from_starting(caplog):
    place = FaultyPlace()
    topic = place.run(place.node.topics.create("orders", 1, {}))
    place.run(place.node.topics.create("kept", 1, {}))
    place.write_facts(replace(topic.facts, deleting=True))
    place.close_node()
    place.files.fail("rename", "orders-0", times=1_000)
    place.node = place.open()
    assert place.names() == {"kept"}
    assert place.node.topics.is_unfinished("orders")
    assert "the files of the deleted topic orders could not be removed" in caplog.text
    place.files.heal()
    again = place.run(place.node.topics.create("orders", 1, {}))
    assert again.id != topic.id
    assert place.restart().topics.find("orders").id == again.id
    place.close()


@pytest.mark.parametrize("grows", [False, True])
def test_a_topic_whose_files_the_disk_did_not_let_be_made_has_them_when_they_are_asked_for(grows):
    place = FaultyPlace()
    topics = place.node.topics
    if grows:
        place.run(topics.create("orders", 1, {}))
    place.files.fail("make_directory")
    with pytest.raises(Transient, match="the files of topic 'orders' could not be made"):
        place.run(topics.grow("orders", 2) if grows else topics.create("orders", 2, {}))
    place.files.heal()
    assert topics.find("orders").partition(1).append([Record(b"new")]).base_offset == 0
    place.close()


def test_a_topic_whose_files_were_not_made_before_a_stop_has_them_when_they_are_asked_for(place):
    place.write_facts(TopicFacts("orders", UUID(int=5), 2, {}))
    topic = place.restart().topics.find("orders")
    assert topic.id == UUID(int=5)
    assert topic.partition(1).end_offset == 0


# --- what the log alone has


def test_partitions_that_were_written_with_the_log_alone_are_adopted(tmp_path, caplog):
    data = str(tmp_path / "data")
    with open_log(data) as log:
        log.partition("orders", 0).append([Record(b"first")])
        log.partition("orders", 2).append([Record(b"second")])
    place = Place(data)
    topic = place.node.topics.find("orders")
    assert topic.count == 3
    assert [topic.partition(number).end_offset for number in range(3)] == [1, 0, 1]
    assert "topic orders was found in the data directory: it is served, with 3 partitions" in caplog.messages
    first = topic.id
    assert place.restart().topics.find("orders").id == first
    place.close_node()
    place.loop.close()


def test_a_folder_of_somebody_whose_name_ends_in_a_large_number_becomes_no_topic(tmp_path, caplog):
    data = tmp_path / "data"
    with open_log(data) as log:
        log.partition("orders", 0).append([Record(b"first")])
        log.partition("orders", 1)
        (data / "orders-20261119").mkdir()
        (data / "backup-20261119").mkdir()
    place = Place(str(data))
    assert place.node.topics.find("backup") is None
    assert place.node.topics.find("orders").count == 2
    for folder in ("backup-20261119", "orders-20261119"):
        assert f"folder {folder} is left alone: it is no topic's that was ever made" in caplog.messages
    place.close_node()
    place.loop.close()


def test_the_brokers_own_facts_are_no_topic(place):
    assert place.node.topics.find(METADATA_TOPIC) is None
    place.restart()
    assert place.node.topics.find(METADATA_TOPIC) is None


def test_the_topic_of_group_offsets_is_internal_and_found_without_a_word(place, caplog):
    place.restart()
    assert place.node.topics.find("__consumer_offsets").is_internal
    assert not [line for line in caplog.messages if "__consumer_offsets" in line]
