"""Which queries tell nothing in a batch of no rows."""

from __future__ import annotations

import pytest

from runnel.pipeline.empty_batches import are_silent


def of(*operators):
    return [{"operator": each} for each in operators]


@pytest.mark.parametrize("remembered", [of(), of("Aggregate"), of("Aggregate", "Aggregate")])
def test_aggregates_that_are_shown_while_they_are_open_tell_nothing(remembered):
    assert are_silent("update", remembered)


@pytest.mark.parametrize(
    ("mode", "remembered"),
    [
        ("append", of("Aggregate")),  # told when they are closed
        ("update", of("TransformWithState")),  # which may have timers
        ("update", of("Aggregate", "DeduplicateWithinWatermark")),  # what is forgotten is let pass again
    ],
)
def test_all_others_may_tell_something(mode, remembered):
    assert not are_silent(mode, remembered)
