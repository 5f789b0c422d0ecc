"""The features that a broker has, with the versions that are finalised: what clients look at before they rely on them.

`group.version` 1 is the consumer protocol (KIP-848), `transaction.version` 2 the second generation of transactions
(KIP-890).
"""

from __future__ import annotations

from typing import NamedTuple

EPOCH = 0  # of the finalised versions: they never change


class Feature(NamedTuple):
    name: str
    least: int
    most: int
    finalised: int


FEATURES = (Feature("group.version", 0, 1, 1), Feature("transaction.version", 0, 2, 2))
