"""The mutants are still mutants: each changes one place that is there."""

import pytest

from tests.transactions.mutants import MUTANTS, ROOT, first_complaint


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_changes_is_there_once(mutant):
    assert (ROOT / "src/runnel" / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_the_first_violation_is_what_is_told_of_a_run():
    said = (
        "seed 1\n  1.2 s  step 1: kill the broker\n102.0 s  2 events: x\nlost write: a\nduplicate: b\n2 violations, 3 s"
    )
    assert first_complaint(said) == "lost write: a"


def test_without_a_violation_the_error_that_ended_the_run_is_told():
    assert first_complaint("seed 1\nTraceback\nAssertionError: after 90 s\nlast") == "AssertionError: after 90 s last"
