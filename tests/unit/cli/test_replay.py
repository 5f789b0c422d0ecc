"""What `runnel replay` takes for a time."""

import pytest

APP = """
from runnel import App
app = App("shop")
clicks = app.stream("clicks", schema="page string")
@app.stream(clicks)
def stays(clicks):
    return clicks
"""


@pytest.mark.parametrize("start", ["latest", "20260701", "yesterday"])
def test_an_offset_and_the_end_are_no_times(runnel, tmp_path, start):
    path = tmp_path / "shop.py"
    path.write_text(APP)
    code, _, err = runnel("replay", "stays", path, "--from", start, "--to-topic", "again")
    told = " ".join(err.replace("│", " ").split())
    assert code == 2
    assert (
        f"Invalid value for '--from': \"{start}\" is no time to replay from (expected earliest, a time such as "
        "2026-07-01T12:00:00Z, or an age such as 1d)"
    ) in told
