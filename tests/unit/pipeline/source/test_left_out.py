"""Rows that a batch leaves out, in a file."""

from runnel.pipeline.source.left_out import LeftOut, forget_before, read_left_out, write_left_out

FIRST = LeftOut(0, "clicks", 1, 5, "ValueError: no")
SECOND = LeftOut(1, "orders", 0, 7, "ValueError: neither")


def test_a_batch_that_has_no_file_leaves_nothing_out(tmp_path):
    assert read_left_out(tmp_path, 3) == []


def test_what_was_written_is_read(tmp_path):
    write_left_out(tmp_path, 3, [SECOND, FIRST])
    assert read_left_out(tmp_path, 3) == [FIRST, SECOND]
    assert read_left_out(tmp_path, 4) == []
    assert FIRST.place == ("clicks", 1, 5)


def test_more_rows_come_to_those_that_are_there(tmp_path):
    write_left_out(tmp_path, 3, [SECOND])
    write_left_out(tmp_path, 3, [FIRST, SECOND])
    assert read_left_out(tmp_path, 3) == [FIRST, SECOND]


def test_the_batch_before_may_be_repeated_and_older_ones_are_forgotten(tmp_path):
    for batch in (1, 2, 3):
        write_left_out(tmp_path, batch, [FIRST])
    forget_before(tmp_path, 3)
    assert [batch for batch in range(5) if read_left_out(tmp_path, batch)] == [2, 3]
