"""The comparison with Apache Kafka, and the reading of what the suites print."""

import json
from pathlib import Path

from tests.conformance.baseline import Baseline, differences, load, store
from tests.conformance.kafka_python import read_report as read_junit
from tests.conformance.librdkafka import IN_A_GROUP, Case, Split, outcome, parse_names, read_report, with_one_replica
from tests.conformance.outcome import Outcome, Result, without_colours


def baseline(**results: list[str]) -> Baseline:
    return Baseline({}, results, dict.fromkeys(results, 1.0))


def ended(name: str, result: Result) -> Outcome:
    return Outcome(name, result, 1.0)


def test_a_test_that_passed_in_every_run_is_required() -> None:
    stored = baseline(sure=["passed", "passed"], flaky=["passed", "failed"], failing=["failed", "failed"])
    assert stored.required == ["sure"]
    assert not stored.requires("unheard of")


def test_a_required_test_that_fails_is_skipped_or_takes_too_long_is_a_difference() -> None:
    stored = baseline(a=["passed"], b=["passed"], c=["passed"], d=["passed"])
    outcomes = [ended("a", "failed"), ended("b", "skipped"), ended("c", "timed out"), ended("d", "passed")]
    assert [difference.outcome.name for difference in differences(stored, outcomes, {})] == ["a", "b", "c"]


def test_a_test_that_apache_kafka_fails_may_fail_here() -> None:
    stored = baseline(failing=["failed"], flaky=["passed", "failed"])
    assert differences(stored, [ended("failing", "failed"), ended("flaky", "failed")], {}) == []


def test_an_exception_may_fail_and_is_reported_once_it_passes() -> None:
    stored = baseline(a=["passed"], b=["passed"])
    excused = {"a": "a cause", "b": "another"}
    found = differences(stored, [ended("a", "failed"), ended("b", "passed")], excused)
    assert [(difference.outcome.name, difference.excuse) for difference in found] == [("b", "another")]


def test_a_stored_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    store(path, {"broker": "a"}, [[Outcome("t", "passed", 1.5)], [Outcome("t", "failed", 2.5)]])
    read = load(path)
    assert read.about == {"broker": "a"}
    assert read.results == {"t": ["passed", "failed"]}
    assert read.seconds == {"t": 2.5}


def test_recording_some_tests_anew_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    kept = baseline(old=["passed", "passed"], again=["failed", "failed"])
    store(path, {}, [[ended("again", "passed")]], kept)
    assert load(path).results == {"old": ["passed", "passed"], "again": ["passed"]}


TABLE = """
struct test tests[] = {
    {.name = "<MAIN>", .flags = TEST_F_LOCAL},
    _TEST(0001_first, 0, TEST_BRKVER(0, 9, 0, 0),
          /* Says TEST_F_LOCAL in a comment. */
          _THRES(.ucpu = 40.0)),
    _TEST(0002_local, TEST_F_LOCAL | TEST_F_KNOWN_ISSUE),
#if WITH_SOCKEM
    _TEST(0003_emulated, TEST_F_SOCKEM),
#endif
    _TEST(0004_other, 0, .scenario = "noautocreate"),
    _TEST(0005_both, 0, .scenario = "default,noautocreate"),

    {NULL}
};
"""


def test_librdkafkas_table_gives_the_tests_of_a_scenario_that_need_a_broker() -> None:
    assert parse_names(TABLE, "default") == ["0001_first", "0003_emulated", "0005_both"]
    assert parse_names(TABLE, "noautocreate") == ["0004_other", "0005_both"]


def test_a_topic_gets_one_replica_where_a_test_asks_for_three() -> None:
    assert with_one_replica("create_topic_wait_exists(p, topic, 4, 3, 5000);") == (
        "create_topic_wait_exists(p, topic, 4, 1, 5000);"
    )
    assert with_one_replica("create_topic_wait_exists(c, name(1),\n   count, 3, 5000);") == (
        "create_topic_wait_exists(c, name(1),\n   count, 1, 5000);"
    )


