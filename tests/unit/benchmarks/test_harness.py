"""The harness decides fairly: what it measures, in which order, and when a target is missed."""

import json
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from benchmarks import __main__ as program
from benchmarks import harness
from benchmarks.harness import Figure, Options, Verdict, at_least, at_most, side_by_side


def figure(ratios, target=None):
    return Figure("append", "records/s", "plain file", tuple(ratios), (1.0,) * len(ratios), target)


def test_a_ratio_is_ours_over_peer_round_by_round():
    measured = Figure("append", "records/s", "plain file", ours=(10.0, 30.0), peer=(5.0, 10.0))
    assert measured.ratios == (2.0, 3.0)


def test_the_ratio_of_a_figure_is_the_median_and_the_spread_its_extremes():
    measured = figure([0.9, 5.0, 1.1, 1.0, 0.2])
    assert measured.ratio == 1.0
    assert measured.spread == (0.2, 5.0)


@pytest.mark.parametrize(
    ("target", "ratios", "verdict"),
    [
        (None, [0.1, 0.1, 0.1], Verdict.NO_TARGET),
        (at_least(1.0), [1.1, 1.2, 1.3], Verdict.MET),
        (at_least(1.0), [1.0, 1.0, 1.0], Verdict.MET),
        (at_least(1.0), [0.5, 1.2, 1.3], Verdict.MET),
        (at_least(1.0), [0.5, 0.6, 1.0], Verdict.WITHIN_SPREAD),
        (at_least(1.0), [0.5, 0.6, 0.99], Verdict.MISSED),
        (at_most(1.0), [0.7, 0.8, 0.9], Verdict.MET),
        (at_most(1.0), [1.0, 1.0, 1.0], Verdict.MET),
        (at_most(1.0), [0.7, 0.8, 1.9], Verdict.MET),
        (at_most(1.0), [1.0, 1.4, 1.5], Verdict.WITHIN_SPREAD),
        (at_most(1.0), [1.01, 1.4, 1.5], Verdict.MISSED),
    ],
)
def test_a_target_is_missed_only_when_it_is_outside_of_the_spread(target, ratios, verdict):
    assert figure(ratios, target).verdict is verdict


@pytest.mark.parametrize(
    ("ours", "peer"),
    [((), ()), ((1.0, 2.0), (1.0,)), ((1.0,), (0.0,)), ((-1.0,), (1.0,))],
)
def test_a_figure_without_a_ratio_is_refused(ours, peer):
    with pytest.raises(ValueError, match="figure 'append'"):
        Figure("append", "records/s", "plain file", ours, peer)


def test_both_sides_are_measured_in_every_round_and_take_turns_to_be_first():
    calls = []

    def measure(side, value):
        calls.append(side)
        return value

    measured = side_by_side(
        "append",
        unit="records/s",
        against="plain file",
        ours=lambda: measure("ours", 3.0),
        peer=lambda: measure("peer", 2.0),
        options=Options(rounds=3),
    )
    assert calls == ["ours", "peer", "peer", "ours", "ours", "peer"]
    assert measured.ours == (3.0, 3.0, 3.0)
    assert measured.peer == (2.0, 2.0, 2.0)


def test_a_quick_run_takes_the_small_size():
    assert Options(quick=True).size(full=1000, quick=10) == 10
    assert Options().size(full=1000, quick=10) == 1000


def test_the_table_shows_the_ratio_and_marks_a_miss():
    output = StringIO()
    harness.show("Log", [figure([0.5], at_least(1.0))], Console(file=output, width=140))
    assert "at least 1" in output.getvalue()
    assert "0.50" in output.getvalue()
    assert "MISSED" in output.getvalue()


def test_saved_numbers_name_the_machine_the_date_and_every_round(tmp_path):
    now = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    path = harness.save("log", [figure([0.5, 0.7], at_least(1.0))], now=now, folder=tmp_path)
    saved = json.loads(path.read_text())
    assert path.name == "log.json"
    assert saved["date"] == "2025-01-02T03:04:05+00:00"
    assert saved["machine"]["cores"] >= 1
    assert saved["machine"]["python"]
    assert saved["figures"][0]["ours"] == [0.5, 0.7]
    assert saved["figures"][0]["target"] == "at least 1"
    assert saved["figures"][0]["verdict"] == "MISSED"


@pytest.fixture
def fake_benchmark(monkeypatch, tmp_path):
    """A benchmark `fake` that misses its target, and a place for its numbers."""

    class Fake:
        """Fake figures."""

        @staticmethod
        def run(options):
            return [figure([0.5] * options.rounds, at_least(1.0))]

    monkeypatch.setattr(program, "discover", lambda: {"fake": Fake})
    save = harness.save
    monkeypatch.setattr(harness, "save", lambda *given, **named: save(*given, **named, folder=tmp_path))
    return tmp_path / "fake.json"


def test_check_fails_on_a_miss_and_a_plain_run_does_not(fake_benchmark):
    assert program.main(["fake", "--check"]) == 1
    assert program.main(["fake"]) == 0
    assert len(json.loads(fake_benchmark.read_text())["figures"][0]["ours"]) == harness.ROUNDS


def test_a_quick_run_keeps_no_numbers(fake_benchmark):
    assert program.main(["--quick"]) == 0
    assert not fake_benchmark.exists()


@pytest.mark.parametrize("arguments", [["--check", "--quick"], ["unheard-of"]])
def test_a_command_line_that_makes_no_sense_is_refused(fake_benchmark, arguments, capsys):
    with pytest.raises(SystemExit):
        program.main(arguments)
    assert "usage:" in capsys.readouterr().err


def test_the_harness_is_not_taken_for_a_benchmark():
    assert "harness" not in program.discover()
    assert "__main__" not in program.discover()


def test_the_first_part_of_several_names_stands_for_all_of_them():
    programs = ["broker", "pipeline_counts", "pipeline_latency", "pipelined"]
    assert program.named("broker", programs) == ["broker"]
    assert program.named("pipeline", programs) == ["pipeline_counts", "pipeline_latency"]
    assert program.named("pipe", programs) == []
