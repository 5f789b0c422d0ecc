"""One file for each API, named as it is: its contract on top, and its `handle`.

A file is loaded when its API is first asked for: a start does not wait for what nobody needs.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from runnel.broker.request import Handler
from runnel.protocol.own import api_of


@cache
def handler_of(api_key: int) -> Handler:
    handle: Handler = import_module(f"{__name__}.{api_of(api_key).name.lower()}").handle
    return handle
