"""Where a checkpoint is, whoever was there before it, and whoever died while it was given its name."""

import pytest

from runnel.pipeline.checkpoint_path import NAME, checkpoint_in, is_named, name_checkpoint, remove_strays


@pytest.fixture
def begun(tmp_path):
    """The directory of a query that was never rebuilt."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    return tmp_path


def test_without_a_name_it_is_where_it_always_was(begun):
    assert not is_named(begun)
    assert checkpoint_in(begun) == begun / "checkpoint"


def test_no_two_have_the_same_name(tmp_path):
    names = set()
    for each in ("one", "two"):
        (tmp_path / each).mkdir()
        name_checkpoint(tmp_path / each)
        assert is_named(tmp_path / each)
        names.add(checkpoint_in(tmp_path / each).name)
    assert len(names) == 2
    assert "checkpoint" not in names


def test_one_that_is_there_is_renamed_once(begun):
    name_checkpoint(begun)
    found = checkpoint_in(begun)
    assert (found / "metadata").exists()
    assert not (begun / "checkpoint").exists()
    name_checkpoint(begun)
    assert checkpoint_in(begun) == found


def test_a_name_that_was_given_before_a_death_is_taken_up(begun):
    (begun / NAME).write_text("checkpoint-7")
    name_checkpoint(begun)
    assert (begun / "checkpoint-7" / "metadata").exists()


def test_what_was_written_in_the_place_of_another_goes_and_no_checkpoint_does(begun):
    (begun / NAME).write_text("checkpoint-7")
    for stray in ("checkpoint-6", "checkpoint-7"):
        (begun / stray / "state").mkdir(parents=True)
    remove_strays(begun)
    assert sorted(path.name for path in begun.iterdir()) == ["checkpoint", "checkpoint-7", NAME]
