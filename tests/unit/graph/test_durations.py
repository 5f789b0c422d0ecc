import pytest

from runnel.graph.durations import milliseconds
from runnel.graph.errors import InvalidDeclaration


@pytest.mark.parametrize(
    ("text", "is_"),
    [
        ("30 seconds", 30_000),
        ("1 minute", 60_000),
        ("1 hour 30 minutes", 5_400_000),
        ("2 days, 1 hour", 176_400_000),
        ("5 milliseconds", 5),
        ("0 seconds", 0),
        ("1week", 604_800_000),
    ],
)
def test_a_duration_is_read(text, is_):
    assert milliseconds(text, 'stream "a"', "late") == is_


@pytest.mark.parametrize("text", ["", "soon", "-1 second", "1", "1 fortnight", "1.5 seconds", "1 second and", 30, None])
def test_what_is_none_is_refused_with_the_argument(text):
    with pytest.raises(InvalidDeclaration) as error:
        milliseconds(text, 'stream "a"', "late")
    assert str(error.value) == (
        f'stream "a": late {text!r} is no duration (write one such as "30 seconds", "5 minutes" or "1 hour")'
    )
