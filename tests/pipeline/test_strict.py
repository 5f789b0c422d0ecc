"""A stream that was declared strict: its query stops at the first row that is late or rejected, and tells which."""

from __future__ import annotations

import pytest

from runnel import Broker
from runnel.app.runner import QueryFailed
from tests.pipeline.operators import LATE, OPERATORS
from tests.pipeline.scene import SECOND, Scene


@pytest.fixture
def scene(tmp_path, spark):
    with Broker() as broker:
        yield Scene(broker, spark, tmp_path / "data")


@pytest.mark.parametrize(
    ("kind", "wrong", "parallel_from"),
    [
        pytest.param("stream", "late", 1_000, marks=pytest.mark.servers),
        pytest.param("view", "rejected", 1_000, marks=pytest.mark.servers),
        pytest.param("stream", "rejected", 1, marks=pytest.mark.soak),
        pytest.param("view", "late", 1_000, marks=pytest.mark.soak),
    ],
)
def test_a_strict_query_stops_and_goes_on_when_it_is_allowed_to(scene, kind, wrong, parallel_from):
    operator = OPERATORS["stateless"]

    def found():
        return operator.found(scene.rows("result") if kind == "view" else scene.values("result"))

    scene.make("clicks", partitions=1)
    good = [scene.send_one("clicks", 100 * SECOND, n=50)]
    scene.run(operator.app(kind, rows=1000, strict=True), parallel_from=parallel_from)
    before = operator.expected(good)
    assert found() == before
    good.append(scene.send_one("clicks", 101 * SECOND, n=60))
    bad = scene.send_one("clicks", (100 - LATE) * SECOND - 1, n=70) if wrong == "late" else scene.send_broken("clicks")
    for _ in range(2):  # it does not help to start it again
        with pytest.raises(QueryFailed) as stopped:
            scene.run(operator.app(kind, rows=1000, strict=True), parallel_from=parallel_from)
        assert "strict" in stopped.value.what
        assert f"clicks-0 at offset {bad.place[2]}, {wrong}" in stopped.value.what
        assert "without strict" in stopped.value.hint
        assert found() == before
    side = "result.late" if wrong == "late" else "clicks.rejected"
    assert scene.records(side) == []
    scene.run(operator.app(kind, rows=1000), parallel_from=parallel_from)
    assert found() == operator.expected(good)
    assert list(scene.aside(side, "result")) == [bad.place]
