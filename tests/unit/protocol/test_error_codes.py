from kio.schema.errors import ErrorCode as KafkaErrorCode

from runnel.protocol.error_codes import ErrorCode


def test_the_numbers_are_kafkas() -> None:
    assert {int(code) for code in ErrorCode} == {code.value for code in KafkaErrorCode}


def test_the_names_are_kafkas_but_for_one_that_says_exception() -> None:
    theirs = {code.value: code.name.upper() for code in KafkaErrorCode}
    differing = {code.value: (code.name, theirs[code.value]) for code in ErrorCode if code.name != theirs[code.value]}
    assert differing == {17: ("INVALID_TOPIC", "INVALID_TOPIC_EXCEPTION")}
