"""What an app has kept: whether its store answers, and its checkpoints are whole and belong to its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runnel.app.app import App
from runnel.app.finding import Finding, note, well
from runnel.app.finding import told as told_as
from runnel.app.owner import owner_of
from runnel.errors import RunnelError
from runnel.graph.derived import Derived
from runnel.graph.view import View
from runnel.pipeline.belonging import check_outputs
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.place import Place
from runnel.views.addresses import shown


def kept_checks(place: Place, app: App | None, lock: Path, *, has_broker: bool) -> Iterator[Finding]:
    if (owner := owner_of(lock)) is not None:
        yield note("app", f"process {owner} runs it with {place.directory}")
    yield store(place)
    for output in app.graph.outputs if app is not None else ():
        yield checkpoint(place, output, is_running=owner is not None, has_broker=has_broker)


def store(place: Place) -> Finding:
    try:
        names = place.store().names()
    except RunnelError as error:
        return told_as("store", error)
    return well("store", f"{shown(place.views)}: {', '.join(names) or 'no views yet'}")


def checkpoint(place: Place, output: Derived | View, *, is_running: bool, has_broker: bool) -> Finding:
    what = f"checkpoint of {output.name}"
    found = Checkpoint(place.checkpoint_of(output.name))
    if has_broker:
        try:
            check_outputs(place, [output])
        except RunnelError as error:
            return told_as(what, error)
    belongs = "" if has_broker else "; whether it belongs to its output cannot be told without a broker"
    if not found.is_begun:
        return well(what, f"not begun yet{belongs}")
    torn = [] if is_running else found.torn()
    if torn:
        names = ", ".join(str(each.relative_to(found.path)) for each in torn)
        return note(what, f"lost by half: {names}", "nothing: the next start mends it, and repeats a batch")
    return well(what, f"at batch {found.last_done}, whole{belongs}")
