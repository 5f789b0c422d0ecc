"""One decides how far a batch goes, and the other sources of the same input follow."""

from __future__ import annotations

from runnel.pipeline.source.agreement import Agreement
from runnel.pipeline.source.offsets import Offsets


def offsets(at: int, idle: int = 0) -> Offsets:
    return Offsets(0, {("clicks", 0): at}, {"clicks": "id"}, idle)


def test_who_is_asked_first_decides_and_the_other_follows(tmp_path):
    first, second = Agreement(tmp_path / "input-0"), Agreement(tmp_path / "input-0")
    assert first.is_ours
    assert not second.is_ours
    assert first.decide(offsets(0), offsets(5)) == offsets(5)
    assert second.follow(offsets(0)) == offsets(5)
    assert first.decide(offsets(5), offsets(5, idle=1_000)) == offsets(5, idle=1_000)
    assert second.follow(offsets(5)) == offsets(5, idle=1_000)


def test_where_nothing_was_decided_there_is_nothing_new(tmp_path):
    first, second = Agreement(tmp_path / "input-0"), Agreement(tmp_path / "input-0")
    assert first.is_ours
    assert second.follow(offsets(0)) == offsets(0)
    first.decide(offsets(0), offsets(5))
    first.decide(offsets(5), offsets(5))
    assert second.follow(offsets(5)) == offsets(5)


def test_another_one_decides_when_the_first_has_ended(tmp_path):
    first, second = Agreement(tmp_path / "input-0"), Agreement(tmp_path / "input-0")
    assert first.is_ours
    assert not second.is_ours
    first.decide(offsets(0), offsets(5))
    del first
    assert second.is_ours
    assert second.decide(offsets(0), offsets(7)) == offsets(7)


def test_inputs_do_not_disturb_each_other(tmp_path):
    one, other = Agreement(tmp_path / "input-0"), Agreement(tmp_path / "input-1")
    assert one.is_ours
    assert other.is_ours
