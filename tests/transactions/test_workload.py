"""Transactions under zombies, kills and a bad network, judged by the checker.

Apache Kafka runs the same: what it does not pass would be a mistake of the workload.
"""

import shutil

import pytest

from tests.transactions.workload import plan_of, run

SHORT = 6
LONG = 25


def test_a_seed_gives_the_same_plan_again():
    assert plan_of(7, 30) == plan_of(7, 30) != plan_of(8, 30)


def test_a_short_plan_kills_the_broker_and_wakes_zombies():
    assert {"kill the broker", "wake a zombie writer", "wake a zombie loop"} <= set(plan_of(7, 5))


@pytest.mark.servers
@pytest.mark.parametrize("broker", ["runnel", "kafka"])
def test_no_transaction_is_torn_lost_doubled_or_read_too_early(tmp_path, seed, broker):
    assert run(tmp_path, broker, seed, SHORT) == []


@pytest.mark.soak
def test_no_transaction_is_torn_lost_doubled_or_read_too_early_in_a_long_run(tmp_path, seed, rounds):
    for first in range(0, rounds, LONG):
        directory = tmp_path / str(first)
        assert run(directory, "runnel", f"{seed}/{first}", min(LONG, rounds - first)) == []
        shutil.rmtree(directory)
