"""Global transaction ids: `domain-server-number`, and places in the log, which are the last one of each domain.

The log is one sequence. So a place between two transactions is known by the last id of each domain before it:
`0-1-270,5-2-8`. The numbers of a domain rise, unless two servers write to the same one at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class Gtid(NamedTuple):
    domain: int
    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


Place: TypeAlias = Mapping[int, Gtid]


def place_of(text: str) -> dict[int, Gtid]:
    ids = (Gtid(*map(int, each.strip().split("-"))) for each in text.split(",") if each.strip())
    return {each.domain: each for each in ids}


def text_of(place: Place) -> str:
    return ",".join(str(place[domain]) for domain in sorted(place))


def is_at(here: Place, place: Place) -> bool:
    return all(here.get(domain) == last for domain, last in place.items())


def is_behind(here: Place, place: Place) -> bool:
    """Whether something is before here that is not before the place."""
    return any(domain not in place or last.number > place[domain].number for domain, last in here.items())
