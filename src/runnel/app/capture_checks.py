"""What an app needs of the databases that it captures: that they answer, and have the tables."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.app.app import App
from runnel.app.captured import Captured
from runnel.app.capturing import opened
from runnel.app.finding import Finding, told, well
from runnel.errors import RunnelError


def capture_checks(app: App | None) -> Iterator[Finding]:
    for captured in app.captures if app is not None else ():
        yield database(captured)


def database(captured: Captured) -> Finding:
    """Nothing is made in it for the asking."""
    try:
        source = opened(captured)
    except RunnelError as error:
        return told(captured.where, error)
    try:
        tables = ", ".join(str(table) for table in source.tables())
    except RunnelError as error:
        return told(captured.where, error)
    finally:
        source.close()
    return well(captured.where, f"{captured.address} answers: {tables or 'no tables'}")
