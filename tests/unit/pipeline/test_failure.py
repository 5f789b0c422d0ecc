"""What Spark says of a failure, in words of ours, and whether the query may go on."""

import pytest

from runnel.client.errors import Fenced
from runnel.errors import Permanent, Transient
from runnel.pipeline.errors import DiskFull, FunctionFailed, ProcessDied, Unexplained
from runnel.pipeline.failure import told

PLANNER = """[STREAM_FAILED] Query [id = 35c5] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] \
Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/sql/streaming/python_streaming_source_runner.py", line 210, in main
    latest_offset_func(reader, infile, outfile)
  File "/venv/lib/python3.11/site-packages/runnel/client/again.py", line 90, in settled
    raise error
{error}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: runnel.shop.long_stays"""
BODY = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/worker.py", line 10, in main
    process()
  File "/home/me/shop.py", line 12, in half
    return 1 / 0
ZeroDivisionError: division by zero
"""


def planned(error):
    return RuntimeError(PLANNER.replace("{error}", error))


def test_an_error_of_ours_is_told_as_it_is():
    error = Fenced("runnel.shop.long_stays")
    assert told(error) is error


def test_an_error_of_ours_from_another_process_may_pass():
    error = told(planned("runnel.client.errors.Unreachable: no broker answers at 127.0.0.1:1: refused (start one)"))
    assert isinstance(error, Transient)
    assert (error.what, error.hint) == ("no broker answers at 127.0.0.1:1: refused", "start one")


def test_an_error_of_ours_from_another_process_may_be_for_good():
    error = told(planned('runnel.client.errors.TopicReplaced: topic "clicks" was deleted (begin again)'))
    assert isinstance(error, Permanent)
    assert error.what == 'topic "clicks" was deleted'


@pytest.mark.parametrize("name", ["runnel.client.errors.NoSuchError", "runnel.no.such.module.Unreachable"])
def test_one_that_is_not_known_is_for_good(name):
    assert isinstance(told(planned(f"{name}: something")), Permanent)


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device: '/data/queries/x/start-0.new'",
        "java.io.IOException: No space left on device",
        "OSError: [Errno 122] Disk quota exceeded",
    ],
)
def test_a_full_disk_passes(text):
    assert isinstance(told(planned(text)), DiskFull)


def test_a_worker_that_died():
    text = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting ..."
    assert isinstance(told(RuntimeError(f"Job aborted due to stage failure\n{text}\n\tat ...")), ProcessDied)


def test_a_planner_that_died():
    frames = "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)\n\tat org.apache.spark.sql."
    frames += "execution.python.streaming.PythonStreamingSourceRunner.latestOffset(PythonStreamingSourceRunner.scala:2)"
    error = told(RuntimeError(f"[STREAM_FAILED] ...\njava.io.EOFException\n{frames}"))
    assert isinstance(error, ProcessDied)


def test_an_error_of_the_body_is_told_with_its_line():
    error = told(RuntimeError(BODY))
    assert isinstance(error, Permanent)
    assert error.what == "ZeroDivisionError: division by zero (/home/me/shop.py, line 12)"


DIVISION = """An error occurred while calling o216.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times: \
org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor \
being 0 and return NULL instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. \
SQLSTATE: 22012
== DataFrame ==
"div" was called from
/home/me/shop.py:14

\tat org.apache.spark.sql.errors.QueryExecutionErrors$.divideByZeroError(QueryExecutionErrors.scala:204)"""
DIVIDED = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead."


def test_a_value_that_spark_cannot_compute_with_is_told_with_the_user_s_line():
    error = told(RuntimeError(DIVISION))
    assert isinstance(error, FunctionFailed)
    assert error.what == f"{DIVIDED} (/home/me/shop.py, line 14)"


def test_a_value_that_spark_cannot_compute_with_is_told_in_one_line_where_no_line_is_known():
    error = told(RuntimeError(DIVISION.replace("was called from", "of an expression")))
    assert isinstance(error, Unexplained)
    assert error.what == DIVIDED
