"""What is copied in transactions equals its source, whatever is killed meanwhile."""

import pytest

from tests.transactions.copy import Copy, differences, run

FEW = 12_000
ALL = 100_000


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        pytest.param("0 1 2", None, id="the same"),
        pytest.param(
            "0 2", "record 1 of the output is ['2'], that of the input is ['1']; 1 of 3 are missing", id="lost"
        ),
        pytest.param("0 1 1 2", "1 are there twice", id="doubled"),
        pytest.param("0 2 1", "record 1 of the output is ['2']", id="out of order"),
        pytest.param("0 1", "record 2 of the output is [], that of the input is ['2']", id="cut off"),
    ],
)
def test_a_copy_that_is_not_exact_is_noticed(found, complaint):
    assert (complaint or "") in "".join(differences(0, ["0", "1", "2"], found.split()))
    assert (complaint is None) == (differences(0, ["0", "1", "2"], found.split()) == [])


@pytest.mark.parametrize(
    "broker", [pytest.param("runnel", marks=pytest.mark.servers), pytest.param("kafka", marks=pytest.mark.soak)]
)
def test_integers_are_copied_exactly_and_in_order(tmp_path, seed, broker):
    assert run(tmp_path, broker, seed, Copy(FEW, partitions=3, generation="mixed", kills=3, largest=300)) == []


@pytest.mark.soak
@pytest.mark.parametrize("generation", ["modern", "confluent"])
def test_a_hundred_thousand_integers_are_copied_exactly_and_in_order(tmp_path, seed, generation):
    assert run(tmp_path, "runnel", seed, Copy(ALL, generation=generation, kills=10)) == []


@pytest.mark.soak
def test_a_hundred_thousand_integers_are_copied_exactly_and_in_order_over_three_partitions(tmp_path, seed):
    assert run(tmp_path, "runnel", seed, Copy(ALL, partitions=3, generation="mixed", kills=10)) == []
