"""The client for asyncio."""

from __future__ import annotations

import asyncio

import pytest

from runnel.client import (
    LATEST,
    Groups,
    RecordTooLarge,
    Refused,
    Start,
    Token,
    UnknownPartition,
    UnknownTopic,
    Unreachable,
)
from runnel.client.asynchronous import AsyncConsumer, AsyncProducer

SECONDS = 120  # for what takes a moment on an idle machine


async def take(records: AsyncConsumer, count: int) -> list[bytes | None]:
    found = []
    async for record in records:
        found.append(record.value)
        if len(found) == count:
            break
    return found


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, SECONDS))


async def written(bootstrap: str, topic: str, count: int) -> None:
    async with AsyncProducer(bootstrap) as producer:
        for number in range(count):
            await producer.submit(topic, b"%d" % number, timestamp=1_000 + number)
        await producer.flush()


def test_a_record_gets_a_token_and_comes_back_as_it_was_written(bootstrap, kept):
    async def body():
        async with AsyncProducer(bootstrap) as producer:
            token = await producer.produce(kept, b"v", key=b"k", headers=[("h", b"1")], timestamp=1_000, partition=0)
        async with AsyncConsumer(bootstrap, kept) as records:
            return token, await anext(aiter(records))

    token, record = run(body())
    assert token == Token(kept, 0, 0)
    assert record == (kept, 0, 0, 1_000, b"k", b"v", (("h", b"1"),))


def test_submitted_records_get_tokens_in_their_order(bootstrap, topic):
    async def body():
        async with AsyncProducer(bootstrap) as producer:
            futures = [await producer.submit(topic, b"") for _ in range(100)]
            return [(await future).offset for future in futures]

    assert run(body()) == list(range(100))


@pytest.mark.parametrize(("start", "first"), [(Start.offset(3), b"3"), (Start.time(1_007), b"7"), (LATEST, b"new")])
def test_it_starts_where_it_is_told_to(bootstrap, kept, start, first):
    async def body():
        await written(bootstrap, kept, 10)
        async with AsyncConsumer(bootstrap, kept, start=start) as records:
            async with AsyncProducer(bootstrap) as producer:
                await producer.produce(kept, b"new")
            return await take(records, 1)

    assert run(body()) == [first]


def test_a_group_goes_on_behind_what_was_done(bootstrap, admin, kept, name):
    async def part():
        async with AsyncConsumer(bootstrap, kept, group=name) as records:
            return await take(records, 4)

    async def body():
        await written(bootstrap, kept, 10)
        return [*await part(), *await part()]

    # The fourth was being handled when the first part ended.
    assert run(body()) == [b"0", b"1", b"2", b"3", b"3", b"4", b"5", b"6"]
    assert Groups(admin).committed(name) == {(kept, 0): 6}


def test_a_member_commits_what_is_still_its_own_after_it_has_lost_a_partition(bootstrap, admin, name, kept):
    """One partition that another member has got kept all that it had done from being committed, for ever."""
    admin.add_partitions(kept, 2)

    async def until(holds):
        while not holds():
            await asyncio.sleep(0.05)

    async def body():
        async with AsyncProducer(bootstrap) as producer:
            for number in range(20):
                await producer.produce(kept, b"%d" % number, partition=number % 2)
        async with AsyncConsumer(bootstrap, kept, group=name) as records:
            assert len(set(await take(records, 20))) == 20
            async with AsyncConsumer(bootstrap, kept, group=name) as other:
                await until(lambda: len(other._consumer.assignment()) == len(records._consumer.assignment()) == 1)
                ((_, own),) = records._consumer.assignment()
                await take(records, 5)
                await records.commit()
                return own

    own = run(body())
    assert Groups(admin).committed(name) == {(kept, own): 4}


def test_a_header_name_that_is_not_utf_8_is_told(bootstrap, strange):
    async def body():
        async with AsyncConsumer(bootstrap, strange) as records:
            await take(records, 1)

    with pytest.raises(Refused, match="a record has text that is not UTF-8") as told:
        run(body())
    assert "runnel.client.Consumer does" in told.value.hint


def test_errors_are_those_of_the_other_client(bootstrap, narrow, topic, name):
    async def produced(**about):
        async with AsyncProducer(bootstrap) as producer:
            await producer.produce(narrow, bytes(2_000), **about)

    async def consumed(bootstrap, topic):
        async with AsyncConsumer(bootstrap, topic):
            pass

    with pytest.raises(RecordTooLarge):
        run(produced())
    with pytest.raises(UnknownPartition, match=r"its partitions are 0 to 0"):
        run(produced(partition=3))
    with pytest.raises(UnknownTopic, match=f'there is no topic "{name}-none"'):
        run(consumed(bootstrap, f"{name}-none"))
    with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1"):
        run(consumed("127.0.0.1:1", topic))
