"""Runnel: a streaming data platform in Python.

The durable log can be used alone: `from runnel.log import open_log`.
"""

__version__ = "0.1.0.dev0"
__all__ = ["__version__"]
