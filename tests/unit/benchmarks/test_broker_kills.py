"""The copy of what a killed broker left."""

from benchmarks.broker_kills import TOPIC, copy_as_left, copy_with_holes

MIB = 1024 * 1024


def test_segments_of_the_topic_are_shared_and_everything_else_is_copied(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    names = [f"{TOPIC}-0/00000.log", f"{TOPIC}-0/00000.index", "__cluster_metadata-0/00000.log", "meta.properties"]
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    copy_as_left(source, target)
    assert [(target / name).read_text() for name in names] == names
    assert [(source / name).samefile(target / name) for name in names] == [True, False, False, False]


def test_the_lock_of_the_killed_broker_is_left_behind(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / ".lock").touch()
    copy_as_left(tmp_path / "source", tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []


def test_holes_stay_holes(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.truncate(30 * MIB)
        file.seek(10 * MIB)
        file.write(b"data")
    copy_with_holes(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks * 512 < MIB


def test_a_file_without_holes_and_an_empty_one_are_copied(tmp_path):
    for content in (b"", b"all of it"):
        (tmp_path / "source").write_bytes(content)
        copy_with_holes(tmp_path / "source", tmp_path / "target")
        assert (tmp_path / "target").read_bytes() == content
