from math import inf

import pytest

from runnel.broker.cluster import QuotaEntity
from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.quotas import CONSUME, PRODUCE, Quotas, Rate, entity_of

KB = 1_000
EVERY_CLIENT: QuotaEntity = (("client-id", None),)


def quotas(limits: dict[QuotaEntity, float], most_rates: int = 100) -> Quotas:
    produce = {entity: {PRODUCE: limit} for entity, limit in limits.items()}
    return Quotas(BrokerSettings(), produce, most_rates)


def test_nobody_waits_without_a_quota() -> None:
    assert quotas({}).throttle_ms(PRODUCE, "a", 10**9, 0) == 0


def test_quotas_are_set_until_the_last_one_is_taken_away() -> None:
    limited = quotas({EVERY_CLIENT: 100 * KB})
    assert limited.are_set
    assert not quotas({}).are_set

    limited.change({})

    assert not limited.are_set


def test_a_client_within_its_quota_does_not_wait() -> None:
    limited = quotas({EVERY_CLIENT: 100 * KB})

    assert [limited.throttle_ms(PRODUCE, "a", 10 * KB, second * 1000) for second in range(30)] == [0] * 30


def test_a_client_beyond_its_quota_waits_until_its_rate_is_the_quota_again() -> None:
    limited = quotas({EVERY_CLIENT: 100 * KB})

    # 2,000,000 bytes over the 10 seconds that a new client is taken to have: 200,000 a second.
    assert limited.throttle_ms(PRODUCE, "a", 2_000 * KB, 0) == 10_000


def test_the_wait_ends_when_all_samples_are_of_the_past() -> None:
    limited = quotas({EVERY_CLIENT: 1})

    assert limited.throttle_ms(PRODUCE, "a", 10**9, 0) == 11_000
    assert limited.throttle_ms(PRODUCE, "a", 0, 11_000) == 0


def test_whoever_keeps_to_the_wait_has_the_quota_as_its_rate() -> None:
    limited = quotas({EVERY_CLIENT: 100 * KB})
    now = sent = 0
    while now < 300_000:
        sent += 300 * KB
        now += 10 + limited.throttle_ms(PRODUCE, "a", 300 * KB, now)

    assert sent / (now / 1000) == pytest.approx(100 * KB, rel=0.15)


def test_produce_and_consume_are_counted_apart() -> None:
    limited = Quotas(BrokerSettings(), {EVERY_CLIENT: {PRODUCE: 1.0}})

    assert limited.throttle_ms(PRODUCE, "a", 10**6, 0) > 0
    assert limited.throttle_ms(CONSUME, "a", 10**6, 0) == 0


def test_clients_under_the_default_quota_are_counted_apart() -> None:
    limited = quotas({EVERY_CLIENT: 100 * KB})

    assert limited.throttle_ms(PRODUCE, "a", 2_000 * KB, 0) > 0
    assert limited.throttle_ms(PRODUCE, "b", 10 * KB, 0) == 0


def test_the_clients_of_a_user_share_its_quota() -> None:
    limited = quotas({(("user", "ANONYMOUS"),): 100 * KB})

    assert limited.throttle_ms(PRODUCE, "a", 2_000 * KB, 0) > 0
    assert limited.throttle_ms(PRODUCE, "b", 10 * KB, 0) > 0


def test_a_client_without_an_id_has_the_default_quota() -> None:
    assert quotas({EVERY_CLIENT: 5}).limit(PRODUCE, None) == 5


def test_the_most_special_quota_counts() -> None:
    from_special = [
        entity_of({"user": "ANONYMOUS", "client-id": "a"}),
        entity_of({"user": "ANONYMOUS", "client-id": None}),
        entity_of({"user": "ANONYMOUS"}),
        entity_of({"user": None, "client-id": "a"}),
        entity_of({"user": None, "client-id": None}),
        entity_of({"user": None}),
        entity_of({"client-id": "a"}),
        entity_of({"client-id": None}),
    ]
    for first in range(len(from_special)):
        limits = {entity: float(first + number) for number, entity in enumerate(from_special[first:], 1)}
        assert quotas(limits).limit(PRODUCE, "a") == first + 1


@pytest.mark.parametrize("connections", [1, 5])
def test_clients_that_get_what_there_is_room_for_have_the_quota_as_their_rate(connections: int) -> None:
    limited = quotas({EVERY_CLIENT: 100 * KB})
    free_at, given = [0] * connections, 0
    while (now := min(free_at)) < 300_000:
        size = max(KB, int(limited.room(PRODUCE, "a", now)))
        given += size
        free_at[free_at.index(now)] = now + 10 + limited.throttle_ms(PRODUCE, "a", size, now)

    assert given / 300 == pytest.approx(100 * KB, rel=0.15)


def test_a_client_without_a_quota_has_room_for_what_it_asks_for() -> None:
    assert quotas({(("client-id", "b"),): 1}).room(PRODUCE, "a", 0) == inf


def test_a_quota_of_somebody_else_does_not_count() -> None:
    assert quotas({(("client-id", "b"),): 1, (("user", "somebody"),): 1}).limit(PRODUCE, "a") is None


def test_a_changed_quota_counts_at_once() -> None:
    limited = quotas({EVERY_CLIENT: 1})
    limited.throttle_ms(PRODUCE, "a", 10**6, 0)

    limited.change({EVERY_CLIENT: {PRODUCE: 10.0**9}})

    assert limited.throttle_ms(PRODUCE, "a", 10, 1) == 0


def test_silent_clients_are_forgotten() -> None:
    limited = quotas({EVERY_CLIENT: 1})
    for number in range(50):
        limited.throttle_ms(PRODUCE, str(number), 1, number)

    limited.throttle_ms(PRODUCE, "last", 1, 60_000)

    assert limited.measured == 1


def test_the_memory_for_clients_is_bounded() -> None:
    limited = quotas({EVERY_CLIENT: 1}, most_rates=100)
    for number in range(1_000):
        limited.throttle_ms(PRODUCE, str(number), 1, 0)

    assert limited.measured == 100


def test_a_removed_quota_leaves_nothing_behind() -> None:
    limited = quotas({EVERY_CLIENT: 1})
    limited.throttle_ms(PRODUCE, "a", 1, 0)

    limited.change({})

    assert limited.measured == 0


def test_a_rate_counts_no_more_than_its_samples() -> None:
    rate = Rate(sample_ms=1_000, samples=3)
    for second in range(100):
        rate.add(1_000, second * 1_000)

    # Three samples, over the two seconds since the first of them began.
    assert rate.per_second(99_000) == 1_500
    assert rate.per_second(99_999) == pytest.approx(1_000, rel=0.001)
