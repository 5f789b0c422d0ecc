"""The forgetful disk shows its process what was written, and the disk only what was synced."""

from tests.transactions.forgetful_disk import ForgetfulFiles


def test_what_is_written_is_on_the_disk_only_after_a_sync(tmp_path):
    path = tmp_path / "file"
    file = ForgetfulFiles().open(str(path), create=True)
    file.write([b"one", b"two"], 0)
    assert (file.read(10, 0), file.size(), path.read_bytes()) == (b"onetwo", 6, b"")
    file.sync()
    assert path.read_bytes() == b"onetwo"


def test_another_holder_of_the_same_file_sees_what_is_not_synced(tmp_path):
    files, path = ForgetfulFiles(), str(tmp_path / "file")
    files.open(path, create=True).write([b"one"], 0)  # and it is let go at once
    assert files.open(path).read(10, 0) == b"one"


def test_a_renamed_file_keeps_what_is_not_synced_in_memory(tmp_path):
    files = ForgetfulFiles()
    file = files.open(str(tmp_path / "old"), create=True)
    file.write([b"one"], 0)
    files.rename(str(tmp_path / "old"), str(tmp_path / "new"))
    assert files.open(str(tmp_path / "new")).read(10, 0) == b"one"
    assert (tmp_path / "new").read_bytes() == b""


def test_a_truncation_is_forgotten_too(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"onetwo")
    file = ForgetfulFiles().open(str(path))
    file.truncate(3)
    assert (file.read(10, 0), path.read_bytes()) == (b"one", b"onetwo")
    file.sync()
    assert path.read_bytes() == b"one"


def test_a_disk_that_can_only_be_waited_for_offers_an_event_loop_nothing():
    assert ForgetfulFiles(waits_only=True).syncs() is None
