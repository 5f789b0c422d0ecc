"""Nexmark's events, by a generator of our own: an auction house with people, their auctions, and bids.

Each event follows from the seed and its number alone, by nothing but `random.Random(text).random()`, whose values every
version of Python keeps. So an event is the same in whatever order, process or part it is asked for.

What is Nexmark's: of 50 events one is a person, three are auctions, 46 are bids; ids begin with 1000, categories with
10; some auctions, sellers and bidders are hot; a bid may be for an auction that is still to come; prices are spread
over the powers of ten. What is ours, and why:

- a bid has an `id`, the number of its event: a view needs a key, and Nexmark's bids have none;
- bidders are people who exist (in the generator that is widely used, an offset is added twice, and they hardly do);
- one bid of eight is at the same ceiling: without equal prices, nobody would notice what becomes of ties;
- the event time is a whole number of steps, so that bids fall onto the very ends of windows;
- the hour of the first event follows from the seed, because q14 asks for it;
- events are sent in disorder, some of them far behind, and some values are broken.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tests.pipeline.play import Record, broken

PERSON, AUCTION, BID = "person", "auction", "bid"
SCHEMAS = {
    PERSON: "id long, name string, email string, city string, state string, at timestamp, extra string",
    AUCTION: "id long, item string, initial long, reserve long, at timestamp, expires timestamp, seller long, "
    "category long, extra string",
    BID: "id long, auction long, bidder long, price long, channel string, url string, at timestamp, extra string",
}
LATE = "4 seconds"
TURN, AUCTIONS = 50, 3  # events of a turn, and how many of them are auctions; the first is a person
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
LEAD = 3  # how many auctions, or people, may be named before they come
ACTIVE = 20  # and how many that came before
HOT = 4  # every fourth id is hot, until the next one comes
CEILING = 50_000_000
STEP = timedelta(milliseconds=200)
SHIFT = 10  # steps: without it, only people would come at the ends of windows
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
CLOSING = timedelta(hours=1)
CLOSER = -1
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
LETTERS = "abcdefghijklmnopqrstuvwxyz_"

Row = dict[str, Any]


class Sending(NamedTuple):
    """How many events later one may be sent, mostly and in the share `far` of them, and the share of broken values."""

    mostly: int = 8
    at_worst: int = 150
    far: float = 0.05
    broken: float = 0.02


class Chance:
    """All that is drawn for one event."""

    def __init__(self, seed: int, number: int, what: str = "event") -> None:
        self._random = random.Random(f"{what} {seed} {number}")

    def share(self) -> float:
        return self._random.random()

    def below(self, end: int) -> int:
        return int(self.share() * end)

    def among(self, choices: tuple[str, ...]) -> str:
        return choices[self.below(len(choices))]

    def text(self, most: int) -> str:
        return "".join(LETTERS[self.below(len(LETTERS))] for _ in range(1 + self.below(most)))

    def one_of(self, newest: int, hot: float) -> int:
        """An id up to the newest one, or a little beyond: with the share `hot`, the one that everybody wants."""
        if self.share() < hot:
            return newest // HOT * HOT
        oldest = max(0, newest - ACTIVE)
        return oldest + self.below(newest - oldest + 1 + LEAD)


def event(seed: int, number: int) -> tuple[str, Row]:
    """The topic, and the row."""
    chance = Chance(seed, number)
    turn, place = divmod(number, TURN)
    person = turn
    auction = max(0, turn * AUCTIONS + min(place, AUCTIONS) - 1)
    at = time_of(seed, number)
    if place == 0:
        return PERSON, _person(chance, person, at)
    if place <= AUCTIONS:
        return AUCTION, _auction(chance, auction, person, at)
    return BID, _bid(chance, number, auction, person, at)


def time_of(seed: int, number: int) -> datetime:
    return FIRST_DAY + timedelta(hours=seed % 24) + (number + SHIFT) * STEP


def records(seed: int, events: int, how: Sending) -> Iterator[Record]:
    """So many of them, as they are sent."""
    sent = sorted(range(events), key=lambda number: (number + _delay(seed, number, how), number))
    for number in sent:
        topic, row = event(seed, number)
        harm = Chance(seed, number, "harm")
        is_broken = harm.share() < how.broken
        yield Record(topic, row, broken(row, random.Random(f"way {seed} {number}")) if is_broken else None, is_broken)


def closers(seed: int, end: int) -> Iterator[Record]:
    """One for each topic, which only bring the time forward: all windows of the events before `end` close."""
    at = time_of(seed, end) + CLOSING
    yield Record(PERSON, {"id": CLOSER, "name": "", "email": "", "city": "", "state": "", "at": at, "extra": ""})
    auction = {"id": CLOSER, "item": "", "initial": 0, "reserve": 0, "at": at, "expires": at, "seller": CLOSER}
    yield Record(AUCTION, {**auction, "category": 0, "extra": ""})
    bid = {"id": CLOSER, "auction": CLOSER, "bidder": CLOSER, "price": 0, "channel": "", "url": "", "at": at}
    yield Record(BID, {**bid, "extra": ""})


def _delay(seed: int, number: int, how: Sending) -> int:
    chance = Chance(seed, number, "delay")
    return chance.below(how.at_worst if chance.share() < how.far else how.mostly)


def _person(chance: Chance, person: int, at: datetime) -> Row:
    name = f"{chance.among(NAMES)} {chance.text(8)}"
    return {
        "id": FIRST_ID + person,
        "name": name,
        "email": f"{chance.text(7)}@{chance.text(5)}.com",
        "city": chance.among(CITIES),
        "state": chance.among(STATES),
        "at": at,
        "extra": chance.text(20),
    }


def _auction(chance: Chance, auction: int, person: int, at: datetime) -> Row:
    initial = _price(chance)
    return {
        "id": FIRST_ID + auction,
        "item": chance.text(20),
        "initial": initial,
        "reserve": initial + _price(chance),
        "at": at,
        "expires": at + timedelta(seconds=1 + chance.below(60)),
        "seller": FIRST_ID + chance.one_of(person, hot=0.5),
        "category": FIRST_CATEGORY + chance.below(CATEGORIES),
        "extra": chance.text(20),
    }


def _bid(chance: Chance, number: int, auction: int, person: int, at: datetime) -> Row:
    channel, url = _channel(chance)
    return {
        "id": number,
        "auction": FIRST_ID + chance.one_of(auction, hot=0.5),
        "bidder": FIRST_ID + chance.one_of(person, hot=0.6),
        "price": CEILING if chance.below(8) == 0 else _price(chance),
        "channel": channel,
        "url": url,
        "at": at,
        "extra": chance.text(20),
    }


def _price(chance: Chance) -> int:
    """Below the ceiling, spread over the powers of ten."""
    return round(10 ** (chance.share() * 5.6) * 100)


def _channel(chance: Chance) -> tuple[str, str]:
    url = f"https://www.nexmark.com/{chance.text(5)}/{chance.text(5)}/{chance.text(5)}/item.htm?query=1"
    if chance.below(2):
        return chance.among(HOT_CHANNELS), url
    number = chance.below(10_000)
    return f"channel-{number}", f"{url}&channel_id={number}" if chance.share() < 0.9 else url
