"""The address of a store as it may be shown: without a password."""

from __future__ import annotations

import re

PARAMETER = re.compile(r"(?<=password=)[^&]*")


def shown(address: str) -> str:
    """Whatever is wrong with it: a person who mistyped an address has typed the password, too."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    credentials, at, place = rest.rpartition("@")
    return f"{scheme}{separator}{credentials.partition(':')[0]}{at}{PARAMETER.sub('***', place)}"
