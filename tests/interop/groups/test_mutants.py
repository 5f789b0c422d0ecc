"""The mutants are still mutants: each changes one place that is there."""

import pytest

from tests.interop.groups.mutants import MUTANTS, ROOT


@pytest.mark.parametrize(
    "mutant", [each for mutants in MUTANTS.values() for each in mutants], ids=lambda each: each.name
)
def test_the_text_that_a_mutant_changes_is_there_once(mutant):
    assert (ROOT / "src/runnel" / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
