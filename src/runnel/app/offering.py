"""What the outputs that feed one of them offer to it, where they do not run themselves."""

from __future__ import annotations

from runnel.app.app import App
from runnel.graph.graph import Output
from runnel.graph.view import View
from runnel.pipeline.body_failure import body_of
from runnel.pipeline.place import Place
from runnel.pipeline.query import Known
from runnel.pipeline.session import Session
from runnel.pipeline.stream_query import StreamQuery
from runnel.pipeline.view_query import ViewQuery


def offered(app: App, wanted: Output, spark: Session, place: Place) -> Known:
    """Their bodies are called, and nothing is started. `place` must not be that of the app, which may run."""
    known = Known()
    for output in _feeding(app, wanted):
        with body_of(output):
            if isinstance(output, View):
                view = ViewQuery(spark, place, output, known)
                known.views[output.name] = view.columns
                view.close()
            else:
                stream = StreamQuery(spark, place, output, known)
                known.streams[output.name] = stream.columns
                stream.close()
    return known


def _feeding(app: App, output: Output) -> list[Output]:
    """In an order in which each comes behind those that feed it."""
    found: list[Output] = []
    for source in app.graph.sources(output):
        found += [each for each in (*_feeding(app, source), source) if each not in found]
    return found
