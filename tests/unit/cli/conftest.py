"""Runs the command line inside of the test's process, with all that `main` does around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from runnel.cli import main


class Result(NamedTuple):
    code: object
    out: str
    err: str


@pytest.fixture
def runnel(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments: object) -> Result:
        monkeypatch.setattr("sys.argv", ["runnel", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Result(ended.value.code, *capsys.readouterr())

    return run
