"""The numbers of the captures' lives become figures, each beside what it is held to."""

import pytest

from benchmarks.broker_turns import Turns
from benchmarks.capture import MEMORY_LIMIT, figures
from benchmarks.capture_delays import key_of
from benchmarks.capture_memory import IN_PROGRESS, WHOLE, Growth
from benchmarks.capture_running import topic_of
from benchmarks.capture_samples import MB, Caught, Delays, Life, Sizes
from benchmarks.capture_sides import DEBEZIUM
from benchmarks.harness import Options, Verdict

FULL = Sizes.of(Options())


def caught(*, seconds=10.0, changes=300_000, cpu=3.0, peak=120):
    return Caught(changes, seconds, cpu, round(peak * MB), round((peak - 10) * MB))


def life(*, seconds=10.0, p99=20.0, rows_per_second=60_000.0, peak=120):
    backlog = caught(seconds=seconds, peak=peak)
    return Life(backlog, backlog, backlog, Delays(5.0, p99), rows_per_second, Delays(8.0, 2 * p99))


def growths(*, few=110, whole=120):
    grown = Growth(caught(changes=100_000, peak=few), caught(changes=1_000_000, peak=whole))
    return {WHOLE: [grown], IN_PROGRESS: [grown]}


def made(ours, peer, grown=None):
    turns = Turns(ours=(ours,), peer=(peer,), against=DEBEZIUM)
    return {(each.name, each.against): each for each in figures(turns, grown or growths(), FULL)}


def test_a_backlog_is_measured_by_its_changes_a_second_and_by_what_it_costs_the_server():
    found = caught(seconds=10.0, changes=300_000, cpu=3.0)
    assert found.per_second == 30_000
    assert found.server_cpu_of_a_million == pytest.approx(10.0)


def test_rates_are_held_to_those_of_debezium():
    found = made(life(seconds=12.0, rows_per_second=80_000.0), life(seconds=10.0, rows_per_second=50_000.0))
    backlog = found["a backlog of 300,000 changes", DEBEZIUM]
    assert backlog.verdict is Verdict.MISSED
    assert backlog.ratio == pytest.approx(10 / 12)
    assert found["snapshot of 2,000,000 rows", DEBEZIUM].verdict is Verdict.MET


def test_delays_are_to_be_at_most_those_of_debezium():
    found = made(life(p99=21.0), life(p99=20.0))
    lag = "from the commit to a reader, 500 changes/s"
    assert found[f"{lag}: p50", DEBEZIUM].verdict is Verdict.MET
    assert found[f"{lag}: p99", DEBEZIUM].verdict is Verdict.MISSED
    assert found[f"{lag}, during a snapshot: p99", DEBEZIUM].ours == (42.0,)


def test_memory_is_held_to_the_limit_and_beside_that_of_a_smaller_transaction():
    found = made(life(peak=MEMORY_LIMIT + 1), life(peak=600), growths(few=100, whole=111))
    assert found["memory in a backlog, resident", "the limit"].verdict is Verdict.MISSED
    assert found["memory in a backlog, resident", DEBEZIUM].verdict is Verdict.NO_TARGET
    for how in (WHOLE, IN_PROGRESS):
        name = f"memory in a transaction of 1,000,000 rows, {how}"
        assert found[name, "the limit"].verdict is Verdict.MET
        assert found[name, "one of 100,000 rows"].verdict is Verdict.MISSED


def test_a_quick_run_does_the_same_with_less():
    quick = vars(Sizes.of(Options(quick=True)))
    assert quick.pop("is_quick")
    assert all(size < getattr(FULL, name) for name, size in quick.items())


def test_a_change_is_known_by_its_key_in_the_topic_of_its_table():
    assert topic_of("ticks") == "bench.public.ticks"
    assert key_of(b'{"id":17}') == 17
