"""What the user declared, as plain data: streams, tables, views, their inputs, and the checks that need no Spark.

Nothing here reads a file, opens a socket or knows pyspark.
"""

from runnel.graph.alert import Alert, AlertRule
from runnel.graph.derived import Derived, Writing
from runnel.graph.errors import Cycle, InvalidDeclaration, NameTaken
from runnel.graph.event_time import RECORD_TIME, EventTime
from runnel.graph.formats import Avro, Columns, Debezium, Json, Raw, Text
from runnel.graph.graph import Graph
from runnel.graph.inputs import CHANGE, METADATA, Input
from runnel.graph.reading import Reading
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.view import View

__all__ = [
    "CHANGE",
    "METADATA",
    "RECORD_TIME",
    "Alert",
    "AlertRule",
    "Avro",
    "Columns",
    "Cycle",
    "Debezium",
    "Derived",
    "EventTime",
    "Graph",
    "Input",
    "InvalidDeclaration",
    "Json",
    "NameTaken",
    "Raw",
    "Reading",
    "Stream",
    "Table",
    "Text",
    "View",
    "Writing",
]
