"""Streaming equals batch: Nexmark's queries over a stream in disorder, stopped and started again, have the answer that
DuckDB has over the log, without the records that were late or rejected.

The readings that were chosen where a query has several are told in `queries`, those of the generator in `generator`.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from runnel import Broker
from tests.nexmark.generator import AUCTION, BID, CLOSER, PERSON, Sending, closers, event, records
from tests.nexmark.oracle import ANSWERS
from tests.nexmark.queries import QUERIES, auctions
from tests.pipeline.play import Play, batch_answer
from tests.pipeline.scene import Scene

TOPICS = (PERSON, AUCTION, BID)
VIEWS = {"q3", "q5", "q7", "q11", "q22"}  # the others are streams
KINDS = {name: "view" if name in VIEWS else "stream" for name in QUERIES}
REMEMBERING = {"q3": "stream", "q5": "stream", "q7": "stream", "q8": "view", "q11": "stream", "q20": "view"}


def live_through(play, seed, kinds, *, events, parts, rows):
    """Events come in parts, and after each of them the app runs until it has caught up. The last part closes all."""
    play.make(TOPICS)
    chance = random.Random(seed)
    sent = list(records(seed, events, Sending()))
    app = auctions(kinds)
    for start, end in pairwise(events * part // parts for part in range(parts + 1)):
        play.send(sent[start:end], chance)
        if end == events:
            play.send(closers(seed, end), chance)
        app = auctions(kinds)
        play.run(app, rows=rows, parallel_from=chance.choice([1, 10_000]))
    return app


def check(play, app):
    """What DuckDB answers to each query, and so did the app."""
    answers = {}
    for output in app.graph.outputs:
        rest = play.rest(output)
        known = {topic: [row for row in rows if row["id"] != CLOSER] for topic, rows in rest.items()}
        answer = batch_answer(ANSWERS[output.name], [each.noun for each in output.inputs], known)
        found = [row for row in play.found(output) if CLOSER not in row.values()]
        assert answer.of(found) == answer.rows, f"{output} answers something else than DuckDB"
        answers[output.name] = answer
    return answers


def has_twice(answer, column):
    values = [row[answer.columns.index(column)] for row in answer.rows]
    return len(set(values)) < len(values)


@pytest.mark.parametrize(
    ("seed", "kinds", "partitions", "rows"),
    [
        pytest.param(9, KINDS, 3, 120, id="in small batches", marks=pytest.mark.servers),
        pytest.param(12, REMEMBERING, 1, 100_000, id="as it comes", marks=pytest.mark.servers),
    ],
)
def test_a_stream_answers_as_a_batch_query_over_the_log(tmp_path, spark, seed, kinds, partitions, rows):
    with Broker() as broker:
        play = Play(Scene(broker, spark, tmp_path), partitions)
        app = live_through(play, seed, kinds, events=400, parts=2, rows=rows)
        answers = check(play, app)
    # The events were enough to tell.
    assert [name for name, answer in answers.items() if not answer.rows] == []
    assert has_twice(answers["q5"], "start"), "no two auctions shared the first place"
    assert has_twice(answers["q7"], "id"), "no bid at the very end of a window was the highest of it"
    assert all(play.late(output) for output in app.graph.outputs if len(output.inputs) == 1), "nothing was late"


@pytest.mark.soak
def test_a_stream_answers_as_a_batch_query_for_a_long_time(tmp_path, spark, seed, rounds, told):
    for number in told(range(max(1, rounds // 10))):
        chance = random.Random(f"{seed} {number}")
        kinds = {name: chance.choice(["stream", "view"]) for name in QUERIES}
        with Broker() as broker:
            play = Play(Scene(broker, spark, tmp_path / str(number)), chance.randint(1, 4))
            size = {"events": chance.choice([400, 2_000]), "parts": chance.randint(1, 5)}
            check(
                play, live_through(play, chance.randrange(2**32), kinds, **size, rows=chance.choice([50, 300, 10_000]))
            )


def test_an_event_follows_from_the_seed_and_its_number_alone():
    backwards = [event(3, number) for number in reversed(range(500))]
    assert [event(3, number) for number in range(500)] == backwards[::-1]
    assert event(3, 137) != event(4, 137)
    topic, row = event(3, 137)
    assert topic == BID
    assert row == {
        "id": 137,
        "auction": 1000,
        "bidder": 1000,
        "price": 776469,
        "channel": "channel-1988",
        "url": "https://www.nexmark.com/fvhzz/emtfa/epjn/item.htm?query=1&channel_id=1988",
        "at": datetime(2026, 1, 1, 3, 0, 29, 400_000, tzinfo=UTC),
        "extra": "szvtzqoaskfxpbwnjqs",
    }


def test_the_events_are_those_of_an_auction_house():
    events = [event(1, number) for number in range(5_000)]
    topics = [topic for topic, _ in events]
    assert [topics.count(topic) for topic in TOPICS] == [100, 300, 4_600]
    ids = {topic: {row["id"] for each, row in events if each == topic} for topic in TOPICS}
    bids = [row for topic, row in events if topic == BID]
    assert {row["auction"] for row in bids} - ids[AUCTION] <= {max(ids[AUCTION]) + ahead for ahead in (1, 2, 3)}
    assert {row["bidder"] for row in bids} - ids[PERSON] <= {max(ids[PERSON]) + ahead for ahead in (1, 2, 3)}
