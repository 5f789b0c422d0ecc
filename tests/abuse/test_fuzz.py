"""Mutated requests of every API and version: the broker stays up, none of its code fails, its memory stays flat."""

from uuid import UUID

import pytest

from runnel.protocol.versions import SERVED, Api
from tests.abuse.broker_process import wait_until
from tests.abuse.conftest import Victim, victim_in
from tests.abuse.fuzzing import ANSWERED, CLOSED, fuzz
from tests.abuse.mutations import TOPICS, Mutations
from tests.abuse.wire import make_topics

WARM_UP = 5_000
FRAMES = 100_000
FRAMES_A_ROUND = 1_000  # of the soak: a million in a thousand rounds
SLACK_MIB = 96  # what fuzzed requests may make for good: topics, groups, offsets


@pytest.fixture
def fuzzed(tmp_path):
    # Mutated names would make a topic each.
    for victim in victim_in(tmp_path, auto_create_topics_enable="false"):
        make_topics(victim.address, *TOPICS)
        yield victim


def topic_ids(victim: Victim) -> tuple[UUID, ...]:
    asked = [{"topic_id": None, "name": name} for name in TOPICS]
    body = {"topics": asked, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    with victim.connect() as client:
        return tuple(topic["topic_id"] for topic in client.ask(Api.METADATA, 12, body)["topics"])


def fuzz_and_check(victim: Victim, seed: int, frames: int) -> None:
    ids = topic_ids(victim)
    files = victim.broker.open_files()
    fuzz(victim.address, f"{seed}/warm-up", WARM_UP, ids)
    victim.check()
    before = victim.broker.resident_mib()
    fates = fuzz(victim.address, f"{seed}/fuzz", frames, ids)
    victim.check()
    assert sum(fates.values()) == frames
    assert min(fates[ANSWERED], fates[CLOSED]) > frames // 10, f"the frames are of one kind only: {fates}"
    assert victim.broker.resident_mib() <= before + SLACK_MIB
    # Of the files some stay open for the topics that were made.
    wait_until(lambda: victim.broker.open_files() <= files + 700, "the connections are closed")


@pytest.mark.servers
def test_a_hundred_thousand_fuzzed_frames_harm_nobody(fuzzed, seed):
    fuzz_and_check(fuzzed, seed, FRAMES)


@pytest.mark.soak
def test_a_million_fuzzed_frames_harm_nobody(fuzzed, seed, rounds):
    fuzz_and_check(fuzzed, seed, FRAMES_A_ROUND * rounds)


def test_some_fuzzed_frames_harm_nobody(fuzzed, seed):
    fuzz_and_check(fuzzed, seed, 3_000)


def test_the_requests_that_are_mutated_are_answered_as_they_are(fuzzed, seed):
    """Or the fuzz would never get beyond the first field. A produce may ask for no answer."""
    mutations = Mutations(f"{seed}/whole")
    for key in sorted(set(SERVED) - {Api.PRODUCE}):
        for version in range(SERVED[key].least, SERVED[key].most + 1):
            with fuzzed.connect() as client:
                client.send(mutations.whole(key, version))
                assert client.answer(), f"{Api(key).name} v{version}"
    fuzzed.check()
