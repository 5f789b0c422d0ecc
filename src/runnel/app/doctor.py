"""Looks over all that an app needs before it is run, and says of each what is wrong and what to do. It changes nothing,
and starts no Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from runnel.app.app import App
from runnel.app.broker_checks import broker_checks
from runnel.app.capture_checks import capture_checks
from runnel.app.finding import Finding, Mark, told, well, wrong
from runnel.app.loading import load_app
from runnel.app.machine_checks import machine_checks
from runnel.app.owner import LOCK
from runnel.errors import RunnelError
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.place import Place
from runnel.views.opening import absolute

PATIENCE = 5.0  # seconds, with a broker
NO_APP = "runnel"


@dataclass(frozen=True)
class Patient:
    """What is to be looked over. Without a `file`, what an app declares is left out; with `is_chosen`, a broker should
    be at the address.
    """

    file: Path | None
    bootstrap: str
    data: Path
    views: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    is_chosen: bool = True


def examine(patient: Patient) -> Iterator[Finding]:
    of_machine = list(machine_checks(patient.data))
    yield from of_machine
    has_spark = not any(each.what == "Spark" and each.mark is Mark.WRONG for each in of_machine)
    app: App | None = None
    if patient.file is not None:
        try:
            with redirect_stdout(sys.stderr):  # what the file prints is no part of what is found
                app = load_app(patient.file)
            yield well("app", _declared(app))
        except RunnelError as error:
            yield told("app", error)
    yield from capture_checks(app)
    kafka = Kafka(patient.bootstrap, patient.settings, PATIENCE)
    try:
        of_broker = list(broker_checks(kafka, app, is_chosen=patient.is_chosen))
    except RunnelError as error:  # a setting that is none
        of_broker = [told("broker", error)]
    yield from of_broker
    if not has_spark:
        return
    from runnel.app.kept_checks import kept_checks  # noqa: PLC0415  # it needs PySpark, which may be missing

    name = app.name if app is not None else NO_APP
    place = Place(name, kafka, patient.data, absolute(patient.views or str(patient.data)))
    has_broker = of_broker[0].mark is Mark.WELL
    try:
        yield from kept_checks(place, app, patient.data / LOCK, has_broker=has_broker)
    except NotADirectoryError:
        return  # which is told of the disk
    except OSError as error:
        yield wrong("data directory", f"{error.filename}: {error.strerror}", "ask as the user who runs the app")


def _declared(app: App) -> str:
    names = ", ".join(output.name for output in app.graph.outputs)
    return f"{app.name}: {names or 'it has nothing to run yet'}"
