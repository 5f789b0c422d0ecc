"""The mutants are still mutants: each changes one place that is there."""

import pytest

from tests.transactions.mutants import MUTANTS, ROOT, complaint_in


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_changes_is_there_once(mutant):
    assert (ROOT / "src/runnel" / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_the_first_violation_is_what_is_told_of_a_run():
    lines = ["seed 1", "  1.2 s  step 1: kill", "future: <Future>", "wrong: lost write: a", "wrong: duplicate: b"]
    assert complaint_in("\n".join(lines)) == "lost write: a"


def test_without_a_violation_the_error_that_ended_the_run_is_told():
    assert complaint_in("seed 1\nTraceback\nAssertionError: it ended\n\n") == "AssertionError: it ended"
