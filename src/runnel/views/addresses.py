"""The address of a store as it may be shown: without a password."""

from __future__ import annotations

import re

PARAMETER = re.compile(r"(?<=password=)[^&]*")
PASSWORD = re.compile(r":[^:/@]*@")


def shown(address: str) -> str:
    """Whatever is wrong with it: a person who mistyped an address has typed the password, too."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return PASSWORD.sub(":***@", PARAMETER.sub("***", address))
    before, question, parameters = rest.partition("?")
    if "@" in parameters and "@" not in before:  # a password with a question mark in it
        before, question, parameters = rest, "", ""
    credentials, at, place = before.rpartition("@")
    masked = PARAMETER.sub("***", parameters)
    return (
        f"{scheme}{separator}{credentials.partition(':')[0]}{at}{place}{question}{'***' if '@' in masked else masked}"
    )
