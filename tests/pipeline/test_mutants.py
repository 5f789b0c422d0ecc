"""The mutants are still mutants, each changes one place that is there; and in the long runs, each is found."""

from __future__ import annotations

import pytest

from tests.pipeline import test_crash_points
from tests.pipeline.mutants import ALL_TESTS, MUTANTS, is_there, judge, told_by


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_changes_is_there_once(mutant):
    assert is_there(mutant)
    assert mutant.old != mutant.new


def test_the_tests_that_should_find_a_mutant_are_there():
    for test in ALL_TESTS:
        assert hasattr(test_crash_points, test.partition("[")[0])


@pytest.mark.soak
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant):
    verdict = judge(mutant)
    assert verdict.word == "found", verdict


def test_the_test_that_failed_is_told_with_its_reason():
    said = (
        "E   AssertionError: there twice: [1]\nE   assert 1 == 2\nFAILED tests/a.py::test_b[c-d] - AssertionError: x\n"
    )
    assert told_by(said) == "test_b[c-d]: there twice: [1]"


def test_without_a_reason_the_last_line_is_told():
    assert told_by("no tests ran\nERROR: not found\n") == "no test: ERROR: not found"
