"""The mutants are still mutants: each changes one place that is there."""

import pytest

from tests.crash.mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_changes_is_there_once(mutant):
    assert (ROOT / "src/runnel" / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
