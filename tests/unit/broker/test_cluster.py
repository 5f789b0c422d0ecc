from random import Random
from uuid import UUID

import pytest

from runnel.broker.cluster import (
    METADATA_TOPIC,
    ClusterState,
    ConfigResource,
    TopicFacts,
    cluster_id_entry,
    configs_entry,
    open_cluster,
    producer_ids_entry,
    quota_entry,
    replay,
    reserve_producer_ids,
    topic_entry,
    topic_gone_entry,
)
from runnel.errors import ReplayFailed
from runnel.log.journal import PartitionJournal
from runnel.replay import Decision, Entry
from runnel.testing import StoppedClock
from tests.unit.log.stage import Stage

CLOCK = StoppedClock()
ORDERS = TopicFacts("orders", UUID(int=7), 3, {"retention.ms": "1000"})
BROKER = ConfigResource("broker", "1")


def replayed(*entries: Entry) -> ClusterState:
    state = ClusterState()
    for entry in entries:
        replay(state, entry)
    return state


def test_a_topic_is_what_its_last_entry_says():
    larger = TopicFacts("orders", UUID(int=7), 5, {})
    assert replayed(topic_entry(CLOCK, ORDERS)).topics == {"orders": ORDERS}
    assert replayed(topic_entry(CLOCK, ORDERS), topic_entry(CLOCK, larger)).topics == {"orders": larger}


def test_a_topic_that_is_being_deleted_is_known_as_such_until_it_is_gone():
    leaving = TopicFacts("orders", UUID(int=7), 3, {}, deleting=True)
    state = replayed(topic_entry(CLOCK, leaving))
    assert state.topics["orders"].deleting
    replay(state, topic_gone_entry(CLOCK, "orders"))
    assert state.topics == {}


def test_configurations_are_whole_in_each_entry_and_gone_when_empty():
    state = replayed(configs_entry(CLOCK, BROKER, {"a": "1"}), configs_entry(CLOCK, BROKER, {"b": "2"}))
    assert state.configs == {BROKER: {"b": "2"}}
    replay(state, configs_entry(CLOCK, BROKER, {}))
    assert state.configs == {}


def test_a_quota_keeps_its_entity_with_the_default_name():
    entity = (("user", None), ("client-id", "a"))
    state = replayed(quota_entry(CLOCK, entity, {"producer_byte_rate": 5.0}))
    assert state.quotas == {entity: {"producer_byte_rate": 5.0}}
    replay(state, quota_entry(CLOCK, entity, {}))
    assert state.quotas == {}


def test_producer_ids_and_the_cluster_id_are_kept():
    state = replayed(producer_ids_entry(CLOCK, 2000), Entry(b'["cluster-id", ""]', b'"abc"', 0))
    assert (state.next_producer_id, state.cluster_id) == (2000, "abc")


def test_a_cluster_id_is_as_long_as_kafkas():
    state = replayed(cluster_id_entry(CLOCK, Random(1)))
    assert len(state.cluster_id) == 22


def test_an_entry_of_an_unknown_kind_says_who_wrote_it():
    with pytest.raises(ValueError, match="'shiny': it was written by a newer version of Runnel"):
        replayed(Entry(b'["shiny", ""]', b"1", 0))


def test_reserved_ids_follow_each_other():
    state = ClusterState()
    for first in (0, 1000):
        decision = reserve_producer_ids(CLOCK, 1000)(state)
        assert decision.answer == range(first, first + 1000)
        for entry in decision.entries:
            replay(state, entry)


# --- in a log


def write(stage: Stage, *entries: Entry) -> None:
    done = open_cluster(stage.log).submit(lambda _: Decision(None, entries))
    stage.log.commit()
    done.result(0)


def test_what_was_decided_is_there_after_a_power_cut():
    stage = Stage()
    write(stage, topic_entry(CLOCK, ORDERS), producer_ids_entry(CLOCK, 9))
    again = open_cluster(stage.lose_power())
    assert again.read(lambda state: (state.topics, state.next_producer_id)) == ({"orders": ORDERS}, 9)


def test_an_entry_that_cannot_be_read_stops_the_start_with_its_place():
    stage = Stage()
    write(stage, Entry(b'["cluster-id", ""]', b'"abc"', 0))
    PartitionJournal(stage.partition(METADATA_TOPIC)).append([Entry(b'["shiny", ""]', b"1", 0)])
    stage.log.commit()
    with pytest.raises(ReplayFailed, match=r"the entry at offset 1 of .*__runnel_metadata-0.* cannot be replayed"):
        open_cluster(stage.kill())
