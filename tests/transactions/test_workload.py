"""Transactions under zombies, kills and a bad network, judged by the checker.

Apache Kafka runs the same, among the long tests: what it does not pass would be a mistake of the workload, or one of
its own. Where chance decides what it meets, its own must not stop us.
"""

import shutil

import pytest

from tests.transactions.workload import FIRST_STEPS, plan_of, run

SHORT = 6
LONG = 25
# Each seen once: just after a start, Apache Kafka says that a group has no offsets, and a moment later that it has;
# and after a zombie's return a transactional loop waited for longer than 90 s.
KNOWN_OF_KAFKA = ("and later at None", "no progress: ")


def test_a_seed_gives_the_same_plan_again():
    assert plan_of(7, 30) == plan_of(7, 30) != plan_of(8, 30)


def test_a_short_plan_has_all_of_the_first_steps():
    assert set(FIRST_STEPS) == set(plan_of(7, SHORT))


@pytest.mark.servers
def test_no_transaction_is_torn_lost_doubled_or_read_too_early(tmp_path, seed):
    assert run(tmp_path, "runnel", seed, SHORT) == []


@pytest.mark.soak
def test_apache_kafka_passes_the_same(tmp_path, seed):
    wrong = run(tmp_path, "kafka", seed, SHORT)
    assert [line for line in wrong if not any(known in line for known in KNOWN_OF_KAFKA)] == []


@pytest.mark.soak
def test_no_transaction_is_torn_lost_doubled_or_read_too_early_in_a_long_run(tmp_path, seed, rounds, told):
    for first in told(range(0, rounds, LONG)):
        directory = tmp_path / str(first)
        assert run(directory, "runnel", f"{seed}/{first}", min(LONG, rounds - first)) == []
        shutil.rmtree(directory)
