"""The file that kcat sends."""

import pytest

from benchmarks.broker_bulk import LINE, lines


@pytest.mark.parametrize("records", [1, 10_000, 25_001])
def test_the_file_has_so_many_lines_of_one_length_and_is_gone_afterwards(tmp_path, records):
    with lines(tmp_path, records) as file:
        written = file.read_bytes().splitlines()
    assert len(written) == records
    assert {len(line) for line in written} == {LINE}
    assert not file.exists()
