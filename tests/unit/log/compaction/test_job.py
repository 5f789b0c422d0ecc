import pytest

from runnel.log.compaction.job import (
    Answer,
    Cleaned,
    Damaged,
    Done,
    Job,
    LastBatch,
    Source,
    answer_from_json,
    answer_to_json,
)

JOB = Job(
    folder="/data/orders-0",
    sources=(Source(0, 10, 500), Source(10, 30, 900)),
    first_dirty=10,
    now=1_000,
    segment_bytes=2_000,
    index_interval_bytes=4_096,
    delete_retention_ms=7,
    buffer_bytes=10_000,
    cpu_percent=25,
    producers={7: LastBatch(1, 29), 8: LastBatch(0, -1)},
    aborted=((7, 3, 9),),
)


def test_a_job_comes_through_a_pipe_as_it_was() -> None:
    line = JOB.to_json()

    assert "\n" not in line
    assert Job.from_json(line) == JOB


@pytest.mark.parametrize(
    "answer", [Cleaned(0, 30, 400, 1_400, 20, 5, None, False), Done(30, 2), Damaged(10, 61, 12, "no batch")]
)
def test_an_answer_comes_through_a_pipe_as_it_was(answer: Answer) -> None:
    assert answer_from_json(answer_to_json(answer)) == answer


@pytest.mark.parametrize("line", ["", "Killed", "[]", "{}", '{"Done": {"end": 3}}', '{"Lunch": {}}', "3"])
def test_what_is_no_answer_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no answer of a compaction"):
        answer_from_json(line)
