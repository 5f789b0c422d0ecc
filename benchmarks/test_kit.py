"""What a test of an app costs, once Spark runs.

It needs Java 17. A session is started, and one test played in it: that is not measured. The second test has an app, a
broker and a data directory of its own, and plays three rows, a pause and two rows more. Beside it stands a second of
the clock. The quickest test of a body, a call of the function on plain rows, is measured the same way; so is a test
with a crash in it, for which the app starts twice.
"""

from collections.abc import Callable
from typing import Any

from benchmarks import pipeline_app
from benchmarks.harness import Figure, Options, at_most, seconds, side_by_side
from runnel.testing import CRASH, PAUSE, Player, row, spark_for_tests

A_SECOND = "one second"
app, clicks, body = pipeline_app.app, pipeline_app.clicks, pipeline_app.clicks_per_minute
FIRST = [row(clicks, page="tea", at=f"12:00:{second}") for second in (10, 20, 59)]
THEN = [row(clicks, page="tea", at=f"12:01:{second}") for second in (10, 40)]


def run(options: Options) -> list[Figure]:
    spark = spark_for_tests()
    try:
        play = Player(spark)
        play(app, *FIRST, PAUSE, *THEN)
        plain = spark.createDataFrame([("tea", 1)], "page string, customer_id long").selectExpr("*", "now() at")
        body(plain).collect()
        return [
            _beside_a_second("second test of the test kit", lambda: play(app, *FIRST, PAUSE, *THEN), options),
            _beside_a_second("the same with a crash", lambda: play(app, *FIRST, CRASH, *THEN), options, is_aimed=False),
            _beside_a_second("the body alone, on plain rows", lambda: body(plain).collect(), options),
        ]
    finally:
        spark.stop()


def _beside_a_second(name: str, test: Callable[[], Any], options: Options, *, is_aimed: bool = True) -> Figure:
    return side_by_side(
        name,
        unit="s",
        against=A_SECOND,
        ours=lambda: seconds(test),
        peer=lambda: 1.0,
        target=at_most(1.0) if is_aimed else None,
        options=options,
    )
