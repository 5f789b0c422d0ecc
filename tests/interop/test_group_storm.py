"""Groups of both protocols under a storm of joins, leaves, kills and slow members, judged by the checker.

Members are confluent-kafka, each in a process of its own; the broker is one, too. All of it is in `groups/storm.py`,
which can be run against Apache Kafka as well: what that does not pass would be a mistake of the storm.
"""

import shutil

import pytest

from tests.interop.groups.storm import DISTURBANCES, FIRST_MEMBERS, FIRST_STEPS, PROTOCOLS, ROLLING, plan_of, run

SHORT = len(FIRST_STEPS)
LONG = 25


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_seed_gives_the_same_plan_again(protocol):
    assert plan_of(protocol, 7, 40) == plan_of(protocol, 7, 40) != plan_of(protocol, 8, 40)


def test_a_short_plan_has_all_that_can_happen_to_a_member():
    assert {what for what, _ in plan_of("consumer", 7, SHORT)} == set(FIRST_STEPS)


@pytest.mark.parametrize(("protocol", "classic"), ROLLING.items())
def test_a_rolling_plan_replaces_all_members_there_and_back(protocol, classic):
    plan = plan_of(protocol, 7, SHORT)
    for old, new in ((classic, "consumer"), ("consumer", classic)):
        assert [step for step in plan if step == ("join", new)] == [("join", new)] * FIRST_MEMBERS
        assert sum(what in ("leave", "kill") and of == old for what, of in plan) == FIRST_MEMBERS
    assert sum(what in DISTURBANCES and not of for what, of in plan) >= 2


@pytest.mark.servers
@pytest.mark.parametrize("protocol", ["classic", "consumer", "rolling"])
def test_every_record_is_processed_and_no_partition_has_two_owners(tmp_path, seed, protocol):
    assert run(tmp_path, protocol, seed, SHORT) == []


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_record_is_processed_and_no_partition_has_two_owners_in_a_long_run(
    tmp_path, seed, rounds, told, protocol
):
    for first in told(range(0, rounds, LONG)):
        directory = tmp_path / str(first)
        steps = max(SHORT, min(LONG, rounds - first))  # fewer may be none that gives a broker reason to refuse
        assert run(directory, protocol, f"{seed}/{first}", steps) == []
        shutil.rmtree(directory)