def test_other_numbers_of_replicas_and_partitions_stay() -> None:
    for call in (
        "create_topic_wait_exists(NULL, topic, 3, 1, 5000);",
        "create_topic_wait_exists(p, topic, 3, -1, 5000);",
    ):
        assert with_one_replica(call) == call


def test_the_tests_for_the_new_protocol_are_those_in_which_groups_matter() -> None:
    names = ["0018_cgrp_term", "0081_admin/DeleteGroups", "0081_admin/CreateTopics", "0103_transactions/misuse_txn"]
    assert [name for name in names if IN_A_GROUP.match(name)] == ["0018_cgrp_term", "0081_admin/DeleteGroups"]


def test_a_state_in_librdkafkas_report_is_the_result() -> None:
    states = {"0001_first": ("PASSED", 2.0), "0002_second": ("FAILED", 3.0), "0003_third": ("SKIPPED", 0.0)}
    results = [outcome(Case(name), "", states, True, 9.0).result for name in states]
    assert results == ["passed", "failed", "skipped"]


def test_a_run_that_was_stopped_or_wrote_no_report_did_not_pass(tmp_path: Path) -> None:
    assert read_report(tmp_path / "missing.json") == {}
    assert outcome(Case("0001_first"), "", {}, True, 9.0).result == "failed"
    assert outcome(Case("0001_first"), "", {}, False, 9.0).result == "timed out"
    text = "Test 0001_first timed out (timeout set to 30 seconds)"
    assert outcome(Case("0001_first"), text, {"0001_first": ("FAILED", 30.0)}, True, 31.0).result == "timed out"


def test_a_part_passes_only_if_it_says_so() -> None:
    states = {"0081_admin": ("PASSED", 2.0)}
    case = Case("0081_admin", "CreateTopics")
    ran = "[ do_test_CreateTopics:78: with a queue: PASS (0.10s) ]"
    assert outcome(case, ran, states, True, 2.0).result == "passed"
    assert outcome(case, "[ do_test_DeleteTopics:318: PASS (0.10s) ]", states, True, 2.0).result == "skipped"


SOURCE = """
static void do_test_first(int number) {
        do_test_helper(number);
}

static void all_tests(int number) {
        do_test_first(1);
        if (number) {
                do_test_second("a queue",
                               number);
                do_test_first(2);
        }
}

static void do_test_elsewhere(void) {
}
"""


def test_the_parts_of_a_test_are_those_that_its_source_calls_once_each() -> None:
    assert Split("0081-admin.c", "all_tests", "do_test_", r"\w+").parts(SOURCE) == ["first", "second"]
    assert Split("0081-admin.c", "missing", "do_test_", r"\w+").parts(SOURCE) == []


def test_librdkafkas_report_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"tests": {"0001_first": {"state": "PASSED", "duration": 1.25}}}))
    assert read_report(report) == {"0001_first": ("PASSED", 1.25)}


JUNIT = """<testsuites><testsuite>
<testcase classname="test.integration.test_a" name="test_b[gzip]" time="0.25"/>
<testcase classname="test.integration.test_a.TestC" name="test_d" time="0"><skipped message="not here"/></testcase>
<testcase classname="test.integration.test_a" name="test_e" time="1"><failure message="no">because</failure></testcase>
<testcase classname="test.integration.test_a" name="test_f" time="1"><error message="">setup</error></testcase>
<testcase classname="test.integration.test_a" name="test_g" time="9"><failure message="x">E TimedOut: over the limit
of 120 s</failure></testcase>
</testsuite></testsuites>"""


def test_a_junit_report_gives_names_as_pytest_takes_them(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(JUNIT)
    assert [(outcome.name, outcome.result) for outcome in read_junit(report)] == [
        ("test_a.py::test_b[gzip]", "passed"),
        ("test_a.py::TestC::test_d", "skipped"),
        ("test_a.py::test_e", "failed"),
        ("test_a.py::test_f", "failed"),
        ("test_a.py::test_g", "timed out"),
    ]


def test_colours_are_taken_out() -> None:
    assert without_colours("\033[31mred\033[0m and m") == "red and m"
