"""Runnel: a streaming data platform in Python.

with runnel.Broker() as broker:  # a broker for every Kafka client, in this process
    print(broker.bootstrap)

The durable log can be used alone: `from runnel.log import open_log`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnel.broker.embedded import Broker

__version__ = "0.1.0.dev0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:
    """The public names are loaded when they are first used: `import runnel` stays light."""
    if name == "Broker":
        from runnel.broker.embedded import Broker  # noqa: PLC0415

        return Broker
    raise AttributeError(f"module 'runnel' has no attribute {name!r}")
