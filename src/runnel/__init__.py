"""Runnel: a streaming data platform in Python.

with runnel.Broker() as broker:  # a broker for every Kafka client, in this process
    print(broker.bootstrap)

app = runnel.App("shop")  # streams, tables and views, kept by functions of PySpark

runnel.views(".runnel")["clicks_per_minute"].get(page="p1")  # a view, read from anywhere

The durable log can be used alone: `from runnel.log import open_log`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from runnel.version import __version__

if TYPE_CHECKING:
    from runnel.app.app import App
    from runnel.broker.embedded import Broker
    from runnel.graph import Alert, Avro, Debezium, Json, Raw, Reading, Text, Writing
    from runnel.pipeline.bloom import bloom_filter, might_contain

__all__ = [
    "Alert",
    "App",
    "Avro",
    "Broker",
    "Debezium",
    "Json",
    "Raw",
    "Reading",
    "Text",
    "Writing",
    "__version__",
    "bloom_filter",
    "might_contain",
    "views",
]

HOMES = {
    "Alert": "runnel.graph",
    "App": "runnel.app.app",
    "Avro": "runnel.graph",
    "Broker": "runnel.broker.embedded",
    "Debezium": "runnel.graph",
    "Json": "runnel.graph",
    "Raw": "runnel.graph",
    "Reading": "runnel.graph",
    "Text": "runnel.graph",
    "Writing": "runnel.graph",
    "bloom_filter": "runnel.pipeline.bloom",
    "might_contain": "runnel.pipeline.bloom",
    "views": "runnel.views",
}


def __getattr__(name: str) -> Any:
    """The public names are loaded when they are first used: `import runnel` stays light."""
    if name not in HOMES:
        raise AttributeError(f"module 'runnel' has no attribute {name!r}")
    home = import_module(HOMES[name])
    return getattr(home, name, home)  # `views` is the package itself, which can be called
